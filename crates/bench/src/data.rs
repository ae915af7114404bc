//! The load on the data API: each client has a kept-alive connection of HTTP/1.1, and one request under way on it.
//! The client parses the status and the length of an answer, and nothing else. The same load can be put on Redis, for comparison.

use crate::calls::Keys;
use crate::options::{DataKind, Protocol};
use crate::redis;
use crate::socket::{Socket, TlsOptions, address_of};
use crate::stats::Stats;
use base::Rng;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const READ_BYTES: usize = 16 * 1024;
/// A head that is longer is not one of ours.
const HEAD_BYTES_MAX: usize = 64 * 1024;

pub struct Client {
    stream: Socket,
    /// The host, and the lines of headers that every request carries.
    host: String,
    /// The token of the last answer, if each is handed on.
    session: Option<String>,
    protocol: Protocol,
    kind: DataKind,
    /// What follows the key of a read.
    query: String,
    keys: Keys,
    /// As JSON.
    value: String,
    rng: Rng,
    next: u64,
    stride: u64,
    /// Bytes of the request, and what was read of the answer.
    out: Vec<u8>,
    input: Vec<u8>,
}

/// Which client of how many, and what all of them do.
pub struct DataLoad {
    pub protocol: Protocol,
    pub kind: DataKind,
    pub r: Option<u8>,
    pub keys: Keys,
    pub value_size: usize,
    pub seed: u64,
    pub nth: u64,
    pub of: u64,
    /// The token of the calling user.
    pub token: Option<String>,
    pub headers: Vec<String>,
    pub session: bool,
}

impl Client {
    pub async fn connect(endpoint: &str, shape: DataLoad, tls: &TlsOptions) -> io::Result<Client> {
        let stream = Socket::connect(endpoint, b"http/1.1", tls).await?;
        let DataLoad { protocol, kind, r, keys, value_size, seed, nth, of, token, headers, session } = shape;
        let mut rng = Rng::new(seed.wrapping_add(nth));
        let letter = |rng: &mut Rng| char::from(b'a' + rng.between(0, 26) as u8);
        let value: String = (0..value_size).map(|_| letter(&mut rng)).collect();
        let authorization = token.map(|token| format!("authorization: Bearer {token}"));
        let lines = [address_of(endpoint).to_owned()].into_iter().chain(authorization).chain(headers);
        Ok(Client {
            stream,
            host: lines.collect::<Vec<_>>().join("\r\n"),
            // Any word begins a session.
            session: session.then(|| "new".to_owned()),
            protocol,
            kind,
            query: r.map_or_else(String::new, |r| format!("?r={r}")),
            keys,
            value,
            rng,
            next: nth,
            stride: of,
            out: Vec::new(),
            input: Vec::new(),
        })
    }

    /// Sends the next request as soon as one is answered or, with an interval, when it is due; then latency counts from when
    /// it was due.
    pub async fn run(mut self, interval: Option<Duration>, stats: Rc<RefCell<Stats>>) {
        let mut due = Instant::now();
        while stats.borrow_mut().begin(Instant::now()) {
            let began = match interval {
                None => Instant::now(),
                Some(interval) => {
                    tokio::time::sleep_until(due.into()).await;
                    let began = due;
                    due += interval;
                    began
                }
            };
            match self.ask().await {
                Ok(200..=299 | 404) => stats.borrow_mut().succeed(began.elapsed()),
                Ok(status) => stats.borrow_mut().fail(format!("status {status}: {}", self.body())),
                Err(error) => return stats.borrow_mut().fail(error.to_string()),
            }
        }
    }

    fn key(&mut self) -> String {
        let number = if self.keys.sequential {
            self.next % self.keys.space
        } else {
            self.rng.between(0, self.keys.space)
        };
        self.next += self.stride;
        String::from_utf8_lossy(&crate::calls::key(number, self.keys.size)).into_owned()
    }

    fn is_read(&mut self) -> bool {
        match self.kind {
            DataKind::Get => true,
            DataKind::Put => false,
            DataKind::Mixed { reads_percent } => self.rng.between(0, 100) < u64::from(reads_percent),
        }
    }

    /// The status of the answer.
    async fn ask(&mut self) -> io::Result<u16> {
        let (key, mut host) = (self.key(), self.host.clone());
        if let Some(session) = &self.session {
            host.push_str("\r\nx-session-token: ");
            host.push_str(session);
        }
        self.out.clear();
        let is_read = self.is_read();
        if self.protocol == Protocol::Redis {
            redis::ask(&mut self.out, &key, (!is_read).then_some(&self.value));
        } else if is_read {
            let query = &self.query;
            let head = format!("GET /api/v1/store/keys/{key}{query} HTTP/1.1\r\nhost: {host}\r\n\r\n");
            self.out.extend_from_slice(head.as_bytes());
        } else {
            let body = format!("{{\"key\":\"{key}\",\"value\":\"{}\"}}", self.value);
            let head = format!(
                "POST /api/v1/store/keys HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            self.out.extend_from_slice(head.as_bytes());
        }
        self.stream.write_all(&self.out).await?;
        self.stream.flush().await?;
        self.read_answer().await
    }

    async fn read_answer(&mut self) -> io::Result<u16> {
        self.input.clear();
        loop {
            let measured = match self.protocol {
                Protocol::Http => measure(&self.input)?,
                Protocol::Redis => redis::measure(&self.input)?,
            };
            if let Some((status, whole)) = measured {
                while self.input.len() < whole {
                    self.read_more().await?;
                }
                if self.session.is_some()
                    && let Some(token) = header(&self.input, "x-session-token")
                {
                    self.session = Some(token);
                }
                return Ok(status);
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> io::Result<()> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok(()),
        }
    }

    fn body(&self) -> String {
        let start = end_of_head(&self.input).unwrap_or(0);
        String::from_utf8_lossy(&self.input[start..]).into_owned()
    }
}

/// Status and length of an answer, once its head is there.
fn measure(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let garbage = || io::Error::other("the answer is not HTTP with a length");
    let Some(end) = end_of_head(bytes) else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(garbage()) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| garbage())?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(garbage)?;
    let length = header(bytes, "content-length").and_then(|value| value.parse::<usize>().ok());
    Ok(Some((status, end + length.ok_or_else(garbage)?)))
}

/// A header of an answer whose head is there.
fn header(bytes: &[u8], wanted: &str) -> Option<String> {
    let head = std::str::from_utf8(&bytes[..end_of_head(bytes)?]).ok()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
    Some(value.trim().to_owned())
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_measured_when_its_head_is_there() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(measure(text).unwrap(), Some((200, text.len())));
        assert_eq!(measure(&text[..20]).unwrap(), None);
        assert!(measure(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(measure(&[b'x'; HEAD_BYTES_MAX + 1]).is_err());
    }
}
