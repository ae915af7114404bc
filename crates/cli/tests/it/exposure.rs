//! What a member says of itself at its start: ports that other machines reach without TLS or auth, and a data directory
//! that other users of the machine can open.

use crate::auth::{CHEAP, open_with_auth, token_of, v3};
use crate::process::{Member, PATIENCE, Plan, althing, until};
use crate::rest::Rest;
use crate::tls::with_server_certificate;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

/// A single member that other machines reach, as far as its addresses say.
fn start(plan: &Plan, log: &str, client: &str) -> Member {
    let log = File::create(plan.dir.path().join(log)).unwrap();
    let peer = format!("127.0.0.1:{}", plan.peer_port);
    let mut command = althing();
    command
        .args(["serve", "--name", &plan.name, "--client-addr", client, "--http-addr", "127.0.0.1:0"])
        .args(["--peer-addr", &peer, "--initial-cluster", &plan.cluster, "--data-dir"])
        .arg(plan.data_dir())
        .args(CHEAP)
        .args(&plan.extra);
    Member::from_child(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap())
}

fn log(plan: &Plan, name: &str) -> String {
    std::fs::read_to_string(plan.dir.path().join(name)).unwrap()
}

const NO_TLS: &str = "clients are served without TLS, and other machines reach the port";
const NO_AUTH: &str = "auth is off, and other machines reach the port";

#[test]
fn a_port_that_other_machines_reach_is_told_until_it_is_closed() {
    let plan = Plan::single();
    let member = start(&plan, "first", "0.0.0.0:0");
    until("it says that auth is off", || log(&plan, "first").contains(NO_AUTH).then_some(()));
    assert!(log(&plan, "first").contains(NO_TLS));
    let local = Rest(([127, 0, 0, 1], member.client.port()).into());
    until("it is healthy", || (local.get("/health").status == 200).then_some(()));
    open_with_auth(local);
    drop(member);
    let member = start(&plan, "second", "0.0.0.0:0");
    let local = Rest(([127, 0, 0, 1], member.client.port()).into());
    until("it is healthy", || (local.get("/health").status == 200).then_some(()));
    until("it has looked", || log(&plan, "second").contains(NO_TLS).then_some(()));
    drop(member);
    let member = start(&plan, "third", "127.0.0.1:0");
    until("it is healthy", || (Rest(member.client).get("/health").status == 200).then_some(()));
    drop(member);
    assert!(!log(&plan, "second").contains(NO_AUTH), "{}", log(&plan, "second"));
    for line in [NO_TLS, NO_AUTH] {
        assert!(!log(&plan, "third").contains(line), "{line}");
    }
}

#[test]
fn a_port_that_speaks_tls_is_told_for_its_auth_alone() {
    let plan = with_server_certificate(Plan::single());
    let _member = start(&plan, "sealed", "0.0.0.0:0");
    until("it says that auth is off", || log(&plan, "sealed").contains(NO_AUTH).then_some(()));
    assert!(!log(&plan, "sealed").contains(NO_TLS), "{}", log(&plan, "sealed"));
}

