//! A log that is not read must not stop the member (a reader of standard error that has hung is a classic).

use crate::etcd::put;
use crate::process::{Member, Plan};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_stopped_reader_of_the_log_stops_nothing() {
    let plan = Plan::single().with(&["--log-level", "trace"]);
    let mut child = plan.command().stderr(Stdio::piped()).spawn().unwrap();
    let unread = child.stderr.take().expect("piped");
    let member = Member::from_child(child);
    member.wait_ready();
    crate::tour::block_on(async {
        let mut etcd = member.etcd().await;
        for i in 0..4_000 {
            etcd.put(put(format!("key{i}"), "value")).await.unwrap();
        }
    });
    assert_eq!(member.http("GET", "/health").status, 200);

    // Reading again shows that the pipe was full all the while: lines were lost, and that is told.
    let mut lines = BufReader::new(unread).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("log lines were dropped because the reader was too slow")));
}

#[test]
fn events_are_objects_of_json_when_asked() {
    let plan = Plan::single().with(&["--log-format", "json"]);
    let mut child = plan.command().stderr(Stdio::piped()).spawn().unwrap();
    let log = child.stderr.take().expect("piped");
    let member = Member::from_child(child);
    member.wait_ready();
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let found = lines.by_ref().take(20).any(|line| {
        let event: serde_json::Value = serde_json::from_str(&line).expect("each line is an object");
        event["message"] == "opened the data directory" && event["level"] == "INFO"
    });
    assert!(found);
}
