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
    fn keys_are_encoded_for_a_path() {
        assert_eq!(percent_encode("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }
}
