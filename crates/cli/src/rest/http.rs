//! One request of HTTP/1.1 on a connection of its own, and its answer.
//! An endpoint and a request go in; status, headers and a whole body come out, within a deadline and a bound.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use tls::ClientFiles;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

/// More than any answer of the API takes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long the head of a stream may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The length of a chunk, with what may stand behind it.
const CHUNK_LINE_MAX: usize = 128;

pub struct Request {
    pub method: &'static str,
    /// With its query, encoded.
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

pub struct RestAnswer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl RestAnswer {
    /// By its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Whether a part of the request may have arrived.
pub enum Failure {
    NotSent(io::Error),
    Unanswered(io::Error),
}

/// The address of an endpoint, and its TLS settings, if it uses TLS.
pub struct HttpEndpoint<'a> {
    pub address: &'a str,
    pub tls: Option<Arc<ClientConfig>>,
}

pub async fn exchange(
    place: &HttpEndpoint<'_>,
    request: &Request,
    dial: Duration,
    patience: Duration,
) -> Result<RestAnswer, Failure> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let connected = timeout(dial, connect(place)).await.unwrap_or_else(|_| Err(late()));
    let stream = connected.map_err(Failure::NotSent)?;
    let request = encode(place.address, request);
    let whole = async {
        match stream {
            Stream::Plain(stream) => talk(stream, &request).await,
            Stream::Sealed(stream) => talk(*stream, &request).await,
        }
    };
    timeout(patience, whole).await.unwrap_or_else(|_| Err(late())).map_err(Failure::Unanswered)
}

/// An answer that does not end: its status, and its body as it comes.
pub struct RestStream {
    pub status: u16,
    from: Box<dyn AsyncRead + Unpin + Send>,
    chunks: ChunkDecoder,
}

/// Sends a request, and reads no further than the head of the answer.
pub async fn open(place: &HttpEndpoint<'_>, request: &Request, dial: Duration) -> io::Result<RestStream> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let stream = timeout(dial, connect(place)).await.unwrap_or_else(|_| Err(late()))?;
    let (mut from, mut to): (Box<dyn AsyncRead + Unpin + Send>, Box<dyn AsyncWrite + Unpin + Send>) =
        match stream {
            Stream::Plain(stream) => {
                let (from, to) = tokio::io::split(stream);
                (Box::new(from), Box::new(to))
            }
            Stream::Sealed(stream) => {
                let (from, to) = tokio::io::split(*stream);
                (Box::new(from), Box::new(to))
            }
        };
    to.write_all(&encode(place.address, request)).await?;
    to.flush().await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(HEAD_TIMEOUT, from.read_u8()).await.unwrap_or_else(|_| Err(late()))?;
        head.push(byte);
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the answer has no head"));
        }
    }
    let answer = status_of(&head).ok_or_else(|| io::Error::other("the answer is not HTTP"))?;
    let is_chunked = answer.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
    Ok(RestStream { status: answer.status, from, chunks: ChunkDecoder::new(is_chunked) })
}

/// The head of an answer whose body has not come yet.
fn status_of(head: &[u8]) -> Option<RestAnswer> {
    let text = std::str::from_utf8(head).ok()?;
    let without_length =
        text.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("content-length"));
    parse(without_length.collect::<Vec<_>>().join("\r\n").as_bytes())
}

impl RestStream {
    /// More of the body; none at its end.
    pub async fn more(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; 16 * 1024];
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let read = timeout(patience, self.from.read(&mut bytes)).await.unwrap_or_else(|_| Err(late()))?;
        if read == 0 || self.chunks.ended {
            return Ok(None);
        }
        self.chunks.take(&bytes[..read]).map(Some).ok_or_else(|| io::Error::other("the answer is not HTTP"))
    }
}

/// Takes the framing of chunks out of a body.
struct ChunkDecoder {
    is_chunked: bool,
    /// The bytes left of the chunk that is being read.
    left: usize,
    /// A line that is not whole: the length of a chunk, or the end of the one before.
    line: Vec<u8>,
    ended: bool,
}

impl ChunkDecoder {
    fn new(is_chunked: bool) -> ChunkDecoder {
        ChunkDecoder { is_chunked, left: 0, line: Vec::new(), ended: false }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.is_chunked {
            return Some(bytes.to_vec());
        }
        let mut body = Vec::new();
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let n = self.left.min(bytes.len());
                body.extend_from_slice(&bytes[..n]);
                (self.left, bytes) = (self.left - n, &bytes[n..]);
                continue;
            }
            bytes = rest;
            match first {
                b'\n' if self.line.is_empty() => {}
                b'\n' => {
                    let length = std::str::from_utf8(&std::mem::take(&mut self.line)).ok()?.to_owned();
                    self.left = usize::from_str_radix(length.split(';').next()?.trim(), 16).ok()?;
                    self.ended |= self.left == 0;
                }
                b'\r' => {}
                byte if self.line.len() < CHUNK_LINE_MAX => self.line.push(*byte),
                _ => return None,
            }
        }
        Some(body)
    }
}

enum Stream {
    Plain(TcpStream),
    Sealed(Box<TlsStream<TcpStream>>),
}

async fn connect(place: &HttpEndpoint<'_>) -> io::Result<Stream> {
    let stream = TcpStream::connect(place.address).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = &place.tls else { return Ok(Stream::Plain(stream)) };
    let name = ClientFiles::name_of(place.address).ok_or(io::ErrorKind::InvalidInput)?;
    let sealed = TlsConnector::from(tls.clone()).connect(name, stream).await?;
    Ok(Stream::Sealed(Box::new(sealed)))
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> io::Result<RestAnswer> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await?;
    parse(&bytes).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

fn encode(address: &str, request: &Request) -> Vec<u8> {
    let Request { method, target, headers, body } = request;
    let mut text = format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    [text.as_bytes(), body].concat()
}

fn parse(bytes: &[u8]) -> Option<RestAnswer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let body = bytes[end + 4..].to_vec();
    let answer = RestAnswer { status, headers, body };
    let told = answer.header("content-length").and_then(|len| len.parse::<usize>().ok());
    // An answer that was cut off is an error.
    told.is_none_or(|told| told == answer.body.len()).then_some(answer)
}

/// Everything but what no URL needs to encode.
pub fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart_and_half_of_one_is_none() {
        let text = b"HTTP/1.1 404 Not Found\r\nX-Vector-Clock: AQA=\r\ncontent-length: 2\r\n\r\n{}";
        let answer = parse(text).unwrap();
        assert_eq!((answer.status, answer.header("x-vector-clock")), (404, Some("AQA=")));
        assert_eq!(answer.body, b"{}");
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn chunks_are_joined_wherever_they_are_cut() {
        let text = b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n";
        for cut in 0..text.len() {
            let mut chunks = ChunkDecoder::new(true);
            let mut body = chunks.take(&text[..cut]).unwrap();
            body.extend(chunks.take(&text[cut..]).unwrap());
            assert_eq!((body.as_slice(), chunks.ended), (&b"hello, world"[..], true), "{cut}");
        }
        assert!(ChunkDecoder::new(true).take(b"zz\r\n").is_none());
    }

    #[test]
    fn keys_are_encoded_for_a_path() {
        assert_eq!(percent_encode("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }
}
