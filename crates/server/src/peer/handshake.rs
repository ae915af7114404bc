//! The first bytes of a peer stream: who dials whom in which cluster, and the acceptor's answer.
//! A `Hello` goes one way, a `Verdict` with the acceptor's protocol version the other; both have a fixed size
//! and must be there before a deadline, however slowly the bytes drip in.

use super::wire::PeerConn;
use base::checksum::crc32;
use base::codec::{Reader, put_checksum};
use base::{ClusterId, NodeId};
use bytes::{BufMut, Bytes};
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

pub(super) const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"ALTHINGP";
/// The magic of a node that is not a member yet; as long as the other.
pub(super) const QUESTION_MAGIC: &[u8; 8] = b"ALTHINGJ";
/// How every connection to the peer port begins; a shared port recognises peers by it.
pub const GREETINGS: [&[u8; 8]; 2] = [MAGIC, QUESTION_MAGIC];
/// Magic and version: the prefix of every version of the protocol.
const PREFIX_BYTES: usize = MAGIC.len() + 2;
pub(super) const HELLO_BYTES: usize = PREFIX_BYTES + 3 * 8 + 4;
const ANSWER_BYTES: usize = 3;
/// What a hello of another version may hold beyond its first bytes.
const DRAIN_BYTES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub cluster: ClusterId,
    pub from: NodeId,
    pub to: NodeId,
}

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0";
const HTTP_METHODS: [&[u8]; 5] = [b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE "];
/// The client library knows the port by the first words.
const WRONG_PORT: &str = "this is the port for members of the cluster (peer-addr, 2380 by default); clients connect to client-addr (2379 by default)\n";
// The length of a frame is written as one byte.
const _: () = assert!(WRONG_PORT.len() + 8 < 256);

/// The acceptor's answer. Zero is not used, so that a stream of zeroes is never taken for a welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verdict {
    Welcome = 1,
    WrongCluster = 2,
    WrongMember = 3,
    UnknownMember = 4,
    UnsupportedVersion = 5,
    Removed = 6,
    NotNamed = 7,
    NotProven = 8,
    OtherAddress = 9,
}

impl Verdict {
    fn from_number(number: u8) -> Option<Verdict> {
        use Verdict::*;
        let known = [Welcome, WrongCluster, WrongMember, UnknownMember, UnsupportedVersion, Removed];
        known.into_iter().chain([NotNamed, NotProven, OtherAddress]).find(|verdict| *verdict as u8 == number)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Welcome => "welcome",
            Verdict::WrongCluster => {
                "it belongs to another cluster, which does not list this one as a region \
                 (compare --cluster-token, --initial-cluster and `althing region ls`)"
            }
            Verdict::WrongMember => "another member answers at that address (compare --initial-cluster)",
            Verdict::UnknownMember => "it does not know this member (compare --initial-cluster)",
            Verdict::Removed => "this member was removed from the cluster",
            Verdict::NotNamed => {
                "this member's certificate does not name the address at which the cluster reaches it \
                 (compare --peer-cert-file and --advertise-peer)"
            }
            Verdict::NotProven => {
                "it asks for a proof of the secret that its cluster, or the two regions, share \
                 (compare --cluster-secret-file and --region-secret)"
            }
            Verdict::OtherAddress => {
                "this member's connections come from an address that is no member's; give the cluster a secret \
                 (`althing cluster secure`), or list the address in --initial-cluster; regions share one by --region-secret"
            }
            Verdict::UnsupportedVersion => "it does not speak this version of the peer protocol",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the handshake broke off: {0}")]
    Io(#[from] io::Error),
    #[error("the other side does not speak the peer protocol")]
    Garbage,
    /// Not a peer, but a node that wants to join.
    #[error("the node asks to join and is not a peer yet")]
    Question,
    #[error("turned away: {verdict}; it speaks version {version}, this member speaks {VERSION}")]
    TurnedAway { verdict: Verdict, version: u16 },
}

impl HandshakeError {
    /// For the audit log.
    pub fn name(&self) -> String {
        match self {
            HandshakeError::Io(_) => "Io".to_owned(),
            HandshakeError::Garbage => "Garbage".to_owned(),
            HandshakeError::Question => "Question".to_owned(),
            HandshakeError::TurnedAway { verdict, .. } => format!("{verdict:?}"),
        }
    }
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_BYTES);
        out.put_slice(MAGIC);
        out.put_u16_le(VERSION);
        out.put_u64_le(self.cluster.0);
        out.put_u64_le(self.from.0);
        out.put_u64_le(self.to.0);
        put_checksum(&mut out);
        out
    }

    fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Hello> {
        let (body, crc) = bytes.split_at(HELLO_BYTES - 4);
        if crc32(&[body]).to_le_bytes() != crc {
            return None;
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(&body[PREFIX_BYTES..]));
        let hello = Hello {
            cluster: ClusterId(reader.u64()?),
            from: NodeId(reader.u64()?),
            to: NodeId(reader.u64()?),
        };
        Some(hello)
    }
}

