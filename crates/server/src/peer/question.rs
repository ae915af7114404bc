//! One request and its response on the peer port, for a node that is not a member yet.
//! Both are length-prefixed bytes that `join` interprets; they are bounded, and must arrive before a deadline.

use super::handshake::{QUESTION_MAGIC, VERSION};
use super::pending::PendingSlot;
use super::security::PeerAuth;
use super::wire::PeerConn;
use super::{PeerShared, cut};
use bytes::{BufMut, Bytes};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use tls::{DialTls, PeerClaim};

const BYTES_MAX: usize = 1024 * 1024;
/// Of a question whose sender has not proven to be of the cluster.
const UNPROVEN_BYTES_MAX: usize = 16 * 1024;

/// What is known of the node that sent the request.
pub struct QuestionSender<'a> {
    wire: &'a PeerConn,
    guard: &'a PeerAuth,
}

impl QuestionSender<'_> {
    /// Whether the sender has proven this claim.
    pub fn proves(&self, claim: PeerClaim<'_>) -> bool {
        self.guard.proves(self.wire, claim)
    }

    /// Whether the sender has proven this claim, or no proof is demanded.
    pub fn may_be(&self, claim: PeerClaim<'_>) -> bool {
        self.guard.admits(self.wire, claim)
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.wire.socket().peer_addr().ok()
    }

    /// The response is encrypted for the node that asks.
    pub fn is_encrypted(&self) -> bool {
        self.wire.seal().is_some()
    }
}

/// Sends a request to the node at this address; `dial` says how each connection is encrypted.
pub(crate) fn ask(
    address: &str,
    question: &[u8],
    timeout: Duration,
    dial: impl Fn() -> Option<DialTls>,
) -> io::Result<Bytes> {
    let mut trouble = io::Error::new(io::ErrorKind::NotFound, "the address has no IP address");
    for place in address.to_socket_addrs()? {
        let asked = TcpStream::connect_timeout(&place, timeout).and_then(|stream| {
            stream.set_write_timeout(Some(timeout))?;
            let wire = PeerConn::dial(stream, dial(), timeout)?;
            let mut bytes = QUESTION_MAGIC.to_vec();
            bytes.put_u16_le(VERSION);
            put(&mut bytes, question);
            wire.write_all(&bytes)?;
            read(&wire, Instant::now() + timeout, BYTES_MAX)
        });
        match asked {
            Ok(answer) => return Ok(answer),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

/// Reads the rest of a request whose first bytes are read, and answers it. A node that gets no response asks again.
/// Senders that have proven nothing may ask little, and so many at a time as `slot` says.
pub(super) fn answer(shared: &PeerShared, wire: &PeerConn, guard: &PeerAuth, slot: &PendingSlot) {
    let deadline = Instant::now() + shared.timing.handshake;
    let is_proven = guard.proves(wire, PeerClaim::Peer);
    let (has_place, bytes_max) =
        if is_proven { (slot.set_proven(), BYTES_MAX) } else { (slot.begin_question(), UNPROVEN_BYTES_MAX) };
    let question = if has_place { read(wire, deadline, bytes_max).ok() } else { None };
    if let Some(question) = question.filter(|_| slot.begin_answer()) {
        let mut bytes = Vec::new();
        put(&mut bytes, &(shared.on_question)(question, &QuestionSender { wire, guard }));
        if let Err(error) = wire.write_all(&bytes) {
            tracing::warn!(%error, "cannot answer a join request");
        }
    }
    cut(wire.socket());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn read(wire: &PeerConn, deadline: Instant, bytes_max: usize) -> io::Result<Bytes> {
    let mut length = [0; 4];
    wire.read_exact_by(&mut length, deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    wire.read_exact_by(&mut bytes, deadline)?;
    Ok(bytes.into())
}
