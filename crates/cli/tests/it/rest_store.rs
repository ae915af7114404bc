//! The first design's README, line by line: three nodes by its environment, side by side in one folder, and every one of
//! its examples. Then what it left open: absent and deleted keys, nodes that are down.

use crate::process::{Member, althing, free_port};
use crate::rest::{Rest, single};
use serde_json::json;
use std::process::{Command, Stdio};
use tempfile::TempDir;

struct Node {
    member: Member,
    rest: Rest,
    http: u16,
}

/// `HTTP_PORT=… GRPC_PORT=… [SEED_IP=… SEED_PORT=…] althing`, as the README starts its jar.
fn start(dir: &TempDir, http: u16, grpc: u16, seed: Option<u16>) -> Node {
    let mut command = althing();
    command.current_dir(dir.path()).env("HTTP_PORT", http.to_string()).env("GRPC_PORT", grpc.to_string());
    if let Some(seed) = seed {
        command.env("SEED_IP", "127.0.0.1").env("SEED_PORT", seed.to_string());
    }
    let log = std::fs::File::create(dir.path().join(format!("log-{http}"))).unwrap();
    let member = Member::from_child(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
    let rest = Rest::of(&member);
    Node { member, rest, http }
}

fn cluster(dir: &TempDir) -> [Node; 3] {
    let seed = free_port();
    let first = start(dir, free_port(), seed, None);
    first.rest.wait_for_ring(1);
    let second = start(dir, free_port(), free_port(), Some(seed));
    let third = start(dir, free_port(), free_port(), Some(seed));
    let nodes = [first, second, third];
    nodes.iter().for_each(|node| node.rest.wait_for_ring(3));
    nodes
}

/// The examples as they stand in the README, by curl if it is here.
fn curl(node: &Node, args: &[&str]) -> Option<String> {
    let url = format!("http://localhost:{}", node.http);
    let args: Vec<String> = args.iter().map(|arg| arg.replace("HOST", &url)).collect();
    let output = Command::new("curl").args(["-s", "-S"]).args(args).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_first_designs_readme_works_line_by_line() {
    let dir = TempDir::new().unwrap();
    let [one, two, three] = cluster(&dir);
    for node in [&one, &two, &three] {
        assert!(dir.path().join(format!("althing-data/{}", node.http)).is_dir(), "each has its own folder");
        let page = node.rest.get("/webjars/swagger-ui/index.html");
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").unwrap().starts_with("text/html"));
        assert_eq!(node.rest.get("/swagger-ui/").bytes, page.bytes);
    }

    // 1. put(key, value)
    let put = one.rest.post("/api/v1/store/keys", r#"{"key": "user_1", "value": "Alice"}"#);
    assert_eq!((put.status, &put.json()["status"]), (200, &json!("ok")));
    // 2. read(key)
    let read = three.rest.get("/api/v1/store/keys/user_1");
    assert_eq!((read.status, &read.json()["value"]), (200, &json!("Alice")));
    // 4. batchPut
    let batch = r#"{"entries": [
        {"key": "user_a", "value": "100"}, {"key": "user_b", "value": "200"}, {"key": "user_c", "value": "300"}
    ]}"#;
    let put = one.rest.post("/api/v1/store/batch", batch);
    assert_eq!((put.status, &put.json()["succeeded"]), (200, &json!(3)));
    // 3. readKeyRange(startKey, endKey)
    for node in [&one, &two, &three] {
        let range = node.rest.get("/api/v1/store/range?start=user_a&end=user_c");
        let found = range.json();
        let keys: Vec<&str> =
            found["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect();
        assert_eq!(
            (range.status, keys),
            (200, vec!["user_a", "user_b"]),
            "the start is in it, the end is not"
        );
        assert_eq!(found["complete"], true);
    }
    // 5. delete(key)
    assert_eq!(one.rest.delete("/api/v1/store/keys/user_1").status, 200);
    assert_eq!(two.rest.get("/api/v1/store/keys/user_1").status, 410, "deleted");
    assert_eq!(two.rest.get("/api/v1/store/keys/unknown").status, 404, "never written");

    let json = ["-H", "Content-Type: application/json"];
    let post = ["-X", "POST", "HOST/api/v1/store/keys"];
    let body = ["-d", r#"{"key": "user_2", "value": "Bob"}"#];
    if let Some(answer) = curl(&one, &[&post[..], &json, &body].concat()) {
        assert!(answer.contains(r#""status":"ok""#), "{answer}");
        let answer = curl(&three, &["HOST/api/v1/store/keys/user_2"]).unwrap();
        assert!(answer.contains(r#""value":"Bob""#), "{answer}");
        // The README forgets quotes, so that a shell sends the first half; that must work as well.
        let answer = curl(&one, &["HOST/api/v1/store/range?start=user_a"]).unwrap();
        assert!(answer.contains("user_c"), "{answer}");
    }
}

#[test]
fn a_node_that_is_down_is_not_missed_and_without_two_a_write_is_indeterminate() {
    let dir = TempDir::new().unwrap();
    let [one, mut two, mut three] = cluster(&dir);
    assert_eq!(one.rest.post("/api/v1/store/keys", r#"{"key": "k", "value": 1}"#).status, 200);
    three.member.kill();
    for n in 0..20 {
        let body = format!(r#"{{"key": "k{n}", "value": {n}}}"#);
        assert_eq!(one.rest.post("/api/v1/store/keys", &body).status, 200);
        assert_eq!(two.rest.get(&format!("/api/v1/store/keys/k{n}")).json()["value"], n);
    }
    assert_eq!(one.rest.get("/api/v1/store/range?prefix=k").status, 200, "two of three cover the ring");

    two.member.kill();
    let put = one.rest.post("/api/v1/store/keys?timeout_ms=500", r#"{"key": "lonely", "value": 1}"#);
    let said = put.json();
    assert_eq!((put.status, &said["status"], &said["needed"]), (503, &json!("indeterminate"), &json!(2)));
    assert!(said["acks"].as_u64().unwrap() < 2 && put.header("retry-after").is_some());
    let read = one.rest.get("/api/v1/store/keys/k1?timeout_ms=500");
    assert_eq!((read.status, &read.json()["status"]), (503, &json!("unavailable")));
    assert_eq!(
        one.rest.get("/api/v1/store/keys/k1?r=1").json()["value"],
        1,
        "one replica is enough if asked"
    );
    let range = one.rest.get("/api/v1/store/range?prefix=k&timeout_ms=500");
    assert_eq!(range.status, 503, "no partition has two that answer");
    let batch = one.rest.post(
        "/api/v1/store/batch?timeout_ms=500",
        r#"{"entries": [{"key": "x", "value": 1}, {"key": "y", "value": 2}]}"#,
    );
    assert_eq!((batch.status, &batch.json()["failed"]), (503, &json!(2)));
}

#[test]
fn short_spellings_batches_and_pages_work() {
    let (_member, rest) = single();
    let put = rest.put("/api/v1/store/key", r#"{"key": "a/b c", "value": {"deep": [1, 2.50]}}"#);
    assert_eq!(put.status, 200);
    for target in ["/api/v1/store/key/a%2Fb%20c", "/api/v1/store/key/a/b%20c", "/api/v1/store/key?key=a/b+c"]
    {
        assert_eq!(rest.get(target).json()["value"], json!({"deep": [1, 2.50]}), "{target}");
    }
    let text = String::from_utf8(rest.get("/api/v1/store/keys/a/b%20c").bytes).unwrap();
    assert!(text.contains(r#"{"deep": [1, 2.50]}"#), "digit for digit: {text}");
    assert_eq!(rest.delete("/api/v1/store/key?key=a/b%20c").status, 200);
    assert_eq!(rest.get("/api/v1/store/key/a/b%20c").status, 410);

    let mixed = r#"{"entries": [{"key": "m", "value": 1}, {"key": "", "value": 1}, {"kei": "x"}, {"key": "n", "value": 2}]}"#;
    let answer = rest.post("/api/v1/store/batch", mixed);
    let said = answer.json();
    let statuses: Vec<u64> =
        said["results"].as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!((answer.status, statuses), (207, vec![200, 400, 400, 200]));

    let entries: Vec<String> = (0..25).map(|n| format!(r#"{{"key": "p{n:02}", "value": {n}}}"#)).collect();
    rest.post("/api/v1/store/batch", &format!(r#"{{"entries": [{}]}}"#, entries.join(",")));
    let (mut page, mut seen) = (String::new(), Vec::new());
    loop {
        let answer = rest.get(&format!("/api/v1/store/range?prefix=p&limit=10{page}")).json();
        let entries = answer["entries"].as_array().unwrap().clone();
        assert!(entries.len() <= 10);
        seen.extend(entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()));
        match answer["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).map(|n| format!("p{n:02}")).collect::<Vec<_>>());
}

#[test]
fn bytes_are_kept_as_they_are_with_their_type() {
    let (_member, rest) = single();
    let bytes: Vec<u8> = (0..=255).collect();
    let put = rest.call("PUT", "/api/v1/store/keys/photo", &[("content-type", "image/png")], &bytes);
    assert_eq!(put.status, 200);
    let raw = rest.call("GET", "/api/v1/store/keys/photo", &[("accept", "application/octet-stream")], b"");
    assert_eq!((raw.header("content-type"), &raw.bytes), (Some("image/png"), &bytes));
    let shown = rest.get("/v1/data/photo").json();
    assert_eq!((&shown["encoding"], &shown["content_type"]), (&json!("base64"), &json!("image/png")));
    rest.call("PUT", "/api/v1/store/keys/note", &[("content-type", "text/plain")], "grüße".as_bytes());
    assert_eq!(rest.get("/api/v1/store/keys/note").json()["value"], "grüße");
}

#[test]
fn a_repeated_request_is_done_once() {
    let (_member, rest) = single();
    let id = [("x-request-id", "order-17"), ("content-type", "application/json")];
    for _ in 0..3 {
        let answer = rest.call("POST", "/v1/crdt/counter:orders/increment", &id, br#"{"amount": 5}"#);
        assert_eq!(answer.json()["value"], 5);
    }
    let other = [("x-request-id", "order-18")];
    assert_eq!(rest.call("POST", "/v1/crdt/counter:orders/increment", &other, b"").json()["value"], 6);
}
