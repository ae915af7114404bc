//! The head of a request of HTTP/1.1: bytes in, the operation and the positions of its parts out.
//! Four kinds of requests are understood, whatever headers come with them; all others are reported as
//! unusual. Whatever the bytes are, nothing panics.

use crate::audit;
use crate::browsers::BrowserGuard;
use crate::rest::identity::PASSED_ON;
use crate::rest::session;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base::limits::MESH_NAME_BYTES_MAX;
use std::ops::Range;

/// The operation of a plain request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainOperation {
    StoreGet,
    StorePost,
    DataGet,
    DataPut,
}

/// A plain request, and the positions of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRequest {
    pub operation: PlainOperation,
    /// The key in its path; empty where the body names it.
    pub key: Range<usize>,
    /// One replica is enough for a read.
    pub of_one: bool,
    pub head_bytes: usize,
    pub body_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedHead {
    /// Incomplete.
    Incomplete,
    Plain(PlainRequest),
    Unusual,
}

const STORE_KEYS: &[u8] = b"/api/v1/store/keys";
const STORE_KEY: &[u8] = b"/api/v1/store/keys/";
const DATA_KEY: &[u8] = b"/v1/data/";
const VERSION: &[u8] = b" HTTP/1.1";
/// The one query that is plain: it asks for less than usual, and every namespace supports it.
const OF_ONE: &[u8] = b"?r=1";

/// The headers of a connection's last request, to the end of its head, and their meaning: most clients send the same every
/// time, and parsed headers need not be parsed again.
#[derive(Default)]
pub struct HeaderCache {
    bytes: Vec<u8>,
    headers: ParsedHeaders,
}

/// The headers that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedHeaders {
    length: Option<usize>,
    has_host: bool,
    /// As it was sent; empty if it was not.
    pub authorization: Vec<u8>,
    /// A proxy asks for another client.
    pub is_passed_on: bool,
    /// The id of the caller's trace.
    pub trace: Option<String>,
    /// Headers that change what a request means; all others are ignored.
    pub semantic: HeaderMap,
}

impl HeaderCache {
    pub fn headers(&self) -> &ParsedHeaders {
        &self.headers
    }
}

/// A `Host` that is not allowed is the router's to refuse; one of the cached head was allowed.
pub fn parse(bytes: &[u8], header_cache: &mut HeaderCache, browsers: &BrowserGuard) -> ParsedHead {
    let Some(first) = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1) else {
        return ParsedHead::Incomplete;
    };
    let is_cached = !header_cache.bytes.is_empty() && bytes[first..].starts_with(&header_cache.bytes);
    if !is_cached {
        let head_bytes = match end_of_head(bytes, first) {
            Ok(Some(head_bytes)) => head_bytes,
            Ok(None) => return ParsedHead::Incomplete,
            Err(BareLineFeed) => return ParsedHead::Unusual,
        };
        let headers = &bytes[first..head_bytes];
        match parse_headers(&headers[..headers.len() - 2], browsers) {
            Some(parsed) => *header_cache = HeaderCache { bytes: headers.to_vec(), headers: parsed },
            None => return ParsedHead::Unusual,
        }
    }
    let head_bytes = first + header_cache.bytes.len();
    let line = bytes[..first].strip_suffix(b"\r\n").and_then(parse_first);
    line.and_then(|line| line.with_body(header_cache.headers.length)).map_or(
        ParsedHead::Unusual,
        |(RequestLine { operation, key, of_one }, body_bytes)| {
            ParsedHead::Plain(PlainRequest { operation, key, of_one, head_bytes, body_bytes })
        },
    )
}

/// A line that ends with LF alone: a plain end of the head may never come.
struct BareLineFeed;

/// The end of the first empty line, if it has arrived; the first line ends at `at`.
fn end_of_head(bytes: &[u8], mut at: usize) -> Result<Option<usize>, BareLineFeed> {
    loop {
        if !bytes[..at].ends_with(b"\r\n") {
            return Err(BareLineFeed);
        }
        if bytes[at..].starts_with(b"\r\n") {
            return Ok(Some(at + 2));
        }
        match bytes[at..].iter().position(|byte| *byte == b'\n') {
            None => return Ok(None),
            Some(end) => at += end + 1,
        }
    }
}

/// The first line, taken apart.
struct RequestLine {
    operation: PlainOperation,
    key: Range<usize>,
    of_one: bool,
}

