//! Clients that send a request, wait for the answer, and repeat; each request is timed, also over a new connection when the
//! old one was closed.

use crate::target::Target;
use crate::wire::{Dialler, Wire};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Between two requests of one thread.
const PAUSE: Duration = Duration::from_millis(2);

pub struct Client(Wire);

impl Client {
    pub fn connect(dialler: &Dialler, target: &Target, is_rest: bool) -> io::Result<Client> {
        Ok(Client(dialler.dial(target.address(is_rest))?))
    }

    /// Writes one key, by the API of the port, and reads the whole answer.
    pub fn ask(&mut self, target: &Target, is_rest: bool, nth: usize) -> io::Result<()> {
        let key = format!("key-{}", nth % 1_000);
        match self.exchange(&target.write_of(is_rest, &key, "0123456789"))? {
            200 => Ok(()),
            status => Err(io::Error::other(format!("status {status}"))),
        }
    }

    /// The status of the answer.
    pub fn exchange(&mut self, request: &[u8]) -> io::Result<u16> {
        self.0.write_all(request)?;
        self.0.flush()?;
        read_answer(&mut self.0)
    }
}

/// The status of an answer that has a length.
fn read_answer(stream: &mut Wire) -> io::Result<u16> {
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

    #[cfg(test)]
    pub fn of_times(times: Vec<Duration>) -> Report {
        Report { times, ..Report::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
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

/// Opens all connections, and asks on one after the other until the time is up.
pub fn run(dialler: &Dialler, target: &Target, is_rest: bool, connections: usize, time: Duration) -> Report {
    let mut report = Report::default();
    let mut clients: Vec<Option<Client>> =
        (0..connections.max(1)).map(|_| Client::connect(dialler, target, is_rest).ok()).collect();
    let end = Instant::now() + time;
    for nth in 0.. {
        if Instant::now() >= end {
            break;
        }
        let at = nth % clients.len();
        let begun = Instant::now();
        let asked = ask(&mut clients[at], &mut report, |client| match client {
            Some(mut open) => open.ask(target, is_rest, nth).map(|()| open),
            None => {
                let mut fresh = Client::connect(dialler, target, is_rest)?;
                fresh.ask(target, is_rest, nth).map(|()| fresh)
            }
        });
        match asked {
            Ok(()) => report.times.push(begun.elapsed()),
            Err(_) => report.failed += 1,
        }
        std::thread::sleep(PAUSE);
    }
    report
}

/// On a connection that was closed meanwhile it asks once more, on a new one.
fn ask(
    client: &mut Option<Client>,
    report: &mut Report,
    mut attempt: impl FnMut(Option<Client>) -> io::Result<Client>,
) -> io::Result<()> {
    let open = client.take();
    if open.is_some()
        && let Ok(kept) = attempt(open)
    {
        *client = Some(kept);
        return Ok(());
    }
    report.reconnected += 1;
    *client = Some(attempt(None)?);
    Ok(())
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
        let report = Report::of_times(times);
        assert_eq!(report.quantile(99.0), Duration::from_millis(100));
        assert_eq!(report.quantile(50.0), Duration::from_millis(51));
        assert_eq!(Report::default().quantile(99.0), Duration::ZERO);
    }
}
