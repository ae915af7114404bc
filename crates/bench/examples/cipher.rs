//! What TLS must cost: the processor time in which this library opens the bytes of a call and seals those of its answer, in memory,
//! with the certificate and the cipher of the tests. Bytes go in by arguments; one JSON object comes out.

#![expect(clippy::print_stdout, reason = "a command: its figures are what was asked for")]

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use tls::{ClientFiles, MinVersion, ServerFiles, ServerTls};
use tokio_rustls::rustls::{ClientConnection, ServerConnection};

const PEM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tls/tests/pem");
/// The most that a record holds.
const RECORD_BYTES: usize = 16 * 1024;
/// How much is measured, in nanoseconds of the processor.
const ENOUGH_NS: u64 = 500_000_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Bytes of a call and of its answer.
#[derive(Clone, Copy)]
struct Call {
    received: usize,
    sent: usize,
}

struct Pair {
    client: ClientConnection,
    server: ServerConnection,
}

fn main() -> Outcome<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [received, sent] = numbers[..] else {
        return Err("give the bytes of a call and of its answer".into());
    };
    let call = Call { received: received.max(1), sent: sent.max(1) };
    let in_a_record = (RECORD_BYTES / call.received.max(call.sent)).max(1);
    let mut pair = Pair::connect()?;
    let (whole, alone) = (pair.us_per_call(call, in_a_record)?, pair.us_per_call(call, 1)?);
    println!("{{\"cipher_us\":{whole:.3},\"record_us\":{alone:.3}}}");
    Ok(())
}

impl Pair {
    /// Behind the handshake.
    fn connect() -> Outcome<Pair> {
        let file = |name: &str| Path::new(PEM).join(name);
        let files = ServerFiles { cert: file("server.pem"), key: file("server.key"), ca: None, crl: None };
        let server = ServerTls::open(files, MinVersion::Tls12)?;
        let client = ClientFiles { ca: Some(file("ca.pem")), identity: None }.config(&[])?;
        let name = ClientFiles::name_of("127.0.0.1:1").ok_or("an address is a name")?;
        let mut pair = Pair {
            client: ClientConnection::new(client, name)?,
            server: ServerConnection::new(server.config())?,
        };
        while pair.client.is_handshaking() || pair.server.is_handshaking() {
            let mut flight = Vec::new();
            while pair.client.wants_write() {
                pair.client.write_tls(&mut flight)?;
            }
            pair.open(&flight, &mut [])?;
            let mut flight = Vec::new();
            while pair.server.wants_write() {
                pair.server.write_tls(&mut flight)?;
            }
            let mut left = &flight[..];
            while !left.is_empty() {
                pair.client.read_tls(&mut left)?;
                pair.client.process_new_packets()?;
            }
        }
        Ok(pair)
    }

    /// The server's side of calls of which so many come and are answered in one record.
    fn us_per_call(&mut self, call: Call, in_a_record: usize) -> Outcome<f64> {
        let (request, answer) = (vec![7; call.received * in_a_record], vec![7; call.sent * in_a_record]);
        let (mut into, mut wire) = (vec![0; request.len()], Vec::with_capacity(2 * RECORD_BYTES));
        let (mut spent, mut calls) = (0, 0);
        while spent < ENOUGH_NS {
            // Some at a time, so that looking at the clock costs nothing.
            const TIMES: usize = 64;
            let mut sealed = Vec::new();
            for _ in 0..TIMES {
                let mut flight = Vec::new();
                self.client.writer().write_all(&request)?;
                while self.client.wants_write() {
                    self.client.write_tls(&mut flight)?;
                }
                sealed.push(flight);
            }
            let begun = processor_ns()?;
            for flight in &sealed {
                self.open(flight, &mut into)?;
                self.server.writer().write_all(&answer)?;
                wire.clear();
                while self.server.wants_write() {
                    self.server.write_tls(&mut wire)?;
                }
            }
            spent += processor_ns()? - begun;
            calls += TIMES * in_a_record;
        }
        Ok(spent as f64 / 1e3 / calls as f64)
    }

    fn open(&mut self, mut sealed: &[u8], into: &mut [u8]) -> Outcome<()> {
        let mut opened = 0;
        while !sealed.is_empty() {
            self.server.read_tls(&mut sealed)?;
            if self.server.process_new_packets()?.plaintext_bytes_to_read() > 0 {
                opened += self.server.reader().read(&mut into[opened..])?;
            }
        }
        Ok(())
    }
}

/// What this thread has had of a processor.
fn processor_ns() -> Outcome<u64> {
    let told = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(told.split_whitespace().next().ok_or("no time is told")?.parse()?)
}