impl RequestLine {
    /// With the length of its body; none if it cannot have one that long, or must have one.
    fn with_body(self, length: Option<usize>) -> Option<(RequestLine, usize)> {
        match (self.operation, length) {
            (PlainOperation::StoreGet | PlainOperation::DataGet, None | Some(0)) => Some((self, 0)),
            (PlainOperation::StorePost | PlainOperation::DataPut, Some(length)) => Some((self, length)),
            _ => None,
        }
    }
}

/// Headers that change what a read or a write means, in the letters that handlers look for them with.
const MEANT: [&str; 8] = [
    "x-conflict-resolution",
    "x-consistency-level",
    "x-session-token",
    "x-vector-clock",
    "x-if-vector-clock",
    "x-min-vector-clock",
    "x-fence",
    "x-request-id",
];
/// Headers about the connection or the form of the body, and those by which a browser names the origin of a request: the
/// router decides about them.
const UNUSUAL: [&str; 7] =
    ["transfer-encoding", "expect", "upgrade", "te", "trailer", "origin", "sec-fetch-site"];

/// None if they demand something that only the router supports, or are malformed.
fn parse_headers(bytes: &[u8], browsers: &BrowserGuard) -> Option<ParsedHeaders> {
    let mut headers = ParsedHeaders::default();
    for header in bytes.split_inclusive(|byte| *byte == b'\n') {
        let header = header.strip_suffix(b"\r\n")?;
        let colon = header.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&header[..colon], header[colon + 1..].trim_ascii());
        let is_malformed = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
        if name.is_empty() || !name.iter().all(is_letter_of_a_name) || value.iter().any(is_malformed) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"host") {
            let is_first = !std::mem::replace(&mut headers.has_host, true);
            (is_first && browsers.allows_host(value)).then_some(())?;
            continue;
        }
        headers.take(name, value)?;
    }
    Some(headers)
}

fn is_letter_of_a_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

impl ParsedHeaders {
    /// Nothing else that changes what a request means.
    pub fn names_a_session_at_most(&self) -> bool {
        self.semantic.is_empty() || self.semantic.len() == 1 && self.semantic.contains_key(session::HEADER)
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            // Each of these lengths belongs to one header that says something here.
            6 if is("accept") => {
                let plain = matches!(value, b"*/*" | b"application/json");
                if plain { Some(()) } else { self.mean("accept", value) }
            }
            10 if is("connection") => value.eq_ignore_ascii_case(b"keep-alive").then_some(()),
            12 if is("content-type") => match value {
                b"application/json" | b"application/x-www-form-urlencoded" => Some(()),
                _ => self.mean("content-type", value),
            },
            11 if is("traceparent") => {
                self.trace = audit::trace_of(value);
                Some(())
            }
            13 if is("authorization") => {
                let is_first = self.authorization.is_empty();
                self.authorization = value.to_vec();
                is_first.then_some(())
            }
            14 if is("content-length") => self.length.replace(number(value)?).is_none().then_some(()),
            _ => match MEANT.iter().find(|known| is(known)) {
                Some(known) => self.mean(known, value),
                None if PASSED_ON.iter().any(|known| is(known)) => {
                    self.is_passed_on = true;
                    Some(())
                }
                None => (!UNUSUAL.iter().any(|known| is(known))).then_some(()),
            },
        }
    }

    /// A header that comes twice is left to the router.
    fn mean(&mut self, name: &'static str, value: &[u8]) -> Option<()> {
        let before =
            self.semantic.insert(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
        before.is_none().then_some(())
    }
}

fn parse_first(line: &[u8]) -> Option<RequestLine> {
    let line = line.strip_suffix(VERSION)?;
    if let Some(target) = line.strip_prefix(b"GET ") {
        let (target, of_one) = target.strip_suffix(OF_ONE).map_or((target, false), |target| (target, true));
        let of_store = target.strip_prefix(STORE_KEY).map(|key| (PlainOperation::StoreGet, key));
        let (operation, key) =
            of_store.or_else(|| Some((PlainOperation::DataGet, target.strip_prefix(DATA_KEY)?)))?;
        let end = b"GET ".len() + target.len();
        return is_plain(key).then(|| RequestLine { operation, key: end - key.len()..end, of_one });
    }
    if let Some(key) = line.strip_prefix(b"PUT ").and_then(|target| target.strip_prefix(DATA_KEY)) {
        let key_at = line.len() - key.len()..line.len();
        return is_plain(key).then_some(RequestLine {
            operation: PlainOperation::DataPut,
            key: key_at,
            of_one: false,
        });
    }
    let posts = line.strip_prefix(b"POST ")? == STORE_KEYS;
    posts.then_some(RequestLine { operation: PlainOperation::StorePost, key: 0..0, of_one: false })
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}

