//! As much of HTTP/1.1 as the gateway and the metrics need: one request at a time on a connection that is kept.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub struct HttpConn {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl HttpConn {
    /// `endpoint` is `http://host:port`.
    pub fn new(endpoint: &str) -> HttpConn {
        let address = endpoint.strip_prefix("http://").unwrap_or(endpoint).to_owned();
        HttpConn { address, stream: None }
    }

    pub async fn get(&mut self, path: &str) -> io::Result<HttpAnswer> {
        self.ask("GET", path, "").await
    }

    pub async fn post(&mut self, path: &str, body: &str) -> io::Result<HttpAnswer> {
        self.ask("POST", path, body).await
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<HttpAnswer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(&self.address).await?),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let head = read_head(&mut stream).await?;
        let body = match head.length {
            BodyLength::Bytes(bytes) => read_exactly(&mut stream, bytes).await?,
            BodyLength::Chunks => read_chunks(&mut stream).await?,
        };
        self.stream = (!head.closes).then_some(stream);
        Ok(HttpAnswer { status: head.status, body })
    }
}

enum BodyLength {
    Bytes(usize),
    Chunks,
}

struct ResponseHead {
    status: u16,
    length: BodyLength,
    closes: bool,
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<ResponseHead> {
    let first = read_line(stream).await?;
    let status =
        first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let mut head = ResponseHead { status, length: BodyLength::Bytes(0), closes: false };
    loop {
        let line = read_line(stream).await?.to_ascii_lowercase();
        let Some((name, value)) = line.split_once(':') else { return Ok(head) };
        match (name, value.trim()) {
            ("content-length", length) => {
                head.length = BodyLength::Bytes(length.parse().map_err(|_| io::ErrorKind::InvalidData)?);
            }
            ("transfer-encoding", "chunked") => head.length = BodyLength::Chunks,
            ("connection", "close") => head.closes = true,
            _ => {}
        }
    }
}

async fn read_exactly(stream: &mut BufReader<TcpStream>, bytes: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; bytes];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream).await?;
        let bytes = usize::from_str_radix(&line, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        body.append(&mut read_exactly(stream, bytes).await?);
        // Behind a chunk its line ends; behind the last one the trailers do.
        while !read_line(stream).await?.is_empty() {}
        if bytes == 0 {
            return Ok(body);
        }
    }
}