#[test]
fn a_data_directory_that_other_users_can_open_is_told() {
    let loose = "the data directory is open to other users of this machine";
    let plan = Plan::single();
    std::fs::create_dir(plan.data_dir()).unwrap();
    std::fs::set_permissions(plan.data_dir(), PermissionsExt::from_mode(0o777)).unwrap();
    drop(plan.start_ready());
    assert!(plan.log().contains(loose) && plan.log().contains("0777"), "{}", plan.log());
    let plan = Plan::single();
    drop(plan.start_ready());
    assert!(!plan.log().contains(loose), "{}", plan.log());
    let mode = std::fs::metadata(plan.data_dir()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

const NO_METRICS_TLS: &str = "metrics and probes are served without TLS and to anyone";
const OPEN_PEERS: &str = "peer port is open: any machine";

/// Killed when the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A member started by etcd's flags, with these besides.
fn start_as_etcd(plan: &Plan, peer_urls: &str, flags: &[&str]) -> Process {
    let log = File::options().create(true).append(true).open(plan.dir.path().join("log")).unwrap();
    let own = format!("http://127.0.0.1:{}", plan.peer_port);
    let mut command = althing();
    command
        .args(["etcd", "--name", &plan.name, "--listen-client-urls", "http://127.0.0.1:0"])
        .args(["--advertise-client-urls", "http://127.0.0.1:0", "--listen-peer-urls", peer_urls])
        .args(["--initial-advertise-peer-urls", &own, "--initial-cluster", &format!("{}={own}", plan.name)])
        .arg("--data-dir")
        .arg(plan.data_dir())
        .args(flags);
    Process(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

#[test]
fn every_further_port_that_other_machines_reach_is_told() {
    let plan = Plan::single();
    let further = format!("http://127.0.0.1:{},http://0.0.0.0:0", plan.peer_port);
    let _member = start_as_etcd(&plan, &further, &["--listen-metrics-urls", "http://0.0.0.0:0"]);
    until("it says that a further address of peers is open", || {
        plan.log().lines().any(|line| line.contains(OPEN_PEERS) && line.contains("0.0.0.0")).then_some(())
    });
    until("it says that metrics are open", || plan.log().contains(NO_METRICS_TLS).then_some(()));
    for line in [NO_TLS, NO_AUTH] {
        assert!(!plan.log().contains(line), "clients are served on loopback alone");
    }
}

/// A member of a static cluster whose peer port other machines reach.
fn start_exposed(plan: &Plan) -> Member {
    let log = File::options().create(true).append(true).open(plan.dir.path().join("log")).unwrap();
    let peer = format!("0.0.0.0:{}", plan.peer_port);
    let mut command = althing();
    command
        .args(["serve", "--name", &plan.name, "--client-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
        .args(["--peer-addr", &peer, "--advertise-peer", &format!("127.0.0.1:{}", plan.peer_port)])
        .args(["--initial-cluster", &plan.cluster, "--data-dir"])
        .arg(plan.data_dir())
        .args(CHEAP);
    Member::from_child(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap())
}

fn verb(args: &[&str]) -> String {
    let output = althing().args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// What the peer port of a member answers to a node that asks for its report and proves nothing.
fn report_for_a_stranger(port: u16) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"ALTHINGJ\x01\0\x02\0\0\0\x04\0").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_open_peer_port_is_told_until_the_cluster_is_closed_and_tells_strangers_of_no_user() {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(start_exposed).collect();
    members.iter().for_each(Member::wait_ready);
    assert!(plans[0].log().contains(OPEN_PEERS), "{}", plans[0].log());
    let is_open = |member: &Member| member.metric("althing_peer_open");
    until("the metric says so", || members.iter().all(|member| is_open(member) == 1.0).then_some(()));
    let endpoint = members[0].endpoint();
    let status =
        || verb(&["endpoint", "status", "--endpoints", &endpoint, "-w", "json", "--user", "root:rpw"]);
    open_with_auth(Rest(members[0].client));
    assert!(status().contains("peer port is open"), "{}", status());

    // A login that fails is an event of the member, and no stranger learns of whom.
    let wrong = r#"{"name":"u1","password":"wrong"}"#;
    assert_ne!(v3(Rest(members[0].client), "", "auth/authenticate", wrong).status, 200);
    let root = token_of(Rest(members[0].client), "root", "rpw");
    let told = "a login of u1";
    until("the member tells root of it", || {
        let bearer = format!("Bearer {root}");
        let headers = [("authorization", bearer.as_str())];
        let events = Rest::of(&members[0]).call("GET", "/v1/cluster/events", &headers, b"");
        events.shown().contains(told).then_some(())
    });
    let report = report_for_a_stranger(plans[0].peer_port);
    assert!(report.contains("peer_port_open"), "it is a report: {report}");
    assert!(!report.contains(told), "{report}");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    let file = file.to_str().unwrap();
    verb(&["cluster", "secure", "--endpoints", &endpoint, "--secret-file", file, "--user", "root:rpw"]);
    until("the metric says that it is closed", || {
        members.iter().all(|member| is_open(member) == 0.0).then_some(())
    });
    assert!(!status().contains("peer port is open"), "{}", status());
}
