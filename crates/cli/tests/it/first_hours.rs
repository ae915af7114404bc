//! What a newcomer does wrong in the first hours, and what is said to it: the wrong port or protocol, a node that cannot
//! join, a read where there is no quorum.

use crate::process::{HttpAnswer, Plan, althing, free_port, http_at, until};
use crate::tls::{pem, with_authority};
use crate::verbs::{run, text};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn verb(args: &[&str]) -> Output {
    let mut command = althing();
    command.args(args).args(["--dial-timeout", "2s"]);
    run(command, "")
}

/// What a verb says that must fail as a mistake of its caller.
fn refusal(args: &[&str]) -> String {
    let output = verb(args);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    told
}

#[test]
fn a_client_at_the_wrong_port_is_told_which_port_it_is() {
    let plan = Plan::single();
    let member = plan.start_ready();
    let (rest, peer) = (member.rest.unwrap().to_string(), format!("127.0.0.1:{}", plan.peer_port));
    for args in [&["put", "a", "b"][..], &["get", "a"], &["watch", "a"], &["lock", "ls"]] {
        let told = refusal(&[args, &["--endpoints", &rest]].concat());
        assert!(told.contains("port of the REST API") && told.contains("client-addr"), "{args:?}: {told}");
        let told = refusal(&[args, &["--endpoints", &peer]].concat());
        assert!(told.contains("port for other members") && told.contains("client-addr"), "{args:?}: {told}");
    }
    let told = refusal(&["get", "a", "--cacert", &pem("ca.pem"), "--endpoints", &member.client.to_string()]);
    assert!(told.contains(&format!("without TLS; write http://{}", member.client)), "{told}");
    let told = verb(&["data", "get", "a", "--http-endpoints", &member.client.to_string()]);
    assert!(text(&told.stderr).contains("the REST API is on http-addr"), "{}", text(&told.stderr));
    // What speaks HTTP is told by the port itself.
    let peer: SocketAddr = peer.parse().unwrap();
    let HttpAnswer { status, body, .. } = http_at(peer, "GET", "/", "");
    assert!(status == 421 && body.contains("clients connect to client-addr"), "{status} {body}");
}

#[test]
fn a_client_without_tls_is_told_that_the_port_speaks_tls() {
    let member = with_authority(Plan::single()).start();
    let told = refusal(&["get", "a", "--endpoints", &member.client.to_string()]);
    assert!(told.contains("speaks TLS") && told.contains("--cacert"), "{told}");
}

/// A node that is to join the cluster at this address, and the file with its log.
fn joining(dir: &Path, at: &str) -> Command {
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let mut command = althing();
    command
        .args(["serve", "--client-addr", "127.0.0.1:0", "--http-addr", "none", "--join", at])
        .args(["--peer-addr", &format!("127.0.0.1:{}", free_port())])
        .arg("--data-dir")
        .arg(dir.join("data"))
        .stdout(Stdio::null())
        .stderr(log);
    command
}

#[test]
fn a_node_that_waits_to_join_says_so_and_stops_when_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = joining(dir.path(), &silent.local_addr().unwrap().to_string()).spawn().unwrap();
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    until("it asks", || log().contains("asking members of the cluster to join").then_some(()));
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let status = until("the node ends", || child.try_wait().unwrap());
    assert!(status.success(), "{status}: {}", log());
    assert!(log().contains("stopping: has not started yet"), "{}", log());
}

#[test]
fn a_node_that_belongs_to_a_cluster_says_that_it_does_not_join_another() {
    let plan = Plan::single();
    plan.start_ready();
    let dead = format!("127.0.0.1:{}", free_port());
    let again = plan.clone().with(&["--join", &dead]);
    again.start_ready();
    assert!(again.log().contains("belongs to a cluster member already"), "{}", again.log());
}

#[test]
fn a_read_without_a_quorum_does_not_speak_of_writes() {
    let plans = Plan::cluster(3);
    let member = plans[0].start();
    let endpoint = member.client.to_string();
    let options = ["--endpoints", &endpoint, "--command-timeout", "300ms"];
    let told = text(&verb(&[&["get", "a"][..], &options].concat()).stderr);
    assert!(told.contains("no quorum") && !told.contains("write"), "{told}");
    let told = text(&verb(&[&["put", "a", "b"][..], &options].concat()).stderr);
    assert!(told.contains("a write may still happen"), "{told}");
}