/// The dialler's side: says hello and waits for the welcome.
pub(super) fn send_hello(wire: &PeerConn, hello: Hello, timeout: Duration) -> Result<(), HandshakeError> {
    let deadline = Instant::now() + timeout;
    wire.socket().set_write_timeout(Some(timeout))?;
    wire.write_all(&hello.encode())?;
    let mut answer = [0; ANSWER_BYTES];
    wire.read_exact_by(&mut answer, deadline)?;
    let version = u16::from_le_bytes([answer[1], answer[2]]);
    match Verdict::from_number(answer[0]) {
        Some(Verdict::Welcome) => Ok(()),
        Some(verdict) => Err(HandshakeError::TurnedAway { verdict, version }),
        None => Err(HandshakeError::Garbage),
    }
}

/// The acceptor's side: reads a hello, lets `check` decide, and answers. HTTP is told which port this is; other garbage
/// gets no answer at all.
pub(super) fn receive(
    wire: &PeerConn,
    timeout: Duration,
    check: impl Fn(&Hello) -> Verdict,
) -> Result<(Hello, Verdict), HandshakeError> {
    let deadline = Instant::now() + timeout;
    wire.socket().set_write_timeout(Some(timeout))?;
    let mut bytes = [0; HELLO_BYTES];
    wire.read_exact_by(&mut bytes[..PREFIX_BYTES], deadline)?;
    if &bytes[..MAGIC.len()] == QUESTION_MAGIC {
        return Err(HandshakeError::Question);
    }
    if &bytes[..MAGIC.len()] != MAGIC {
        if let Some(answer) = misdirected(&bytes[..MAGIC.len()]) {
            wire.write_all(&answer)?;
            drain(wire, deadline)?;
        }
        return Err(HandshakeError::Garbage);
    }
    let version = u16::from_le_bytes([bytes[MAGIC.len()], bytes[MAGIC.len() + 1]]);
    if version != VERSION {
        // What follows the version may look different there, so the answer does not wait for it.
        answer(wire, Verdict::UnsupportedVersion)?;
        drain(wire, deadline)?;
        return Err(HandshakeError::TurnedAway { verdict: Verdict::UnsupportedVersion, version });
    }
    wire.read_exact_by(&mut bytes[PREFIX_BYTES..], deadline)?;
    let hello = Hello::decode(&bytes).ok_or(HandshakeError::Garbage)?;
    let verdict = check(&hello);
    answer(wire, verdict)?;
    Ok((hello, verdict))
}

/// The answer to a client that has taken the wrong port, if it speaks HTTP.
fn misdirected(first: &[u8]) -> Option<Vec<u8>> {
    if HTTP2_PREFACE.starts_with(first) {
        // An empty SETTINGS frame, and a GOAWAY that no stream was looked at, with HTTP_1_1_REQUIRED and the reason.
        let mut answer = vec![0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8 + WRONG_PORT.len() as u8, 7, 0, 0, 0, 0, 0];
        answer.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 13]);
        answer.extend_from_slice(WRONG_PORT.as_bytes());
        return Some(answer);
    }
    let is_http = HTTP_METHODS.iter().any(|method| first.starts_with(method));
    let length = WRONG_PORT.len();
    is_http.then(|| {
        let head = "HTTP/1.1 421 Misdirected Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length:";
        format!("{head} {length}\r\n\r\n{WRONG_PORT}").into_bytes()
    })
}

fn answer(wire: &PeerConn, verdict: Verdict) -> io::Result<()> {
    let [low, high] = VERSION.to_le_bytes();
    wire.write_all(&[verdict as u8, low, high])
}

/// Closing a socket that holds unread bytes resets it, and the answer may be lost with it. So the rest of an
/// unknown hello is read, within reason, until the dialler has understood and closes.
fn drain(wire: &PeerConn, deadline: Instant) -> io::Result<()> {
    wire.socket().shutdown(Shutdown::Write)?;
    match wire.read_exact_by(&mut [0; DRAIN_BYTES], deadline) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello { cluster: ClusterId(7), from: NodeId(1), to: NodeId(2) };

    #[test]
    fn a_hello_reads_back() {
        let bytes: [u8; HELLO_BYTES] = HELLO.encode().try_into().unwrap();
        assert_eq!(Hello::decode(&bytes), Some(HELLO));
    }

    #[test]
    fn http_is_told_which_port_it_has_found() {
        let told = String::from_utf8(misdirected(b"GET /ver").unwrap()).unwrap();
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())) && body == WRONG_PORT);
        let frames = misdirected(b"PRI * HT").unwrap();
        assert_eq!((frames[3], frames[12], frames.len()), (4, 7, 9 + 9 + 8 + WRONG_PORT.len()));
        assert_eq!(usize::from(frames[11]), frames.len() - 18);
        for other in [&b"SSH-2.0-"[..], &[0; 8], &[0x16, 3, 1, 2, 0, 1, 0, 1]] {
            assert_eq!(misdirected(other), None);
        }
    }

    #[test]
    fn a_hello_with_any_flipped_bit_after_the_version_is_garbage() {
        let bytes: [u8; HELLO_BYTES] = HELLO.encode().try_into().unwrap();
        for bit in PREFIX_BYTES * 8..HELLO_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Hello::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn verdicts_read_back_and_zero_is_none_of_them() {
        assert_eq!(Verdict::from_number(0), None);
        for number in 1..=9 {
            assert_eq!(Verdict::from_number(number).map(|verdict| verdict as u8), Some(number));
        }
        assert_eq!(Verdict::from_number(10), None);
    }
}
