//! HTTP/2 as a suite of others sees it: h2spec on both client ports, in clear and inside TLS. It runs when `H2SPEC` names
//! the binary, or one is on the path.

use crate::process::{Member, Plan};
use crate::rest::Rest;
use crate::tls;
use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;

/// Its binary, or a word on standard error that the test is skipped.
fn binary(test: &str) -> Option<String> {
    let binary = std::env::var("H2SPEC").unwrap_or_else(|_| "h2spec".to_owned());
    match Command::new(&binary).arg("--version").output() {
        Ok(_) => Some(binary),
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: set H2SPEC to a binary to run it");
            None
        }
    }
}

/// Runs everything; what failed comes out as the suite tells it. It wants a path that answers GET and POST with a body.
fn run(binary: &str, address: SocketAddr, more: &[&str]) {
    let output = Command::new(binary)
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-P", "/version"])
        // How long it waits for what is due; machines may be busy.
        .args(["-o", "10"])
        .args(more)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let failures = told.find("Failures:").map_or("", |at| &told[at..]);
    assert!(told.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{address}: {failures}");
}

fn run_on_both_ports(binary: &str, member: &Member, more: &[&str]) {
    run(binary, member.client, more);
    run(binary, member.rest.unwrap(), more);
}

#[test]
fn every_case_of_h2spec_passes_in_clear() {
    let Some(binary) = binary("h2spec in clear") else { return };
    let member = Plan::single().start_ready();
    Rest::of(&member).wait_for_ring(1);
    run_on_both_ports(&binary, &member, &[]);
}

#[test]
fn every_case_of_h2spec_passes_inside_tls() {
    let Some(binary) = binary("h2spec inside TLS") else { return };
    let member = tls::with_server_certificate(Plan::single()).start();
    tls::wait_ready(&member, None);
    run_on_both_ports(&binary, &member, &["-t", "-k"]);
}
