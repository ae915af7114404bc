//! `althing data`, `crdt`, `ring`, `conflicts` and `bench data`, against a real node.

use crate::process::althing;
use crate::rest::{Rest, single};
use std::io::Write;
use std::process::{Output, Stdio};

fn run(rest: Rest, args: &[&str]) -> Output {
    althing().args(args).env("ALTHING_HTTP_ENDPOINTS", rest.0.to_string()).output().unwrap()
}

/// What a verb that succeeds prints.
fn said(rest: Rest, args: &[&str]) -> String {
    let output = run(rest, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The exit code of a verb that fails, and why it did.
fn failed(rest: Rest, args: &[&str]) -> (i32, String) {
    let output = run(rest, args);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn data_is_put_read_scanned_and_deleted() {
    let (_member, rest) = single();
    assert_eq!(said(rest, &["data", "put", "user_1", "Alice"]), "OK\n");
    assert_eq!(said(rest, &["data", "get", "user_1"]), "user_1\nAlice\n");
    said(rest, &["data", "put", "doc", r#"{"a": 1}"#, "--json", "--ttl", "3600"]);
    assert_eq!(said(rest, &["data", "get", "doc", "--raw"]), r#"{"a":1}"#);
    let shown: serde_json::Value =
        serde_json::from_str(&said(rest, &["data", "get", "doc", "-w", "json"])).unwrap();
    assert_eq!(shown["value"], serde_json::json!({"a": 1}));
    let clock = shown["x_vector_clock"].as_str().unwrap();
    said(rest, &["data", "put", "doc", "2", "--json", "--only-if", clock]);
    assert_eq!(
        failed(rest, &["data", "put", "doc", "3", "--json", "--only-if", clock]).0,
        2,
        "it has changed"
    );
    assert!(said(rest, &["data", "get", "doc", "--explain"]).contains("partition"));

    assert_eq!(said(rest, &["data", "batch", "b=2", "a=1"]), "2 written\n");
    assert_eq!(said(rest, &["data", "scan", "a", "c"]), "a\n1\nb\n2\n");
    assert_eq!(said(rest, &["data", "scan", "--prefix", "user_", "--keys-only"]), "user_1\n");
    let table = said(rest, &["-w", "table", "data", "scan", "a", "b"]);
    assert!(table.contains("| KEY | VALUE |"), "{table}");
    assert_eq!(said(rest, &["data", "del", "user_1"]), "OK\n");
    let (code, why) = failed(rest, &["data", "get", "user_1"]);
    assert!(code == 2 && why.contains("key_deleted"), "{why}");
    assert_eq!(failed(rest, &["data", "get", "unknown"]).0, 2);
    assert_eq!(failed(rest, &["data", "get", "a", "--r", "9"]).0, 2);
    assert_eq!(failed(rest, &["data", "get", "a", "--http-endpoints", "127.0.0.1:1"]).0, 4);
}

#[test]
fn bytes_and_lines_come_from_files_and_pipes() {
    let (_member, rest) = single();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[0, 159, 146, 150]).unwrap();
    said(
        rest,
        &["data", "put", "photo", "--file", file.path().to_str().unwrap(), "--content-type", "image/png"],
    );
    assert_eq!(run(rest, &["data", "get", "photo", "--raw"]).stdout, [0, 159, 146, 150]);
    let mut child = althing()
        .args(["data", "batch"])
        .env("ALTHING_HTTP_ENDPOINTS", rest.0.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"x 1 and more\ny 2\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(said(rest, &["data", "get", "x"]), "x\n1 and more\n");
}

#[test]
fn values_that_merge_have_verbs_too() {
    let (_member, rest) = single();
    assert_eq!(said(rest, &["crdt", "increment", "visits", "--by", "5"]), "5\n");
    assert_eq!(said(rest, &["crdt", "decrement", "visits"]), "4\n");
    assert_eq!(said(rest, &["crdt", "get", "counter:visits"]), "4\n");
    assert_eq!(said(rest, &["crdt", "add", "tags", "blue"]), "blue\n");
    assert_eq!(said(rest, &["crdt", "contains", "tags", "blue"]), "true\n");
    said(rest, &["crdt", "delta", "account", "100"]);
    assert_eq!(said(rest, &["crdt", "delta", "account", "-12.50"]), "87.5\n");
    assert!(said(rest, &["crdt", "get", "counter:visits", "-w", "table"]).contains("default"));
    assert_eq!(failed(rest, &["crdt", "add", "visits", "x"]).0, 2, "it is a counter");
}

#[test]
fn the_ring_and_its_conflicts_are_shown() {
    let (_member, rest) = single();
    let ring = said(rest, &["ring", "-w", "table"]);
    assert!(ring.contains("PARTITIONS") && ring.contains("256") && ring.contains("nothing moves"), "{ring}");
    assert!(said(rest, &["ring"]).contains("serving"));
    assert_eq!(said(rest, &["conflicts", "ls"]), "");
    assert_eq!(failed(rest, &["conflicts", "show", "00"]).0, 2);
}

#[test]
fn the_load_generator_loads_the_data_api() {
    let (_member, rest) = single();
    for kind in ["put", "get", "mixed"] {
        let report = said(rest, &["bench", "data", kind, "--clients", "4", "--total", "200", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["ops"], &report["errors"]), (&200.into(), &0.into()), "{report}");
    }
}
