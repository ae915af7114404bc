//! The short way of the data API, on connections that are kept: what it answers is what the router answers, requests
//! that come together are answered together and in order, and the first that is unusual loses nothing.

use crate::process::{Member, PATIENCE};
use crate::rest::{Rest, single};
use std::io::{Read, Write};
use std::net::TcpStream;

/// What sends a request the long way, and ends the connection after it.
const LAST: &str = "connection: close\r\n";

/// Head and body of each answer to what was said on one connection.
fn converse(rest: Rest, said: &str) -> Vec<(String, String)> {
    let mut stream = TcpStream::connect(rest.0).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    let (mut answers, mut left) = (Vec::new(), heard.as_str());
    while let Some((head, rest)) = left.split_once("\r\n\r\n") {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let (body, next) = rest.split_at(length.expect("every answer tells its length").parse().unwrap());
        answers.push((head.to_owned(), body.to_owned()));
        left = next;
    }
    assert_eq!(left, "");
    answers
}

fn request(method: &str, target: &str, extra: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{extra}{length}\r\n{body}")
}

/// What does not depend on the moment: the lines of the head, sorted, and the body. Of writes, whose answers have their
/// version and their time in them, without numbers.
fn gist((head, body): &(String, String), write: bool) -> (Vec<String>, String) {
    let of_moment = |line: &&str| {
        let ours = line.starts_with("x-vector-clock:") || line.starts_with("content-length:");
        line.starts_with("date:") || line.starts_with("connection:") || write && ours
    };
    let mut lines: Vec<String> = head.lines().filter(|line| !of_moment(line)).map(str::to_owned).collect();
    lines.sort();
    (lines, body.chars().filter(|letter| !(write && letter.is_ascii_digit())).collect())
}

#[test]
fn the_short_way_says_what_the_long_way_says() {
    let (_member, rest) = single();
    for (method, target, body) in [
        ("POST", "/api/v1/store/keys", r#"{"key":"plain","value":{"a":[1, 2.50]}}"#),
        ("POST", "/api/v1/store/keys", r#"{"key":"with \"quotes\"","value":1}"#),
        ("PUT", "/v1/data/number", r#"{"value":17}"#),
        ("PUT", "/v1/data/rich", r#"{"value":"x","metadata":{"a":"b"},"schema_version":3}"#),
        ("PUT", "/v1/data/mortal", r#"{"value":"x","ttl":1000}"#),
        ("PUT", "/v1/data/sum", r#"{"value":"1.5","type":"delta_numeric"}"#),
        ("PUT", "/v1/data/broken", "{"),
        ("POST", "/api/v1/store/keys", r#"{"key":"","value":1}"#),
        ("POST", "/api/v1/store/keys", r#"{"key":"k","value":1,"unknown":2}"#),
    ] {
        // Twice on one connection, and then as the router says it.
        let short = request(method, target, "", body);
        let long = request(method, target, LAST, body);
        let answers = converse(rest, &[short.as_str(), &short, &long].concat());
        let [first, second, third] = &answers[..] else { panic!("{} answers", answers.len()) };
        assert_eq!(gist(first, true), gist(second, true), "{method} {target} {body}");
        assert_eq!(gist(second, true), gist(third, true), "{method} {target} {body}");
    }
    // A client that hands on a session is answered the same way on both.
    let session = "X-Session-Token: new\r\ntraceparent: 00-1-2-01\r\n";
    for (method, target, body) in [
        ("PUT", "/v1/data/number", r#"{"value":17}"#),
        ("POST", "/api/v1/store/keys", r#"{"key":"plain","value":1}"#),
        ("GET", "/v1/data/number", ""),
        ("GET", "/api/v1/store/keys/plain", ""),
        ("GET", "/v1/data/rich", ""),
        ("GET", "/v1/data/absent", ""),
    ] {
        let short = request(method, target, session, body);
        let long = request(method, target, &format!("{session}{LAST}"), body);
        let answers = converse(rest, &[short.as_str(), &long].concat());
        let [first, second] = &answers[..] else { panic!("{} answers", answers.len()) };
        let is_write = method != "GET";
        let without_token = |answer: &(String, String)| {
            let (mut lines, body) = gist(answer, is_write);
            lines
                .iter_mut()
                .filter(|line| is_write && line.starts_with("x-session"))
                .for_each(|l| l.truncate(16));
            (lines, body)
        };
        assert_eq!(without_token(first), without_token(second), "{method} {target}");
        assert!(first.0.contains("x-session-token: s1.") || target.ends_with("absent"), "{}", first.0);
    }
    rest.put("/v1/data/gone", r#"{"value":1}"#);
    rest.delete("/v1/data/gone");
    rest.call("PUT", "/v1/data/text", &[("content-type", "text/plain")], "grüße".as_bytes());
    for key in ["plain", "number", "rich", "mortal", "sum", "gone", "text", "absent", "batch"] {
        for target in [format!("/api/v1/store/keys/{key}"), format!("/v1/data/{key}")] {
            let short = request("GET", &target, "", "");
            let long = request("GET", &target, LAST, "");
            let answers = converse(rest, &[short.as_str(), &long].concat());
            let [first, second] = &answers[..] else { panic!("{} answers", answers.len()) };
            assert_eq!(gist(first, false), gist(second, false), "{target}");
        }
    }
}

#[test]
fn requests_that_come_together_are_answered_in_order() {
    let (_member, rest) = single();
    let write = |n: usize| request("PUT", "/v1/data/k", "", &format!("{{\"value\":{n}}}"));
    let read = request("GET", "/api/v1/store/keys/k", "", "");
    let said: String = (0..200).map(|n| write(n) + &read).collect();
    let answers = converse(rest, &(said + &request("GET", "/v1/data/k", LAST, "")));
    assert_eq!(answers.len(), 401);
    for (n, pair) in answers[..400].chunks(2).enumerate() {
        assert!(pair[0].1.starts_with(r#"{"status":"committed""#), "{}", pair[0].1);
        assert!(pair[1].1.starts_with(&format!(r#"{{"key":"k","value":{n},"#)), "{n}: {}", pair[1].1);
    }
}

/// How many reads the mesh has been asked for.
fn reads(member: &Member) -> u64 {
    let metrics = member.http("GET", "/metrics").body;
    let line = r#"althing_mesh_requests_total{kind="read",outcome="done"} "#;
    let found = metrics.lines().find_map(|found| found.strip_prefix(line));
    found.expect("reads are counted").parse().unwrap()
}

#[test]
fn a_key_that_was_never_written_is_404_and_one_that_was_deleted_410_after_one_read() {
    let (member, rest) = single();
    rest.put("/v1/data/gone", r#"{"value":1}"#);
    rest.delete("/v1/data/gone");
    for (key, status) in [("absent", "404"), ("gone", "410")] {
        for target in [format!("/api/v1/store/keys/{key}"), format!("/v1/data/{key}")] {
            let before = reads(&member);
            let short = request("GET", &target, "", "");
            // The last one of a connection goes the long way, and asks for nothing.
            let last = request("GET", "/openapi.json", LAST, "");
            let answers = converse(rest, &[short.as_str(), &short, &last].concat());
            for (head, _) in &answers[..2] {
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {head}");
            }
            assert_eq!(reads(&member) - before, 2, "{target}");
        }
    }
}
