//! A plain client of the data API for tests: one request, one answer, bytes as they are.

use crate::process::{Member, PATIENCE, Plan, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Rest(pub SocketAddr);

pub struct Answer {
    pub status: u16,
    /// In small letters, but for their values.
    headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The body as it is shown when a test fails.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }
}

impl Answer {
    /// What has arrived, once its head has.
    fn parse(received: &[u8]) -> Option<Answer> {
        let end = received.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&received[..end]).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        Some(Answer { status, headers, bytes: received[end + 4..].to_vec() })
    }

    /// An answer that does not tell its length ends when its connection does.
    fn is_whole(&self) -> bool {
        match (self.status, self.header("content-length"), self.header("transfer-encoding")) {
            (100..=199 | 204 | 304, ..) => true,
            (_, Some(length), _) => length.parse().is_ok_and(|length: usize| self.bytes.len() >= length),
            (_, None, Some(_)) => self.bytes.ends_with(b"0\r\n\r\n"),
            (_, None, None) => false,
        }
    }
}

impl Rest {
    pub fn of(member: &Member) -> Rest {
        Rest(member.rest.expect("the data API is served"))
    }

    pub fn get(self, target: &str) -> Answer {
        self.call("GET", target, &[], b"")
    }

    pub fn delete(self, target: &str) -> Answer {
        self.call("DELETE", target, &[], b"")
    }

    /// With a body of JSON.
    pub fn post(self, target: &str, body: &str) -> Answer {
        self.call("POST", target, &[("content-type", "application/json")], body.as_bytes())
    }

    pub fn put(self, target: &str, body: &str) -> Answer {
        self.call("PUT", target, &[("content-type", "application/json")], body.as_bytes())
    }

    pub fn call(self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        // As most clients do, this keeps its connection: plain requests take the fast path then.
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
        if method == "HEAD" {
            head.push_str("connection: close\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let answer = self.raw(&[head.as_bytes(), body].concat());
        answer.unwrap_or_else(|| panic!("{method} {target} was not answered"))
    }

    /// What is answered to these bytes, if it is HTTP.
    pub fn raw(self, bytes: &[u8]) -> Option<Answer> {
        Rest::exchange(TcpStream::connect(self.0).unwrap(), bytes)
    }

    /// The same, if it does not take longer.
    pub fn try_within(self, bytes: &[u8], patience: Duration) -> Option<Answer> {
        Rest::exchange_within(TcpStream::connect_timeout(&self.0, patience).ok()?, bytes, patience)
    }

    /// The same on a connection that was made before.
    pub fn answer_on(stream: TcpStream, bytes: &[u8]) -> Option<Answer> {
        Rest::exchange(stream, bytes)
    }

    fn exchange(stream: TcpStream, bytes: &[u8]) -> Option<Answer> {
        Rest::exchange_within(stream, bytes, PATIENCE)
    }

    fn exchange_within(mut stream: TcpStream, bytes: &[u8], patience: Duration) -> Option<Answer> {
        stream.set_read_timeout(Some(patience)).unwrap();
        // The other side may hang up before it has read everything.
        let _ = stream.write_all(bytes);
        let (mut received, mut chunk) = (Vec::new(), [0; 16 << 10]);
        loop {
            let count = stream.read(&mut chunk).unwrap_or(0);
            received.extend_from_slice(&chunk[..count]);
            let answer = Answer::parse(&received);
            if count == 0 || answer.as_ref().is_some_and(Answer::is_whole) {
                return answer;
            }
        }
    }

    /// Until the ring has so many nodes, and none of its partitions move.
    pub fn wait_for_ring(self, nodes: usize) {
        until("the ring is whole", || {
            let ring = self.get("/v1/ring").json();
            let all = ring["nodes"].as_array().is_some_and(|all| all.len() == nodes);
            let still = ring["nodes"].as_array()?.iter().all(|node| node["standing"] == "serving");
            (all && still && ring["here"]["serving"] == true).then_some(())
        });
    }
}

/// One node, ready to take data.
pub fn single() -> (Member, Rest) {
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    (member, rest)
}
