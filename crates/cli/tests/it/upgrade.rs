//! A cluster of release 0.1.0 is upgraded node by node while clients write to both planes. `OLD_ALTHING` names the old
//! binary; `cargo xtask old-release` builds it from its commit.

use crate::process::{Member, PATIENCE, Plan, until};
use crate::rest::Rest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the clients find the nodes, which have other ports after each start.
#[derive(Default)]
struct Addresses(Mutex<Vec<(SocketAddr, SocketAddr)>>);

impl Addresses {
    fn set(&self, members: &[Member]) {
        let of = |member: &Member| (member.client, member.rest.expect("the data API is served"));
        *self.0.lock().unwrap() = members.iter().map(of).collect();
    }

    fn nth(&self, n: usize) -> (SocketAddr, SocketAddr) {
        let all = self.0.lock().unwrap();
        all[n % all.len()]
    }
}

/// The status of an answer, if there was one in time.
fn send(address: SocketAddr, line: &str, body: &str) -> Option<u16> {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    Some(Rest(address).try_within(request.as_bytes(), PATIENCE)?.status)
}

fn put_coord(address: SocketAddr, n: usize) -> bool {
    let (key, value) = (BASE64.encode(format!("key-{n}")), BASE64.encode(format!("value-{n}")));
    let body = format!(r#"{{"key":"{key}","value":"{value}"}}"#);
    send(address, "POST /v3/kv/put", &body) == Some(200)
}

fn put_data(address: SocketAddr, n: usize) -> bool {
    let body = format!(r#"{{"value":"value-{n}"}}"#);
    send(address, &format!("PUT /v1/data/key-{n}"), &body) == Some(200)
}

/// Writes one key after the other, each once, to one node after the other; returns those that were acknowledged.
fn write(over: &AtomicBool, mut put: impl FnMut(usize) -> bool) -> Vec<usize> {
    let mut acknowledged = vec![];
    for n in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        if put(n) {
            acknowledged.push(n);
        }
    }
    acknowledged
}

/// The command of a plan with another binary.
fn with_binary(plan: &Plan, binary: &str) -> Command {
    let new = plan.command();
    let mut old = Command::new(binary);
    old.args(new.get_args()).stdout(Stdio::piped()).stderr(Stdio::null());
    old
}

fn wait_until_whole(members: &[Member]) {
    for member in members {
        member.wait_ready();
        Rest::of(member).wait_for_ring(members.len());
    }
}

/// Replaces the nodes one by one, and lets the clients write for a while after each.
fn upgrade(plans: &[Plan], members: &mut [Member], addresses: &Addresses, n_written: impl Fn() -> usize) {
    for idx in 0..plans.len() {
        members[idx].signal("TERM");
        members[idx].wait_exit();
        members[idx] = plans[idx].start();
        addresses.set(members);
        wait_until_whole(members);
        let wanted = n_written() + 100;
        until("the clients have written more", || (n_written() >= wanted).then_some(()));
    }
}

#[test]
fn a_cluster_of_the_release_before_is_upgraded_node_by_node_under_load() {
    let Ok(binary) = std::env::var("OLD_ALTHING") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: OLD_ALTHING does not name a binary of 0.1.0; `cargo xtask old-release` builds it"
        );
        return;
    };
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> =
        plans.iter().map(|plan| Member::from_child(with_binary(plan, &binary).spawn().unwrap())).collect();
    wait_until_whole(&members);
    let (addresses, over) = (Addresses::default(), AtomicBool::new(false));
    addresses.set(&members);
    let written = std::sync::atomic::AtomicUsize::new(0);
    let count = |done: bool| {
        written.fetch_add(usize::from(done), Ordering::Relaxed);
        done
    };
    let (coord, data) = std::thread::scope(|scope| {
        let coord = scope.spawn(|| write(&over, |n| count(put_coord(addresses.nth(n).0, n))));
        let data = scope.spawn(|| write(&over, |n| count(put_data(addresses.nth(n).1, n))));
        upgrade(&plans, &mut members, &addresses, || written.load(Ordering::Relaxed));
        over.store(true, Ordering::Relaxed);
        (coord.join().unwrap(), data.join().unwrap())
    });
    assert!(coord.len() > 50 && data.len() > 50, "{} and {} writes", coord.len(), data.len());
    for (idx, member) in members.iter().enumerate() {
        let missing: Vec<&usize> = coord.iter().filter(|n| !has_coord(member, **n)).collect();
        assert!(missing.is_empty(), "node {idx} has lost {missing:?} of {}", coord.len());
        let missing: Vec<&usize> = data.iter().filter(|n| !has_data(member, **n)).collect();
        assert!(missing.is_empty(), "node {idx} has lost the data {missing:?} of {}", data.len());
    }
}

fn has_coord(member: &Member, n: usize) -> bool {
    let key = BASE64.encode(format!("key-{n}"));
    let read = member.http_with("POST", "/v3/kv/range", &format!(r#"{{"key":"{key}"}}"#));
    read.body.contains(&BASE64.encode(format!("value-{n}")))
}

fn has_data(member: &Member, n: usize) -> bool {
    let deadline = Duration::from_secs(30).as_millis();
    let read = Rest::of(member).get(&format!("/v1/data/key-{n}?timeout_ms={deadline}"));
    read.status == 200 && read.json()["value"] == format!("value-{n}")
}
