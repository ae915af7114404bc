//! How a WebSocket begins: the head of an HTTP request in, the request behind it out, and the response head.
//! The head of anything else is left to the HTTP server. A page of another origin is refused: the browser of a
//! logged-in user would let it read and write with that user's rights.

use crate::browsers::BrowserGuard;
use crate::gateway::old_prefix;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

/// What every request begins with that may be a WebSocket: those of the gateway, and streams of changes. Nothing else is
/// looked at.
const BEGINNINGS: [&[u8]; 3] = [b"GET /v3", b"GET /v1/feed", b"GET /v1/coord/watch"];
/// A longer head is left to the HTTP server, which refuses it.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
const KEY: &str = "sec-websocket-key";
const VERSION: &str = "sec-websocket-version";
const PROTOCOL: &str = "sec-websocket-protocol";
/// A client sends its token as a protocol after this one, because a page cannot set headers.
const BEARER: &str = "Bearer";
/// The RFC's constant, with which the accept key is made.
const SALT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What the first bytes of a connection are.
pub enum HandshakeCheck {
    /// Too short to decide.
    Incomplete,
    /// Not a WebSocket.
    NotWebSocket,
    /// The handshake of a WebSocket, of this length.
    Upgrade { len: usize, opening: UpgradeRequest },
}

pub struct UpgradeRequest {
    target: String,
    headers: HeaderMap,
}

pub fn check(bytes: &[u8]) -> HandshakeCheck {
    let may_be = |beginning: &&[u8]| {
        let known = bytes.len().min(beginning.len());
        bytes[..known] == beginning[..known]
    };
    if !BEGINNINGS.iter().any(may_be) || bytes.len() > HEAD_BYTES_MAX {
        return HandshakeCheck::NotWebSocket;
    }
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return HandshakeCheck::Incomplete;
    };
    match parse(&bytes[..end]) {
        Some(opening) if opening.is_upgrade() => HandshakeCheck::Upgrade { len: end + 4, opening },
        _ => HandshakeCheck::NotWebSocket,
    }
}

fn parse(head: &[u8]) -> Option<UpgradeRequest> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let target = lines.next()?.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    let replaced =
        old_prefix::replace(target.as_bytes()).and_then(|path| String::from_utf8(path.into()).ok());
    let target = replaced.unwrap_or_else(|| target.to_owned());
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.trim()).ok()?);
        headers.append(name, value);
    }
    (headers.len() <= HEADERS_MAX).then_some(UpgradeRequest { target, headers })
}

impl UpgradeRequest {
    fn text(&self, name: impl axum::http::header::AsHeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn is_upgrade(&self) -> bool {
        self.text(UPGRADE).split(',').any(|word| word.trim().eq_ignore_ascii_case("websocket"))
    }

    /// The head of the answer: that it begins, or why it does not.
    pub fn answer(&self, browsers: &BrowserGuard) -> Result<String, &'static str> {
        let key = self.text(KEY);
        if self.text(VERSION) != "13" {
            return Err(
                "HTTP/1.1 426 Upgrade Required\r\nsec-websocket-version: 13\r\ncontent-length: 0\r\n\r\n",
            );
        }
        if STANDARD.decode(key).is_ok_and(|key| key.len() != 16) || key.is_empty() {
            return Err("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        let host = self.text(HOST);
        // Programs name no origin.
        let is_page = self.headers.get(ORIGIN).is_some();
        let is_known = if is_page {
            browsers.allows_host(host.as_bytes())
        } else {
            browsers.allows_host_of_program(host.as_bytes())
        };
        if !is_known {
            return Err("HTTP/1.1 421 Misdirected Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        if is_page && !browsers.allows_origin(self.text(ORIGIN), host) {
            return Err("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        let accepted = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), SALT].concat());
        let protocol =
            if self.text(PROTOCOL).starts_with(BEARER) { "sec-websocket-protocol: Bearer\r\n" } else { "" };
        Ok(format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n{protocol}\
             sec-websocket-accept: {}\r\n\r\n",
            STANDARD.encode(accepted)
        ))
    }

    /// The request that the messages are the body of. As for etcd, its method is what the query says.
    pub fn request(mut self, body: Body) -> Option<Request<Body>> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let method = query.split('&').find_map(|pair| pair.strip_prefix("method="));
        let method = Method::try_from(method.unwrap_or("GET")).ok()?;
        let token = self.text(PROTOCOL).split_once("Bearer,").map(|(_, token)| token.trim().to_owned());
        if let Some(token) = token {
            self.headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).ok()?);
        }
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            self.headers.remove(name);
        }
        let mut request = Request::builder().method(method).uri(self.target).body(body).ok()?;
        *request.headers_mut() = self.headers;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(more: &str) -> UpgradeRequest {
        let head = format!(
            "GET /v3/watch?method=POST HTTP/1.1\r\nHost: localhost:1\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n{more}\r\n"
        );
        match check(head.as_bytes()) {
            HandshakeCheck::Upgrade { len, opening } if len == head.len() => opening,
            _ => panic!("it is one: {head}"),
        }
    }

    const GOOD: &str = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    #[test]
    fn the_answer_is_that_of_the_rfc() {
        let answer = opening(GOOD).answer(&BrowserGuard::default()).unwrap();
        assert!(answer.contains("\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
        let request = opening(GOOD).request(Body::empty()).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v3/watch"));
    }

    #[test]
    fn a_token_comes_as_a_protocol() {
        let with_token = format!("{GOOD}Sec-WebSocket-Protocol: Bearer, abc.7\r\n");
        assert!(
            opening(&with_token)
                .answer(&BrowserGuard::default())
                .unwrap()
                .contains("sec-websocket-protocol: Bearer\r\n")
        );
        let request = opening(&with_token).request(Body::empty()).unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer abc.7");
    }

    #[test]
    fn pages_of_other_origins_and_broken_handshakes_are_refused() {
        let status = |more: &str| {
            opening(more).answer(&BrowserGuard::default()).unwrap_or_else(|refused| refused.to_owned())[9..12]
                .to_owned()
        };
        for (more, expected) in [
            ("", "426"),
            ("Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "426"),
            ("Sec-WebSocket-Version: 13\r\n", "400"),
            ("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhl\r\n", "400"),
            (&format!("{GOOD}Origin: http://evil.example\r\n"), "403"),
            (&format!("{GOOD}Origin: null\r\n"), "403"),
            (&format!("{GOOD}Origin: http://localhost:1\r\n"), "101"),
        ] {
            assert_eq!(status(more), expected, "{more}");
        }
    }

    #[test]
    fn everything_else_is_left_to_others() {
        for head in
            ["POST /v3/watch HTTP/1.1\r\n\r\n", "GET /health", "GET /v3/watch HTTP/1.1\r\nhost: a\r\n\r\n"]
        {
            assert!(matches!(check(head.as_bytes()), HandshakeCheck::NotWebSocket), "{head}");
        }
        for head in ["", "GET /", "GET /v3/watch HTTP/1.1\r\nUpgrade: websocket\r\n"] {
            assert!(matches!(check(head.as_bytes()), HandshakeCheck::Incomplete), "{head}");
        }
        let endless = format!("GET /v3/watch HTTP/1.1\r\nx: {}", "x".repeat(HEAD_BYTES_MAX));
        assert!(matches!(check(endless.as_bytes()), HandshakeCheck::NotWebSocket));
    }
}
