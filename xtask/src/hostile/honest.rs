//! Clients that send a request, wait for the answer, and repeat; each request is timed, also over a new connection when the
//! old one was closed.

use super::connect;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Between two requests of one thread.
const PAUSE: Duration = Duration::from_millis(2);

pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        Ok(Client { address, stream: connect(address, PATIENCE)? })
    }

    /// Writes or reads one key, by the API of the port, and reads the whole answer.
    pub fn ask(&mut self, nth: usize) -> io::Result<()> {
        // The data API takes PUT of a key; the other port answers that with 404, and its own form with 200.
        let requests = [
            ("PUT", format!("/v1/data/key-{}", nth % 1_000), r#"{"value":"0123456789"}"#),
            ("POST", "/v3/kv/put".to_owned(), r#"{"key":"a2V5","value":"MDEyMzQ1Njc4OQ=="}"#),
        ];
        for (method, target, body) in &requests {
            let request = format!(
                "{method} {target} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                self.address,
                body.len()
            );
            self.stream.write_all(request.as_bytes())?;
            match read_answer(&mut self.stream)? {
                200 => return Ok(()),
                404 => {}
                status => return Err(io::Error::other(format!("status {status}"))),
            }
        }
        Err(io::Error::other("neither API is served"))
    }
}

/// The status of an answer that has a length.
fn read_answer(stream: &mut TcpStream) -> io::Result<u16> {
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&bytes[..read]);
        if let Some((status, len)) = parse(&answer)
            && answer.len() >= len
        {
            return Ok(status);
        }
    }
}

/// The status and the length of the whole answer, when its head is there.
fn parse(answer: &[u8]) -> Option<(u16, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length =
        head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
    Some((status, end + length.unwrap_or_default()))
}

#[derive(Default)]
pub struct Report {
    times: Vec<Duration>,
    reconnected: usize,
    failed: usize,
}

impl Report {
    pub fn add(&mut self, other: Report) {
        self.times.extend(other.times);
        self.reconnected += other.reconnected;
        self.failed += other.failed;
    }

    pub fn sort(&mut self) {
        self.times.sort_unstable();
    }

    pub fn quantile(&self, percent: f64) -> Duration {
        let at = (self.times.len() as f64 * percent / 100.0) as usize;
        self.times.get(at.min(self.times.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| self.quantile(percent).as_secs_f64() * 1_000.0;
        write!(
            f,
            "{} honest requests, p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms, {} on a new connection, {} failed",
            self.times.len(),
            ms(50.0),
            ms(99.0),
            ms(100.0),
            self.reconnected,
            self.failed
        )
    }
}

/// Asks on one connection after the other until the time is up.
pub fn run(address: SocketAddr, connections: usize, end: Instant) -> Report {
    let mut report = Report::default();
    let mut clients: Vec<Option<Client>> =
        (0..connections.max(1)).map(|_| Client::connect(address).ok()).collect();
    for nth in 0.. {
        if Instant::now() >= end {
            break;
        }
        let at = nth % clients.len();
        let begun = Instant::now();
        match ask(&mut clients[at], address, nth, &mut report) {
            Ok(()) => report.times.push(begun.elapsed()),
            Err(_) => report.failed += 1,
        }
        std::thread::sleep(PAUSE);
    }
    report
}

/// On a connection that was closed meanwhile it asks once more, on a new one.
fn ask(client: &mut Option<Client>, address: SocketAddr, nth: usize, report: &mut Report) -> io::Result<()> {
    if let Some(open) = client
        && open.ask(nth).is_ok()
    {
        return Ok(());
    }
    report.reconnected += 1;
    let mut fresh = Client::connect(address)?;
    let asked = fresh.ask(nth);
    *client = asked.is_ok().then_some(fresh);
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(parse(answer), Some((200, answer.len())));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n"), None);
    }

    #[test]
    fn quantiles_are_of_what_was_timed() {
        let times = (1..=100).map(Duration::from_millis).collect();
        let report = Report { times, ..Report::default() };
        assert_eq!(report.quantile(99.0), Duration::from_millis(100));
        assert_eq!(report.quantile(50.0), Duration::from_millis(51));
        assert_eq!(Report::default().quantile(99.0), Duration::ZERO);
    }
}
