//! The ring grows and shrinks under load: five nodes become six and then four, by the verbs that people use; one of those
//! that leave is down when it gets the command. A new node answers at once, by forwarding to replicas.

use crate::mesh_load::Load;
use crate::process::{Member, Plan, althing, free_port, until};
use crate::rest::Rest;
use serde_json::Value;
use std::sync::Arc;
use tempfile::TempDir;

const WRITES_PER_STEP: u64 = 150;
const CLIENTS: u64 = 4;

fn ring(node: Rest, args: &[&str]) -> String {
    let mut command = althing();
    command.arg("ring").args(args).args(["--http-endpoints", &node.0.to_string()]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

fn names(node: Rest) -> Vec<String> {
    let ring = node.get("/v1/ring").json();
    let name = |node: &Value| node["name"].as_str().unwrap().to_owned();
    ring["nodes"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn five_nodes_become_six_and_four_under_load_and_nothing_is_lost() {
    let plans = Plan::cluster(5);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    let rest: Vec<Rest> = members.iter().map(Rest::of).collect();
    rest.iter().for_each(|node| node.wait_for_ring(5));
    let load = Load::start(CLIENTS, rest[..3].iter().copied().enumerate());
    load.wait_for_writes(WRITES_PER_STEP);

    let peer_port = free_port();
    let sixth = Plan {
        name: "m5".to_owned(),
        peer_port,
        http_port: 0,
        cluster: format!("m5=127.0.0.1:{peer_port}"),
        dir: Arc::new(TempDir::new().unwrap()),
        extra: vec!["--join".into(), format!("127.0.0.1:{}", plans[0].peer_port)],
    };
    let sixth = sixth.start();
    let newest = Rest::of(&sixth);
    until("the new node answers", || {
        let body = r#"{"key":"by-a-newcomer","value":"v"}"#;
        (newest.post("/api/v1/store/keys", body).status == 200).then_some(())
    });
    rest[0].wait_for_ring(6);
    load.book.enter(5, newest);
    load.wait_for_writes(WRITES_PER_STEP);

    assert!(ring(rest[0], &["leave", "m3", "--wait"]).contains("is gone"));
    members[3].kill();
    load.wait_for_writes(WRITES_PER_STEP);

    members[4].kill();
    assert!(ring(rest[0], &["leave", "m4", "--wait"]).contains("is gone"));
    load.wait_for_writes(WRITES_PER_STEP);

    let mut left = names(rest[0]);
    left.sort_unstable();
    // Who has no vote has no name.
    assert_eq!(left, ["", "m0", "m1", "m2"]);
    assert!(ring(rest[1], &[]).contains("nothing moves"));
    assert!(
        althing()
            .args(["ring", "leave", "unknown", "--http-endpoints", &rest[0].0.to_string()])
            .output()
            .is_ok_and(|output| !output.status.success())
    );
    load.finish(&[rest[0], rest[1], rest[2], newest]);
}
