//! One question and its answer on the peer port, for somebody who is not a member yet: who belongs to the cluster?
//! Both are length-prefixed bytes whose meaning `join` knows; they are bounded, and must be there before a deadline.

use super::handshake::{QUESTION_MAGIC, VERSION, read_exact_by};
use super::{Shared, cut};
use bytes::{BufMut, Bytes};
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const BYTES_MAX: usize = 1024 * 1024;

/// Asks whoever listens there.
pub(crate) fn ask(address: &str, question: &[u8], timeout: Duration) -> io::Result<Bytes> {
    let mut trouble = io::Error::new(io::ErrorKind::NotFound, "the address has no IP address");
    for address in address.to_socket_addrs()? {
        let asked = TcpStream::connect_timeout(&address, timeout).and_then(|stream| {
            stream.set_write_timeout(Some(timeout))?;
            let mut bytes = QUESTION_MAGIC.to_vec();
            bytes.put_u16_le(VERSION);
            put(&mut bytes, question);
            (&mut &stream).write_all(&bytes)?;
            read(&stream, Instant::now() + timeout)
        });
        match asked {
            Ok(answer) => return Ok(answer),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

/// Reads the rest of a question whose first bytes are read, and answers it. Whoever does not get an answer asks again.
pub(super) fn answer(shared: &Shared, stream: &TcpStream) {
    let deadline = Instant::now() + shared.timing.handshake;
    if let Ok(question) = read(stream, deadline) {
        let mut bytes = Vec::new();
        put(&mut bytes, &(shared.on_question)(question));
        if let Err(error) = (&mut &*stream).write_all(&bytes) {
            tracing::warn!(%error, "cannot answer who belongs to the cluster");
        }
    }
    cut(stream);
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn read(stream: &TcpStream, deadline: Instant) -> io::Result<Bytes> {
    let mut length = [0; 4];
    read_exact_by(stream, &mut length, deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    read_exact_by(stream, &mut bytes, deadline)?;
    Ok(bytes.into())
}
