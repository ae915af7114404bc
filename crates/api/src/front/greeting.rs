//! The first bytes of a connection: which protocol it speaks. Bytes that are no protocol of ours get no answer, and a
//! head of HTTP/1 whose lines do not end as they must is refused, on every port alike.

use crate::door::Guest;
use bytes::{Bytes, BytesMut};
use http2::PREFACE;
use server::peer::GREETINGS;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// For the first head of HTTP/1, however slowly its bytes arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A longer head is refused by the HTTP/1 server.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const BARE_LINE_FEED: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 31\r\nconnection: close\r\n\r\n\
      lines of a head end with CR LF\n";

pub enum Protocol {
    /// With what came after the preface.
    Http2 {
        input: BytesMut,
    },
    Http1,
    /// Another node of the cluster, or one that wants to join.
    Peer,
}

pub async fn recognise(guest: &mut Guest, may_be_peer: bool) -> io::Result<Protocol> {
    if may_be_peer && guest.begins_with(&GREETINGS).await? {
        return Ok(Protocol::Peer);
    }
    let mut heard = BytesMut::new();
    loop {
        if heard.starts_with(PREFACE) {
            return Ok(Protocol::Http2 { input: heard.split_off(PREFACE.len()) });
        }
        if !PREFACE.starts_with(&heard) {
            break;
        }
        read_more(guest, &mut heard).await?;
    }
    let head =
        timeout(HEAD_TIMEOUT, hear_head(guest, heard)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    guest.unread(head);
    Ok(Protocol::Http1)
}

async fn read_more(guest: &mut Guest, heard: &mut BytesMut) -> io::Result<()> {
    match guest.read_buf(heard).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The bytes up to the end of the first head.
async fn hear_head(guest: &mut Guest, mut heard: BytesMut) -> io::Result<Bytes> {
    loop {
        match judge(&heard) {
            Head::Part if heard.len() < HEAD_BYTES_MAX => read_more(guest, &mut heard).await?,
            Head::Part | Head::Whole => return Ok(heard.freeze()),
            Head::NotHttp => return Err(io::ErrorKind::InvalidData.into()),
            Head::BareLineFeed => {
                guest.write_all(BARE_LINE_FEED).await?;
                guest.shutdown().await?;
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Head {
    Part,
    Whole,
    /// The first line names no version of HTTP/1.
    NotHttp,
    /// A line ends with LF alone, which proxies read in different ways.
    BareLineFeed,
}

fn judge(bytes: &[u8]) -> Head {
    let mut first = true;
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let Some(line) = rest[..end].strip_suffix(b"\r") else { return Head::BareLineFeed };
        rest = &rest[end + 1..];
        match (first, line.is_empty()) {
            // Every server skips empty lines before the first.
            (true, true) => {}
            (true, false) if !line.ends_with(b" HTTP/1.1") && !line.ends_with(b" HTTP/1.0") => {
                return Head::NotHttp;
            }
            (true, false) => first = false,
            (false, true) => return Head::Whole,
            (false, false) => {}
        }
    }
    Head::Part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_judged_as_soon_as_it_can_be() {
        for (bytes, expected) in [
            (&b""[..], Head::Part),
            (b"GET / HTTP/1.1\r\nhost: a\r\n", Head::Part),
            (b"GET / HTTP/1.1\r\nhost: a\r\n\r\nbody", Head::Whole),
            (b"\r\nGET / HTTP/1.0\r\n\r\n", Head::Whole),
            (b"INVALID CONNECTION PREFACE\r\n", Head::NotHttp),
            (b"GET / HTTP/2.0\r\n", Head::NotHttp),
            (b"GET / HTTP/1.1\n", Head::BareLineFeed),
            (b"GET / HTTP/1.1\r\nhost: a\n\r\n", Head::BareLineFeed),
            (b"GET / HTTP/1.1\r\nhost: a\r\n\n", Head::BareLineFeed),
        ] {
            assert_eq!(judge(bytes), expected, "{:?}", bytes.escape_ascii().to_string());
        }
    }

    #[test]
    fn the_refusal_has_the_length_that_it_says() {
        let text = std::str::from_utf8(BARE_LINE_FEED).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(text.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