/// A key that stands in a path, and in JSON, as it is, and is not also the name of a route.
pub fn is_plain(key: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:~".contains(byte);
    (1..=MESH_NAME_BYTES_MAX).contains(&key.len()) && key.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST2: &str = "host: localhost\r\nUser-Agent: curl/8\r\n";
    const HOST: &str = "host: localhost\r\nUser-Agent: curl/8\r\naccept: */*\r\n";

    fn parse(bytes: &[u8]) -> ParsedHead {
        super::parse(bytes, &mut HeaderCache::default(), &BrowserGuard::default())
    }

    fn operation_of(head: &str) -> Option<(PlainOperation, &str, usize)> {
        match parse(head.as_bytes()) {
            ParsedHead::Plain(PlainRequest { operation, key, head_bytes, body_bytes, .. }) => {
                assert_eq!(head_bytes, head.find("\r\n\r\n").unwrap() + 4);
                Some((operation, &head[key], body_bytes))
            }
            _ => None,
        }
    }

    #[test]
    fn every_header_that_is_documented_is_meant() {
        let documented = crate::rest::openapi::parameter_names().filter(|name| name.starts_with("X-"));
        let mut documented: Vec<String> = documented.map(str::to_lowercase).collect();
        let mut meant = MEANT.map(str::to_owned);
        documented.sort();
        meant.sort();
        assert_eq!(meant[..], documented[..]);
    }

    #[test]
    fn plain_requests_are_understood() {
        let head = format!("GET /api/v1/store/keys/user_1 HTTP/1.1\r\n{HOST}\r\n");
        assert_eq!(operation_of(&head), Some((PlainOperation::StoreGet, "user_1", 0)));
        let head = format!("GET /v1/data/user:12345 HTTP/1.1\r\n{HOST}\r\n");
        assert_eq!(operation_of(&head), Some((PlainOperation::DataGet, "user:12345", 0)));
        let json = "content-type: application/json\r\nContent-Length: 17\r\n";
        let head = format!("POST /api/v1/store/keys HTTP/1.1\r\n{HOST}{json}\r\n");
        assert_eq!(operation_of(&head), Some((PlainOperation::StorePost, "", 17)));
        let head = format!("PUT /v1/data/k HTTP/1.1\r\n{HOST}{json}\r\n");
        assert_eq!(operation_of(&head), Some((PlainOperation::DataPut, "k", 17)));
    }

    #[test]
    fn a_read_of_one_replica_is_plain() {
        for path in ["/api/v1/store/keys/user_1", "/v1/data/user_1"] {
            let of_one = |query: &str| {
                let head = format!("GET {path}{query} HTTP/1.1\r\n{HOST}\r\n");
                match parse(head.as_bytes()) {
                    ParsedHead::Plain(plain) => Some((plain.of_one, head[plain.key].to_owned())),
                    _ => None,
                }
            };
            assert_eq!(of_one(""), Some((false, "user_1".into())));
            assert_eq!(of_one("?r=1"), Some((true, "user_1".into())));
            for query in ["?r=2", "?r=1&r=1", "?r=1?r=1", "?", "?r=", "?raw&r=1"] {
                assert_eq!(of_one(query), None, "{query}");
            }
        }
        assert_eq!(
            operation_of(&format!("PUT /v1/data/k?r=1 HTTP/1.1\r\n{HOST}content-length: 0\r\n\r\n")),
            None
        );
    }

    #[test]
    fn everything_else_takes_the_routed_path() {
        for line in [
            "GET /api/v1/store/keys/a%2Fb HTTP/1.1",
            "GET /api/v1/store/keys/a/b HTTP/1.1",
            "GET /api/v1/store/keys/a?r=2 HTTP/1.1",
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
            assert_eq!(parse(format!("{line}\r\n{HOST}\r\n").as_bytes()), ParsedHead::Unusual, "{line}");
        }
        for header in [
            "origin: http://a",
            "host: evil.example",
            "host: localhost\r\nhost: localhost",
            "x-request-id: 1\r\nx-request-id: 2",
            "authorization: a\r\nauthorization: b",
            "upgrade: h2c",
            "no colon in the first word : 1",
            "connection: close",
            "transfer-encoding: chunked",
            "content-length: 5",
            "content-length: +0",
            "content-length: 0\r\ncontent-length: 0",
            "expect: 100-continue",
            " folded: 1",
            "host: a\nb: c",
            "no colon",
        ] {
            let head = format!("GET /api/v1/store/keys/a HTTP/1.1\r\n{header}\r\n\r\n");
            assert_eq!(parse(head.as_bytes()), ParsedHead::Unusual, "{header}");
        }
        assert_eq!(parse(b"GET /api/v1/store/keys/a HTTP/1.1\r\nhost: a\r\n"), ParsedHead::Incomplete);
        assert_eq!(parse(b"\xff\r\n\r\n"), ParsedHead::Unusual);
        assert_eq!(parse(b"GET /v1/data/k HTTP/1.1\r\nhost: a\r\n\n\r\n"), ParsedHead::Unusual);
        assert_eq!(parse(b"GET /v1/data/k HTTP/1.1\r\nhost: a\rb\r\n\r\n"), ParsedHead::Unusual);
    }

    #[test]
    fn headers_that_mean_something_are_kept_and_others_are_carried_past() {
        let mut header_cache = HeaderCache::default();
        let headers = "Authorization: Bearer t\r\ntraceparent: 00-a-b-01\r\nX-Forwarded-For: 10.0.0.1\r\nCookie: a=b\r\n\
                       X-Session-Token: s\r\nX-Request-Id: r\r\nAccept: text/plain\r\n";
        let head = format!("GET /v1/data/k HTTP/1.1\r\n{HOST2}{headers}\r\n");
        assert!(matches!(
            super::parse(head.as_bytes(), &mut header_cache, &BrowserGuard::default()),
            ParsedHead::Plain(_)
        ));
        let ParsedHeaders { authorization, semantic, .. } = header_cache.headers();
        assert_eq!(authorization, b"Bearer t");
        let semantic: Vec<&str> = semantic.keys().map(HeaderName::as_str).collect();
        assert_eq!(semantic, ["x-session-token", "x-request-id", "accept"]);
        let plain = format!("GET /v1/data/k HTTP/1.1\r\n{HOST}traceparent: 1\r\n\r\n");
        assert!(matches!(
            super::parse(plain.as_bytes(), &mut header_cache, &BrowserGuard::default()),
            ParsedHead::Plain(_)
        ));
        assert_eq!(header_cache.headers(), &ParsedHeaders { has_host: true, ..ParsedHeaders::default() });
    }

    #[test]
    fn familiar_headers_are_understood_as_they_were_the_first_time() {
        let mut header_cache = HeaderCache::default();
        let json = |length: usize| format!("{HOST}content-length: {length}\r\n\r\n");
        let heads = [
            format!("POST /api/v1/store/keys HTTP/1.1\r\n{}", json(17)),
            format!("POST /api/v1/store/keys HTTP/1.1\r\n{}", json(17)),
            format!("PUT /v1/data/k HTTP/1.1\r\n{}", json(17)),
            format!("GET /v1/data/k HTTP/1.1\r\n{}", json(17)),
            format!("nonsense\r\n{}", json(17)),
            format!("POST /api/v1/store/keys HTTP/1.1\n{}", json(17)),
            format!("POST /api/v1/store/keys HTTP/1.1\r\n{}", json(18)),
            format!("POST /api/v1/store/keys HTTP/1.1\r\nexpect: 100-continue\r\n{}", json(18)),
            format!("POST /api/v1/store/keys HTTP/1.1\r\n{}", &json(18)[..20]),
            format!("GET /v1/data/k HTTP/1.1\r\n{HOST}\r\n"),
            format!("GET /v1/data/k?r=1 HTTP/1.1\r\n{HOST}\r\nGET /"),
            "GET /v1/data/k HTTP/1.1\r\n\r\n".to_owned(),
            "GET /v1/data/other HTTP/1.1\r\n\r\n".to_owned(),
        ];
        for head in heads {
            assert_eq!(
                super::parse(head.as_bytes(), &mut header_cache, &BrowserGuard::default()),
                parse(head.as_bytes()),
                "{head}"
            );
        }
    }
}
