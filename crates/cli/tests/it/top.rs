//! `althing top` against a real node: one frame for people, one for programs, and lines of JSON until it is stopped.

use crate::process::{Member, Plan, althing};
use crate::rest::Rest;
use crate::talking::Talking;
use serde_json::Value;
use std::process::{Command, Stdio};

fn top(member: &Member, args: &[&str]) -> Command {
    let mut command = althing();
    command.env("ALTHING_HTTP_ENDPOINTS", Rest::of(member).0.to_string()).arg("top").args(args);
    command
}

#[test]
fn one_frame_shows_the_node_and_one_of_json_its_figures() {
    let member = Plan::single().start_ready();
    let shown = top(&member, &["--once"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(text.starts_with("1 of 1 member healthy, leader m0"), "{text}");
    assert!(text.contains("0 locks") && text.contains("FSYNC P99") && text.contains("leader"), "{text}");
    assert!(!text.contains('\x1b'), "no terminal, no control sequences: {text:?}");

    let shown = top(&member, &["--once", "-w", "json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let node = document["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!((&node["role"], &node["recent"]), (&Value::from("leader"), &Value::Null), "{document}");
    assert!(node["numbers"]["applied"].as_u64().unwrap() > 0, "{document}");
}

#[test]
fn without_once_it_goes_on_and_without_a_node_it_fails() {
    let member = Plan::single().start_ready();
    let command = top(&member, &["-w", "json", "--interval", "50ms"]).stdout(Stdio::piped()).spawn();
    let mut talking = Talking::of(command.unwrap());
    for _ in 0..2 {
        let document: Value = serde_json::from_str(&talking.line()).unwrap();
        assert_eq!(document["healthy"], true, "{document}");
    }
    drop(talking);
    let nowhere = top(&member, &["--once", "--http-endpoints", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(4));
}
