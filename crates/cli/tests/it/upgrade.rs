//! A cluster of release 0.1.0 is upgraded node by node while clients write to both planes, taken back, and upgraded for good.
//! `OLD_ALTHING` names the old
//! binary; `cargo xtask old-release` builds it from its commit.

use crate::process::{Member, PATIENCE, Plan, until};
use crate::rest::Rest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// Which release a plan is started with.
#[derive(Clone, Copy)]
enum Release<'a> {
    Old(&'a str),
    New,
}

impl Release<'_> {
    fn start(self, plan: &Plan) -> Member {
        match self {
            Release::Old(binary) => Member::from_child(with_binary(plan, binary).spawn().unwrap()),
            Release::New => plan.start(),
        }
    }
}

/// Replaces the nodes one by one, and lets the clients write for a while after each.
fn replace_all(
    release: Release<'_>,
    plans: &[Plan],
    members: &mut [Member],
    addresses: &Addresses,
    n_written: &AtomicUsize,
) {
    for idx in 0..plans.len() {
        members[idx].signal("TERM");
        members[idx].wait_exit();
        members[idx] = release.start(&plans[idx]);
        addresses.set(members);
        wait_until_whole(members);
        let wanted = n_written.load(Ordering::Relaxed) + 50;
        until("the clients have written more", || {
            (n_written.load(Ordering::Relaxed) >= wanted).then_some(())
        });
    }
}

fn status(member: &Member) -> Value {
    Rest::of(member).get("/v1/upgrade").json()
}

/// The body of an answer of the gateway.
fn call(member: &Member, path: &str, body: Value) -> String {
    let answer = member.http_with("POST", path, &body.to_string());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

/// What the new release writes while the way back is open: with every format that it has changed.
fn use_what_is_permitted(member: &Member) {
    call(member, "/v3/auth/user/add", json!({"name": "ann", "password": "long enough"}));
    call(member, "/v3/auth/user/changepw", json!({"name": "ann", "password": "another one"}));
    call(member, "/v3/auth/role/add", json!({"name": "clerk"}));
    call(member, "/v3/lease/grant", json!({"TTL": 3_600, "ID": 4_711}));
    call(member, "/v3/maintenance/alarm", json!({"action": "ACTIVATE", "alarm": "CORRUPT", "memberID": 1}));
    call(member, "/v3/maintenance/alarm", json!({"action": "DEACTIVATE", "alarm": "CORRUPT", "memberID": 1}));
    let rest = Rest::of(member);
    let named = rest.put("/v1/namespaces/shop", r#"{"n": 3, "conflict_policy": "FAIL"}"#);
    assert_eq!(named.status, 201, "{}", named.shown());
    for (name, status) in [("first", 200), ("second", 200)] {
        let line = format!("PUT /v1/namespaces/shop/data/{name}");
        until("the namespace is there", || {
            (send(rest.0, &line, r#"{"value": 1}"#) == Some(status)).then_some(())
        });
    }
}

fn refuses_what_needs_new_formats(member: &Member) {
    let permission = json!({"role": "clerk", "permission": {"access": "READ", "namespace": "shop"}});
    let refused = member.http_with("POST", "/v1/auth/role/grant-data", &permission.to_string());
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("althing upgrade finalize"), "{}", refused.body);
    let long = json!({"name": "ben", "password": "x".repeat(100)});
    let refused = member.http_with("POST", "/v3/auth/user/add", &long.to_string());
    assert!(refused.body.contains("althing upgrade finalize"), "{}", refused.body);
}

fn assert_kept(member: &Member) {
    assert!(call(member, "/v3/auth/user/list", json!({})).contains("ann"));
    assert!(call(member, "/v3/lease/leases", json!({})).contains("4711"));
    let spaces = Rest::of(member).get("/v1/namespaces");
    assert!(spaces.shown().contains("shop"), "{}", spaces.shown());
}

/// The old release says why it does not start on what was finalized.
fn assert_refused_by(binary: &str, plan: &Plan) {
    let mut child = with_binary(plan, binary).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success(), "0.1.0 has started: {said}");
    assert!(said.contains("version 2"), "{said}");
}

#[test]
fn a_cluster_of_the_release_before_is_upgraded_and_taken_back_under_load_until_it_is_finalized() {
    let Ok(binary) = std::env::var("OLD_ALTHING") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: OLD_ALTHING does not name a binary of 0.1.0; `cargo xtask old-release` builds it"
        );
        return;
    };
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(|plan| Release::Old(&binary).start(plan)).collect();
    wait_until_whole(&members);
    let (addresses, over) = (Addresses::default(), AtomicBool::new(false));
    addresses.set(&members);
    let written = AtomicUsize::new(0);
    let count = |done: bool| {
        written.fetch_add(usize::from(done), Ordering::Relaxed);
        done
    };
    let (coord, data) = std::thread::scope(|scope| {
        let coord = scope.spawn(|| write(&over, |n| count(put_coord(addresses.nth(n).0, n))));
        let data = scope.spawn(|| write(&over, |n| count(put_data(addresses.nth(n).1, n))));
        let replace = |release, members: &mut [Member]| {
            replace_all(release, &plans, members, &addresses, &written);
        };
        replace(Release::New, &mut members);
        let found = status(&members[0]);
        assert_eq!((&found["level"], &found["finished"]), (&json!(0), &json!(false)), "{found}");
        use_what_is_permitted(&members[1]);
        refuses_what_needs_new_formats(&members[2]);
        replace(Release::Old(&binary), &mut members);
        members.iter().for_each(assert_kept);
        replace(Release::New, &mut members);
        let finalized = Rest::of(&members[0]).post("/v1/upgrade/finalize", "");
        assert_eq!(finalized.status, 200, "{}", finalized.shown());
        until("the upgrade is finished", || (status(&members[2])["finished"] == true).then_some(()));
        over.store(true, Ordering::Relaxed);
        (coord.join().unwrap(), data.join().unwrap())
    });
    members[0].signal("TERM");
    members[0].wait_exit();
    assert_refused_by(&binary, &plans[0]);
    members[0] = plans[0].start();
    wait_until_whole(&members);
    assert!(coord.len() > 50 && data.len() > 50, "{} and {} writes", coord.len(), data.len());
    for (idx, member) in members.iter().enumerate() {
        assert_kept(member);
        let missing: Vec<&usize> = coord.iter().filter(|n| !has_coord(member, **n)).collect();
        assert!(missing.is_empty(), "node {idx} has lost {missing:?} of {}", coord.len());
        let missing: Vec<&usize> = data.iter().filter(|n| !has_data(member, **n)).collect();
        assert!(missing.is_empty(), "node {idx} has lost the data {missing:?} of {}", data.len());
    }
}

/// Finalizing waits for every node, and says for which.
#[test]
fn an_upgrade_is_finalized_when_every_node_answers() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    wait_until_whole(&members);
    let found = status(&members[0]);
    assert_eq!((&found["level"], &found["finished"]), (&json!(1), &json!(true)), "a new cluster: {found}");
    members[2].kill();
    let refused = Rest::of(&members[0]).post("/v1/upgrade/finalize", "");
    assert_eq!(refused.status, 503, "{}", refused.shown());
    assert!(refused.shown().contains("Waiting for m2"), "{}", refused.shown());
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
