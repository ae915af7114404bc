//! What no honest client sends to the data API: it is answered 4xx with a reason, costs little, and changes nothing.

use crate::process::{Member, PATIENCE};
use crate::rest::{Rest, single};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Far below what any of these attacks would reach if it were not bounded.
const RSS_BYTES_MAX: u64 = 384 * 1024 * 1024;

fn assert_unharmed(member: &mut Member, rest: Rest) {
    assert!(member.is_running());
    assert_eq!(rest.get("/health").status, 200);
    assert_eq!(rest.get("/api/v1/store/range").json()["entries"].as_array().unwrap().len(), 0);
    let rss = member.rss_bytes();
    assert!(rss < RSS_BYTES_MAX, "{} MiB resident", rss >> 20);
}

#[test]
fn whatever_is_wrong_is_said_with_what_would_be_right() {
    let (mut member, rest) = single();
    let json = [("content-type", "application/json")];
    let long_key = "k".repeat(5_000);
    let long_path = format!("/v1/data/{long_key}");
    let long_body = format!(r#"{{"key": "{long_key}", "value": 1}}"#);
    let deep = format!(r#"{{"value": {}{}}}"#, "[".repeat(100_000), "]".repeat(99_999));
    let nested = format!(r#"{{"value": {}{}}}"#, "[".repeat(200), "]".repeat(200));
    let long_number = format!(r#"{{"value": {}}}"#, "9".repeat(400));
    let many = format!(r#"{{"entries": [{}]}}"#, [r#"{"key": "a", "value": 1}"#; 1_001].join(","));
    let table: &[(&str, &str, &str, u16)] = &[
        ("POST", "/api/v1/store/keys", "", 400),
        ("POST", "/api/v1/store/keys", "{", 400),
        ("POST", "/api/v1/store/keys", "[]", 400),
        ("POST", "/api/v1/store/keys", "null", 400),
        ("POST", "/api/v1/store/keys", "\u{0}", 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a"}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"value": "a"}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": 7, "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "vlue": 2}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "ttl": 0}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "ttl": -5}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "ttl": 1e99}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "type": "heap"}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "type": "pncounter"}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "a", "value": 1, "metadata": {"content-type": "x"}}"#, 400),
        ("POST", "/api/v1/store/keys", r#"{"key": "\ud800", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys", &long_body, 413),
        ("PUT", &long_path, r#"{"value": 1}"#, 413),
        ("PUT", "/v1/data/a", &deep, 400),
        ("PUT", "/v1/data/a", r#"{"value": 1e999}"#, 400),
        ("PUT", "/v1/data/a", r#"{"value": "\ud800"}"#, 400),
        ("PUT", "/v1/data/a", &nested, 400),
        ("PUT", "/v1/data/a", &long_number, 400),
        ("POST", "/api/v1/store/keys?w=4", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?w=0", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?w=2", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?w=x", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?wait=1", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?timeout_ms=0", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?ns=UPPER", r#"{"key": "a", "value": 1}"#, 400),
        ("POST", "/api/v1/store/keys?ns=nowhere", r#"{"key": "a", "value": 1}"#, 404),
        ("POST", "/api/v1/store/keys?a=%", r#"{"key": "a", "value": 1}"#, 400),
        ("GET", "/api/v1/store/keys/%ff", "", 400),
        ("GET", "/api/v1/store/keys/a?r=9", "", 400),
        ("GET", "/api/v1/store/keys/a?r=-1", "", 400),
        ("GET", "/api/v1/store/keys/a?r=1&r=1", "", 400),
        ("GET", "/api/v1/store/key", "", 400),
        ("GET", "/api/v1/store/range?limit=0", "", 400),
        ("GET", "/api/v1/store/range?limit=1001", "", 400),
        ("GET", "/api/v1/store/range?start=b&end=a", "", 400),
        ("GET", "/api/v1/store/range?page=!", "", 400),
        ("GET", "/api/v1/store/range?start=b&page=YQ", "", 400),
        ("GET", "/api/v1/store/range?prefix=a&start=b", "", 400),
        ("POST", "/api/v1/store/batch", r#"{"entries": []}"#, 400),
        ("POST", "/api/v1/store/batch", r#"{"entries": {}}"#, 400),
        ("POST", "/api/v1/store/batch", &many, 413),
        ("POST", "/v1/data/batch", r#"{"keys": ["a"], "entries": []}"#, 400),
        ("POST", "/v1/data/batch", "{}", 400),
        ("POST", "/v1/data/batch/read", r#"{"keys": [1]}"#, 400),
        ("POST", "/v1/crdt/counter/increment", "", 400),
        ("POST", "/v1/crdt/counter:/increment", "", 400),
        ("POST", "/v1/crdt/heap:a/push", "", 400),
        ("POST", "/v1/crdt/counter:a", "", 400),
        ("POST", "/v1/crdt/counter:a/explode", "", 400),
        ("POST", "/v1/crdt/counter:a/increment", r#"{"amount": "5"}"#, 400),
        ("POST", "/v1/crdt/counter:a/increment", r#"{"amount": 1e30}"#, 400),
        ("POST", "/v1/crdt/set:a/add", r#"{"element": null}"#, 400),
        ("POST", "/v1/crdt/set:a/add", r#"{"element": 1e999}"#, 400),
        ("POST", "/v1/crdt/set:a/add", r#"{"element": "\ud800"}"#, 400),
        ("PUT", "/v1/data/a?type=mv_register", r#"{"value": 1e999}"#, 400),
        ("POST", "/v1/crdt/delta_numeric:a/add", r#"{"delta": "1e5"}"#, 400),
        ("GET", "/v1/crdt/counter:nothing", "", 404),
        ("PUT", "/v1/namespaces/a%20b", "", 400),
        ("PUT", "/v1/namespaces/a", r#"{"n": 99}"#, 400),
        ("PUT", "/v1/namespaces/a", r#"{"n": "3"}"#, 400),
        ("GET", "/v1/conflicts?page=zz", "", 400),
        ("GET", "/v1/conflicts/zz", "", 400),
        ("GET", "/v1/conflicts/00", "", 404),
        ("POST", "/v1/conflicts/00/restore", "", 404),
        ("GET", "/no/such/path", "", 404),
        ("PATCH", "/v1/data/a", "", 405),
        ("POST", "/v1/ring", "", 405),
    ];
    for (method, target, body, status) in table {
        let answer = rest.call(method, target, &json, body.as_bytes());
        let shown = format!("{method} {} {}", &target[..target.len().min(60)], &body[..body.len().min(60)]);
        assert_eq!(answer.status, *status, "{shown}: {}", String::from_utf8_lossy(&answer.bytes));
        let said = answer.json();
        assert!(
            said["error"].is_string() && said["message"].as_str().is_some_and(|words| words.len() > 8),
            "{shown}"
        );
    }
    assert_unharmed(&mut member, rest);
}

/// Each was stored once, and then no listing that met it was answered.
#[test]
fn values_that_cannot_be_shown_are_not_stored_and_listings_go_on() {
    let (_member, rest) = single();
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let values = ["1e400", "1e999", r#""\ud800""#, &nested, &"9".repeat(400)];
    assert_eq!(rest.put("/v1/data/good", r#"{"value": 1}"#).status, 200);
    for value in values {
        let body = format!(r#"{{"value": {value}}}"#);
        assert_eq!(rest.put("/v1/data/bad", &body).status, 400, "{value}");
        rest.post("/v1/data/batch", &format!(r#"{{"entries": [{{"key": "bad", "value": {value}}}]}}"#));
        rest.post("/v1/crdt/set:bad/add", &format!(r#"{{"element": {value}}}"#));
        assert_eq!(rest.get("/v1/data/bad").status, 404, "{value}");
        let listed = rest.get("/v1/data").json();
        let keys: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| &entry["key"]).collect();
        assert_eq!(keys, ["good"], "{value}");
        let read = rest.post("/v1/data/batch/read", r#"{"keys": ["good"]}"#);
        assert_eq!(read.status, 200, "{value}");
    }
}

/// A clock that claims writes which no replica has made would cover the next one before it is there.
#[test]
fn a_clock_that_was_not_given_out_for_the_key_is_refused() {
    let (mut member, rest) = single();
    let clock_of = |key: &str| {
        assert_eq!(rest.put(&format!("/v1/data/{key}"), r#"{"value": 1}"#).status, 200);
        rest.get(&format!("/v1/data/{key}")).header("x-vector-clock").unwrap().to_owned()
    };
    let (own, foreign) = (clock_of("k"), clock_of("other"));
    let mut bytes = STANDARD.decode(&own).unwrap();
    // The counter is the last number, and is small in a new store.
    bytes.pop();
    bytes.extend([0xff; 8]);
    bytes.push(1);
    for clock in [STANDARD.encode(&bytes), foreign] {
        for name in ["x-vector-clock", "x-if-vector-clock"] {
            let headers = [("content-type", "application/json"), (name, clock.as_str())];
            let answer = rest.call("PUT", "/v1/data/k", &headers, br#"{"value": 2}"#);
            assert_eq!((answer.status, &answer.json()["error"]), (400, &"unknown_context".into()), "{name}");
        }
    }
    assert_eq!(rest.put("/v1/data/k", r#"{"value": 3}"#).status, 200);
    assert_eq!(rest.get("/v1/data").json()["entries"].as_array().unwrap().len(), 2);
    assert!(member.is_running());
}

#[test]
fn headers_that_make_no_sense_are_named() {
    let (mut member, rest) = single();
    let long = "x".repeat(9_000);
    let table: &[(&str, &str)] = &[
        ("x-consistency-level", "EVENTUALLY"),
        ("x-consistency-level", "LOCAL_ONE"),
        ("x-if-vector-clock", "AAAA"),
        ("x-if-vector-clock", "not base64"),
        ("x-vector-clock", "AQ"),
        ("x-conflict-resolution", "lww"),
        ("x-fence", "lock"),
        ("x-request-id", &long),
        ("x-session-token", &long),
    ];
    for (name, value) in table {
        let answer = rest.call(
            "PUT",
            "/v1/data/a",
            &[("content-type", "application/json"), (name, value)],
            br#"{"value": 1}"#,
        );
        assert_eq!(answer.status, 400, "{name}: {value}");
    }
    let answer = rest.call("GET", "/v1/data/a", &[("x-min-vector-clock", "!")], b"");
    assert_eq!(answer.status, 400);
    assert_unharmed(&mut member, rest);
}

#[test]
fn what_is_too_large_is_refused_and_costs_little() {
    let (mut member, rest) = single();
    let value = vec![7; 3 << 20];
    for _ in 0..10 {
        let answer = rest.call("PUT", "/v1/data/big", &[("content-type", "image/png")], &value);
        assert_eq!(answer.status, 413);
    }
    let fits = vec![7; 1 << 20];
    assert_eq!(rest.call("PUT", "/v1/data/big", &[("content-type", "image/png")], &fits).status, 200);
    rest.delete("/v1/data/big");
    // It says that gigabytes come, and sends none.
    let head = "PUT /v1/data/big HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999999\r\n\r\nxx";
    let mut stream = TcpStream::connect(rest.0).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 64];
    let read = stream.read(&mut answer).unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer[..read]));
    assert_unharmed(&mut member, rest);
}

#[test]
fn noise_on_the_port_is_dropped() {
    let (mut member, rest) = single();
    let mut rng = base::Rng::new(7);
    for _ in 0..60 {
        let len = rng.between(1, 20_000) as usize;
        let noise: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        let answer = rest.raw(&[&noise[..], b"\r\n\r\n"].concat());
        assert!(answer.is_none_or(|answer| (400..500).contains(&answer.status)));
        let body: Vec<u8> = noise.iter().take(500).copied().collect();
        for target in ["/api/v1/store/keys", "/api/v1/store/batch", "/v1/data/batch", "/v1/crdt/set:a/add"] {
            let answer = rest.call("POST", target, &[("content-type", "application/json")], &body);
            assert_eq!(answer.status, 400, "{target}");
        }
    }
    // The greeting of a peer, on a port where none comes.
    assert!(rest.raw(b"ALTHINGP\r\n\r\n").is_none_or(|answer| answer.status == 400));
    assert_unharmed(&mut member, rest);
}
