//! The short way for the requests that a store lives on: plain reads and writes of single keys over HTTP/1.1, one after
//! the other on a connection that is kept. Bytes go in, the same handlers that the router has are asked, bytes come out.
//! Whatever is in any way unusual (another path, a query, a header that is not among the plainest) is not judged here:
//! the connection is given back with all that was read, and goes the long way from then on.

use super::asked::{Asked, Whole};
use super::{Rest, data, store};
use crate::door::Guest;
use axum::body::to_bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::limits::MESH_NAME_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use std::io;
use std::io::Write;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

/// A longer head is somebody else's business.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// How long a request may take to come in once it has begun.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may be silent between two.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub struct Quick {
    rest: Rest,
}

/// What a plain request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish<'a> {
    StoreGet(&'a str),
    StorePost,
    DataGet(&'a str),
    DataPut(&'a str),
}

#[derive(Debug, PartialEq, Eq)]
enum Heard<'a> {
    /// Not enough of it yet.
    Part,
    Plain {
        wish: Wish<'a>,
        head_bytes: usize,
        body_bytes: usize,
    },
    Unusual,
}

impl Quick {
    pub fn new(rest: Rest) -> Quick {
        Quick { rest }
    }

    /// Serves until the connection ends, or gives it back for the long way. When it is time to stop, a request that has
    /// begun is answered still.
    pub async fn serve(&self, mut guest: Guest, mut stopping: watch::Receiver<bool>) -> Option<Guest> {
        let mut heard = BytesMut::new();
        let mut out = Vec::new();
        loop {
            let (head_bytes, body_bytes) = match parse(&heard) {
                // Who asks is judged on the long way.
                Heard::Plain { head_bytes, body_bytes, .. }
                    if body_bytes <= self.rest.body_bytes_max() && !self.rest.handle().is_auth_on() =>
                {
                    (head_bytes, body_bytes)
                }
                Heard::Part if heard.is_empty() => {
                    tokio::select! {
                        read = read_more(&mut guest, &mut heard, IDLE_TIMEOUT) => read.ok()?,
                        _ = stopping.wait_for(|stopping| *stopping) => return None,
                    }
                    continue;
                }
                Heard::Part if heard.len() <= HEAD_BYTES_MAX => {
                    read_more(&mut guest, &mut heard, REQUEST_TIMEOUT).await.ok()?;
                    continue;
                }
                _ => {
                    guest.unread(heard.freeze());
                    return Some(guest);
                }
            };
            let whole = head_bytes + body_bytes;
            while heard.len() < whole {
                read_more(&mut guest, &mut heard, REQUEST_TIMEOUT).await.ok()?;
            }
            let request = heard.split_to(whole).freeze();
            let response = self.answer(&request, head_bytes).await;
            out.clear();
            render(response, &mut out).await;
            timeout(REQUEST_TIMEOUT, write(&mut guest, &out)).await.ok()?.ok()?;
        }
    }

    async fn answer(&self, request: &Bytes, head_bytes: usize) -> Response {
        let Heard::Plain { wish, .. } = parse(request) else { unreachable!("it was plain a moment ago") };
        let (rest, body) = (State(self.rest.clone()), Whole(request.slice(head_bytes..)));
        let asked = |key: Option<&str>| Asked::plain(&self.rest, key);
        let outcome = match wish {
            Wish::StoreGet(key) => store::get(rest, asked(Some(key))).await,
            Wish::StorePost => store::post(rest, asked(None), body).await,
            Wish::DataGet(key) => data::get(rest, asked(Some(key))).await,
            Wish::DataPut(key) => data::put(rest, asked(Some(key)), body).await,
        };
        outcome.unwrap_or_else(IntoResponse::into_response)
    }
}

async fn read_more(guest: &mut Guest, into: &mut BytesMut, patience: Duration) -> io::Result<()> {
    into.reserve(4 * 1024);
    match timeout(patience, guest.read_buf(into)).await?? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn write(guest: &mut Guest, bytes: &[u8]) -> io::Result<()> {
    guest.write_all(bytes).await?;
    guest.flush().await
}

fn parse(bytes: &[u8]) -> Heard<'_> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Heard::Part;
    };
    let head = std::str::from_utf8(&bytes[..end]).ok();
    let plain = head.and_then(parse_head);
    plain.map_or(Heard::Unusual, |(wish, body_bytes)| Heard::Plain { wish, head_bytes: end + 4, body_bytes })
}

