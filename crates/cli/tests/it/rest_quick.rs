//! The short way of the data API, on connections that are kept: what it answers is what the router answers, requests
//! that come together are answered together and in order, and the first that is unusual loses nothing.

use crate::auth::{CHEAP, gate, token_of, with_auth};
use crate::process::{Member, PATIENCE, Plan, until};
use crate::rest::{Rest, single};
use base::Rng;
use std::collections::BTreeMap;
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
fn a_create_on_a_kept_connection_overwrites_nothing() {
    let (_member, rest) = single();
    let create = |value: &str| {
        let fail = "X-Conflict-Resolution: FAIL\r\nContent-Type: application/json\r\n";
        request("PUT", "/v1/data/created", fail, &format!(r#"{{"value":"{value}"}}"#))
    };
    let read = request("GET", "/v1/data/created", LAST, "");
    let answers = converse(rest, &[create("first"), create("second"), read].concat());
    let statuses: Vec<&str> = answers.iter().map(|(head, _)| &head[9..12]).collect();
    assert_eq!(statuses, ["200", "409", "200"]);
    assert!(answers[2].1.contains(r#""value":"first""#), "{}", answers[2].1);
}

/// A header and the values that it may have; an empty one leaves it out.
const HEADERS: [(&str, &[&str]); 15] = [
    ("accept", &["", "", "*/*", "application/json", "text/plain", "application/octet-stream"]),
    (
        "content-type",
        &["", "application/json", "text/plain", "application/x-www-form-urlencoded", "image/png"],
    ),
    (
        "authorization",
        &[
            "Bearer TOKEN",
            "Bearer TOKEN",
            "Bearer TOKEN",
            "",
            "TOKEN",
            "Bearer nonsense",
            "Basic !",
            "Basic cm9vdDp3cm9uZw==",
        ],
    ),
    ("x-session-token", &["", "", "new", "nonsense", "s1.", "s1.AAAA"]),
    ("x-consistency-level", &["", "", "QUORUM", "LOCAL_QUORUM", "ONE", "EVENTUAL", "nonsense"]),
    ("x-request-id", &["", "", "", "r-1", "r 2"]),
    ("x-if-vector-clock", &["", "", "", "!", "AAAA", "0"]),
    ("x-min-vector-clock", &["", "", "", "!", "AAAA"]),
    ("x-vector-clock", &["", "", "", "!", "AAAA"]),
    ("x-fence", &["", "", "", "nonsense", "a=1"]),
    // FAIL would find what the other way has just written.
    ("x-conflict-resolution", &["", "", "LWW", "CRDT", "nonsense"]),
    ("traceparent", &["", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "nonsense"]),
    ("x-forwarded-for", &["", "", "10.0.0.1"]),
    ("cookie", &["", "", "a=b; c=d"]),
    ("accept-encoding", &["", "", "gzip, br"]),
];
const BODIES: [&str; 9] = [
    r#"{"value":17}"#,
    r#"{"value":{"a":[1,2.50,"grüße"]},"ttl":1000}"#,
    r#"{"value":"x","metadata":{"a":"b"},"schema_version":3}"#,
    r#"{"key":"KEY","value":1}"#,
    r#"{"key":"KEY","value":"x","type":"delta_numeric"}"#,
    r#"{"key":"","value":1}"#,
    r#"{"value":1,"unknown":2}"#,
    "{",
    "plain text",
];
/// Keys of generated requests; the last two cannot stand in a path as they are.
const KEYS: [&str; 7] = ["g1", "g2", "rich", "gone", "absent", "with%20blank", "a/b"];

/// A request of one of the kinds that the fast path serves, and whether it writes: its first line, headers and body.
fn generated(rng: &mut Rng, token: &str) -> (String, String, String, bool) {
    let key = rng.pick(&KEYS);
    let (line, is_write) = match rng.between(0, 5) {
        0 | 1 => (format!("GET /v1/data/{key}{}", rng.pick(&["", "", "?r=1", "?r=2"])), false),
        2 | 3 => (format!("GET /api/v1/store/keys/{key}{}", rng.pick(&["", "", "?r=1", "?raw"])), false),
        4 => (format!("PUT /v1/data/{key}"), true),
        _ => ("POST /api/v1/store/keys".to_owned(), true),
    };
    let mut headers = Vec::new();
    for (name, values) in HEADERS {
        let value = rng.pick(values).replace("TOKEN", token);
        // Most requests have few of them.
        if !value.is_empty() && (rng.between(0, 2) == 0 || name == "authorization") {
            let letter =
                |letter: char| if rng.between(0, 3) == 0 { letter.to_ascii_uppercase() } else { letter };
            headers.push(format!("{}: {value}\r\n", name.chars().map(letter).collect::<String>()));
        }
    }
    // In whatever order.
    for at in (1..headers.len()).rev() {
        headers.swap(at, rng.between(0, at as u64) as usize);
    }
    let body = if is_write { rng.pick(&BODIES).replace("KEY", key) } else { String::new() };
    (line, headers.concat(), body, is_write)
}

#[test]
fn whatever_is_asked_both_ways_answer_alike() {
    const REQUESTS: usize = 600;
    let member = Plan::single().with(&CHEAP).start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    rest.put("/v1/data/rich", r#"{"value":{"a":1},"metadata":{"a":"b"},"schema_version":3}"#);
    rest.put("/v1/data/gone", r#"{"value":1}"#);
    rest.delete("/v1/data/gone");
    let mut rng = Rng::new(17);
    for is_auth_on in [false, true] {
        let mut token = "none".to_owned();
        if is_auth_on {
            with_auth(&member);
            token = token_of(gate(&member), "root", "rpw");
            until("the data plane knows the users", || {
                (rest.get("/v1/data/rich").status == 401).then_some(())
            });
        }
        let mut statuses = BTreeMap::<String, usize>::new();
        for nth in 0..REQUESTS {
            let (line, headers, body, is_write) = generated(&mut rng, &token);
            let (method, target) = line.split_once(' ').unwrap();
            // The first is served by the fast path if any request is, the second by the router.
            let (short, long) = (
                request(method, target, &headers, &body),
                request(method, target, &format!("{headers}{LAST}"), &body),
            );
            let answers = converse(rest, &[short.as_str(), &long].concat());
            let [first, second] = &answers[..] else { panic!("{} answers to {short}", answers.len()) };
            let alike = |answer: &(String, String)| {
                let (mut lines, body) = gist(answer, is_write);
                // A token says what this answer has seen.
                lines
                    .iter_mut()
                    .filter(|line| line.starts_with("x-session"))
                    .for_each(|line| line.truncate(16));
                (lines, body)
            };
            assert_eq!(alike(first), alike(second), "request {nth}:\n{short}");
            *statuses.entry(first.0[9..12].to_owned()).or_default() += 1;
        }
        let seen = |status: &str| statuses.get(status).copied().unwrap_or_default();
        assert!(seen("200") > REQUESTS / 20 && seen("400") > 0 && seen("404") > 0, "{statuses:?}");
        assert_eq!(seen("401") > 0, is_auth_on, "{statuses:?}");
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

#[test]
fn a_value_that_is_not_plain_is_read_once() {
    let (member, rest) = single();
    for (key, body) in [
        ("rich", r#"{"value":"x","metadata":{"a":"b"},"schema_version":3}"#),
        ("mortal", r#"{"value":"x","ttl":100000}"#),
        ("sum", r#"{"value":"1.5","type":"delta_numeric"}"#),
    ] {
        assert_eq!(rest.put(&format!("/v1/data/{key}"), body).status, 200);
        for target in [format!("/api/v1/store/keys/{key}"), format!("/v1/data/{key}")] {
            let before = reads(&member);
            let plain = request("GET", &target, "", "");
            let in_session = request("GET", &target, "X-Session-Token: new\r\n", "");
            // The last one of a connection goes the long way, and asks for nothing.
            let last = request("GET", "/openapi.json", LAST, "");
            let answers = converse(rest, &[plain.as_str(), &in_session, &last].concat());
            for (head, _) in &answers[..2] {
                assert!(head.starts_with("HTTP/1.1 200 "), "{target}: {head}");
            }
            assert_eq!(reads(&member) - before, 2, "{target}");
        }
    }
}
