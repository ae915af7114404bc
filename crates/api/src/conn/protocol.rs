//! The first bytes of a connection: which protocol it speaks. Bytes that are no protocol of ours get no answer, and a
//! head of HTTP/1 whose lines do not end as they must is refused, on every port alike.

use crate::acceptor::ClientConn;
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

pub async fn sniff(conn: &mut ClientConn, may_be_peer: bool) -> io::Result<Protocol> {
    if may_be_peer && conn.begins_with(&GREETINGS).await? {
        return Ok(Protocol::Peer);
    }
    let mut received = BytesMut::new();
    loop {
        if received.starts_with(PREFACE) {
            return Ok(Protocol::Http2 { input: received.split_off(PREFACE.len()) });
        }
        if !PREFACE.starts_with(&received) {
            break;
        }
        read_more(conn, &mut received).await?;
    }
    let head =
        timeout(HEAD_TIMEOUT, read_head(conn, received)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    conn.unread(head);
    Ok(Protocol::Http1)
}

async fn read_more(conn: &mut ClientConn, received: &mut BytesMut) -> io::Result<()> {
    match conn.read_buf(received).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The bytes up to the end of the first head.
async fn read_head(conn: &mut ClientConn, mut received: BytesMut) -> io::Result<Bytes> {
    loop {
        match check_head(&received) {
            HeadCheck::Part if received.len() < HEAD_BYTES_MAX => read_more(conn, &mut received).await?,
            HeadCheck::Part | HeadCheck::Whole => return Ok(received.freeze()),
            HeadCheck::NotHttp => return Err(io::ErrorKind::InvalidData.into()),
            HeadCheck::BareLineFeed => {
                conn.write_all(BARE_LINE_FEED).await?;
                conn.shutdown().await?;
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum HeadCheck {
    Part,
    Whole,
    /// The first line names no version of HTTP/1.
    NotHttp,
    /// A line ends with LF alone, which proxies read in different ways.
    BareLineFeed,
}

fn check_head(bytes: &[u8]) -> HeadCheck {
    let mut first = true;
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let Some(line) = rest[..end].strip_suffix(b"\r") else { return HeadCheck::BareLineFeed };
        rest = &rest[end + 1..];
        match (first, line.is_empty()) {
            // Every server skips empty lines before the first.
            (true, true) => {}
            (true, false) if !line.ends_with(b" HTTP/1.1") && !line.ends_with(b" HTTP/1.0") => {
                return HeadCheck::NotHttp;
            }
            (true, false) => first = false,
            (false, true) => return HeadCheck::Whole,
            (false, false) => {}
        }
    }
    HeadCheck::Part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_judged_as_soon_as_it_can_be() {
        for (bytes, expected) in [
            (&b""[..], HeadCheck::Part),
            (b"GET / HTTP/1.1\r\nhost: a\r\n", HeadCheck::Part),
            (b"GET / HTTP/1.1\r\nhost: a\r\n\r\nbody", HeadCheck::Whole),
            (b"\r\nGET / HTTP/1.0\r\n\r\n", HeadCheck::Whole),
            (b"INVALID CONNECTION PREFACE\r\n", HeadCheck::NotHttp),
            (b"GET / HTTP/2.0\r\n", HeadCheck::NotHttp),
            (b"GET / HTTP/1.1\n", HeadCheck::BareLineFeed),
            (b"GET / HTTP/1.1\r\nhost: a\n\r\n", HeadCheck::BareLineFeed),
            (b"GET / HTTP/1.1\r\nhost: a\r\n\n", HeadCheck::BareLineFeed),
        ] {
            assert_eq!(check_head(bytes), expected, "{:?}", bytes.escape_ascii().to_string());
        }
    }

    #[test]
    fn the_refusal_has_the_length_that_it_says() {
        let text = std::str::from_utf8(BARE_LINE_FEED).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(text.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