/// What is wanted, and the length of the body; none if anything about it is unusual.
fn parse_head(head: &str) -> Option<(Wish<'_>, usize)> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if version != "HTTP/1.1" || words.next().is_some() {
        return None;
    }
    let key_in = |base: &str| target.strip_prefix(base).filter(|key| is_plain(key));
    let wish = match method {
        "GET" => key_in("/api/v1/store/keys/")
            .map(Wish::StoreGet)
            .or_else(|| key_in("/v1/data/").map(Wish::DataGet)),
        "POST" => (target == "/api/v1/store/keys").then_some(Wish::StorePost),
        "PUT" => key_in("/v1/data/").map(Wish::DataPut),
        _ => None,
    }?;
    let mut length = None;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        let plain = match name.to_ascii_lowercase().as_str() {
            "host" | "user-agent" | "accept-encoding" => true,
            "accept" => matches!(value, "*/*" | "application/json"),
            "content-type" => matches!(value, "application/json" | "application/x-www-form-urlencoded"),
            "connection" => value.eq_ignore_ascii_case("keep-alive"),
            "content-length" => {
                let digits = value.bytes().all(|byte| byte.is_ascii_digit());
                length.replace(value.parse().ok().filter(|_| digits)?).is_none()
            }
            _ => false,
        };
        if !plain {
            return None;
        }
    }
    match (wish, length) {
        (Wish::StoreGet(_) | Wish::DataGet(_), None | Some(0)) => Some((wish, 0)),
        (Wish::StorePost | Wish::DataPut(_), Some(length)) => Some((wish, length)),
        _ => None,
    }
}

/// A key that stands in a path as it is, and is not also the name of a route.
fn is_plain(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:~".contains(&byte);
    (1..=MESH_NAME_BYTES_MAX).contains(&key.len()) && key.bytes().all(plain)
}

/// As HTTP/1.1 writes a response; its length is always told.
async fn render(response: Response, out: &mut Vec<u8>) {
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("our handlers answer with whole bodies");
    let status = head.status;
    let mut put = |text: &[u8]| out.extend_from_slice(text);
    put(b"HTTP/1.1 ");
    put(status.as_str().as_bytes());
    put(b" ");
    put(status.canonical_reason().unwrap_or("").as_bytes());
    put(b"\r\n");
    for (name, value) in &head.headers {
        put(name.as_str().as_bytes());
        put(b": ");
        put(value.as_bytes());
        put(b"\r\n");
    }
    write!(out, "content-length: {}\r\n\r\n", body.len()).expect("memory takes every write");
    out.extend_from_slice(&body);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "host: a\r\nUser-Agent: curl/8\r\naccept: */*\r\n";

    fn wish(head: &str) -> Option<(Wish<'_>, usize)> {
        match parse(head.as_bytes()) {
            Heard::Plain { wish, head_bytes, body_bytes } => {
                assert_eq!(head_bytes, head.find("\r\n\r\n").unwrap() + 4);
                Some((wish, body_bytes))
            }
            _ => None,
        }
    }

    #[test]
    fn plain_requests_are_understood() {
        let head = format!("GET /api/v1/store/keys/user_1 HTTP/1.1\r\n{HOST}\r\n");
        assert_eq!(wish(&head), Some((Wish::StoreGet("user_1"), 0)));
        let head = format!("GET /v1/data/user:12345 HTTP/1.1\r\n{HOST}\r\n");
        assert_eq!(wish(&head), Some((Wish::DataGet("user:12345"), 0)));
        let json = "content-type: application/json\r\nContent-Length: 17\r\n";
        let head = format!("POST /api/v1/store/keys HTTP/1.1\r\n{HOST}{json}\r\n");
        assert_eq!(wish(&head), Some((Wish::StorePost, 17)));
        let head = format!("PUT /v1/data/k HTTP/1.1\r\n{HOST}{json}\r\n");
        assert_eq!(wish(&head), Some((Wish::DataPut("k"), 17)));
    }

    #[test]
    fn everything_else_goes_the_long_way() {
        for line in [
            "GET /api/v1/store/keys/a%2Fb HTTP/1.1",
            "GET /api/v1/store/keys/a/b HTTP/1.1",
            "GET /api/v1/store/keys/a?r=1 HTTP/1.1",
            "GET /api/v1/store/keys/ HTTP/1.1",
            "GET /api/v1/store/keys/a HTTP/1.0",
            "GET  /api/v1/store/keys/a HTTP/1.1",
            "HEAD /api/v1/store/keys/a HTTP/1.1",
            "DELETE /api/v1/store/keys/a HTTP/1.1",
            "GET /v1/ring HTTP/1.1",
            "POST /api/v1/store/keys HTTP/1.1",
            "nonsense",
            "",
        ] {
            assert_eq!(parse(format!("{line}\r\n{HOST}\r\n").as_bytes()), Heard::Unusual, "{line}");
        }
        for header in [
            "x-request-id: 1",
            "accept: text/html",
            "connection: close",
            "transfer-encoding: chunked",
            "content-length: 5",
            "content-length: +0",
            "content-length: 0\r\ncontent-length: 0",
            "expect: 100-continue",
            " folded: 1",
            "no colon",
        ] {
            let head = format!("GET /api/v1/store/keys/a HTTP/1.1\r\n{header}\r\n\r\n");
            assert_eq!(parse(head.as_bytes()), Heard::Unusual, "{header}");
        }
        assert_eq!(parse(b"GET /api/v1/store/keys/a HTTP/1.1\r\nhost: a\r\n"), Heard::Part);
        assert_eq!(parse(b"\xff\r\n\r\n"), Heard::Unusual);
    }

    #[tokio::test]
    async fn an_answer_tells_its_length() {
        let mut out = Vec::new();
        render(super::super::json(&serde_json::json!({"a": 1})), &mut out).await;
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\":1}"
        );
    }
}
