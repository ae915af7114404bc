//! What a member says of itself at its start: ports that other machines reach without TLS or auth, and a data directory
//! that other users of the machine can open.

use crate::auth::{CHEAP, open_with_auth};
use crate::process::{Member, Plan, althing, until};
use crate::rest::Rest;
use crate::tls::with_server_certificate;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

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
