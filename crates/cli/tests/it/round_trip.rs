//! From etcd to Althing and back: what etcd saved is served here, and what Althing saved is served by etcd. Keys with their
//! revisions, leases, users and roles are the same at every step, and so is the hash. It runs when `ETCD`, `ETCDCTL` and
//! `ETCDUTL` name etcd's binaries.

use crate::process::{Plan, start_etcd, until};
use differ::server::Server;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const ROOT: &str = "root:secret";

struct Tools {
    etcd: String,
    etcdctl: String,
    etcdutl: String,
}

impl Tools {
    fn found() -> Option<Tools> {
        let binary = |name: &str| std::env::var(name).ok();
        Some(Tools { etcd: binary("ETCD")?, etcdctl: binary("ETCDCTL")?, etcdutl: binary("ETCDUTL")? })
    }

    /// Asks as root, which is no user yet in the beginning: then the name means nothing.
    fn ask(&self, endpoint: &str, words: &[&str]) -> String {
        let told = self.try_ask(endpoint, &[words, &["--user", ROOT]].concat());
        assert!(told.status.success(), "{words:?}: {}", String::from_utf8_lossy(&told.stderr));
        String::from_utf8(told.stdout).unwrap()
    }

    fn try_ask(&self, endpoint: &str, words: &[&str]) -> Output {
        Command::new(&self.etcdctl).args(["--endpoints", endpoint]).args(words).output().unwrap()
    }

    fn json(&self, endpoint: &str, words: &[&str]) -> Value {
        serde_json::from_str(&self.ask(endpoint, &[words, &["-w", "json"]].concat())).unwrap()
    }

    fn wait_until_it_serves(&self, endpoint: &str) {
        until("the server answers", || {
            self.try_ask(endpoint, &["get", "none", "--user", ROOT]).status.success().then_some(())
        });
    }

    fn save(&self, endpoint: &str, file: &Path) {
        self.ask(endpoint, &["snapshot", "save", file.to_str().unwrap()]);
    }
}

/// A history with everything in it: versions, deletes before and behind a compaction, leases with and without keys, users
/// with, without and of other roles, permissions of every shape.
fn fill(tools: &Tools, endpoint: &str) {
    let run = |words: &[&str]| {
        let told = tools.try_ask(endpoint, words);
        assert!(told.status.success(), "{words:?}: {}", String::from_utf8_lossy(&told.stderr));
        String::from_utf8(told.stdout).unwrap()
    };
    for n in 0..12 {
        run(&["put", &format!("k/{n:02}"), &format!("value {n}")]);
    }
    run(&["put", "large", &"x".repeat(100_000)]);
    for key in ["k/03", "k/05"] {
        run(&["del", key]);
        run(&["put", key, "again"]);
    }
    run(&["del", "k/07"]);
    let lease = run(&["lease", "grant", "50000"]).split(' ').nth(1).unwrap().to_owned();
    run(&["put", "leased/1", "x", "--lease", &lease]);
    run(&["put", "leased/2", "x", "--lease", &lease]);
    run(&["lease", "grant", "70000"]);
    run(&["compaction", "15", "--physical"]);
    run(&["del", "k/09"]);
    run(&["put", "k/10", "behind the compaction"]);
    for words in [
        &["user", "add", ROOT][..],
        &["user", "add", "ann:pw"],
        &["user", "add", "bob:pw"],
        &["user", "add", "certified", "--no-password"],
        &["role", "add", "root"],
        &["role", "add", "clerk"],
        &["role", "add", "idle"],
        &["role", "grant-permission", "clerk", "read", "k/", "--prefix"],
        &["role", "grant-permission", "clerk", "readwrite", "a", "b"],
        &["role", "grant-permission", "clerk", "write", "z", "--from-key"],
        &["role", "grant-permission", "clerk", "read", "single"],
        &["user", "grant-role", "root", "root"],
        &["user", "grant-role", "ann", "clerk"],
        &["auth", "enable"],
    ] {
        run(words);
    }
}

/// What must be the same on every server: of the header the revision alone.
fn everything(tools: &Tools, endpoint: &str) -> Vec<String> {
    let mut all = vec![];
    let hash = &tools.json(endpoint, &["endpoint", "hashkv"])[0]["HashKV"];
    all.push(format!("hash {} at {}", hash["hash"], hash["header"]["revision"]));
    all.push(format!("compacted {}", hash["compact_revision"]));
    all.push(format!("keys {}", tools.json(endpoint, &["get", "", "--prefix"])["kvs"]));
    let leases = tools.ask(endpoint, &["lease", "list"]);
    let mut leases: Vec<&str> = leases.lines().skip(1).collect();
    leases.sort_unstable();
    for id in leases {
        let lease = tools.json(endpoint, &["lease", "timetolive", id, "--keys"]);
        let mut keys = lease["keys"].as_array().cloned().unwrap_or_default();
        keys.sort_by_key(Value::to_string);
        all.push(format!("lease {id} {} {keys:?}", lease["granted-ttl"]));
    }
    for name in tools.ask(endpoint, &["user", "list"]).lines() {
        all.push(format!("user {name} {}", tools.json(endpoint, &["user", "get", name])["roles"]));
    }
    for name in tools.ask(endpoint, &["role", "list"]).lines() {
        let permissions = &tools.json(endpoint, &["role", "get", name])["perm"];
        // etcd 3.5 does not show that the role root may do everything (deviation 39).
        let shown = if name == "root" { "everything".to_owned() } else { permissions.to_string() };
        all.push(format!("role {name} {shown}"));
    }
    all.push(tools.ask(endpoint, &["auth", "status"]));
    for words in [
        &["get", "k/01", "--user", "ann:pw"][..],
        &["put", "k/01", "x", "--user", "ann:pw"],
        &["get", "k/01", "--user", "bob:pw"],
        &["get", "k/01", "--user", "ann:wrong"],
        &["get", "k/01"],
    ] {
        let told = tools.try_ask(endpoint, words);
        let refused = String::from_utf8(told.stderr).unwrap();
        let refused = refused.lines().last().unwrap_or_default().to_owned();
        all.push(format!("{words:?} {} {refused}", String::from_utf8_lossy(&told.stdout)));
    }
    all
}

fn restored_by_etcd(tools: &Tools, file: &Path, dir: &Path) -> Server {
    let data = dir.join("etcd").display().to_string();
    let restored = Command::new(&tools.etcdutl)
        .args(["snapshot", "restore", file.to_str().unwrap(), "--data-dir", &data])
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let mut etcd = None;
    // Another process may have taken one of its ports before it could.
    until("etcd serves what Althing saved", || {
        let server: &mut Server = etcd.get_or_insert_with(|| {
            Server::etcd_with(Path::new(&tools.etcd), &["--data-dir", &data]).unwrap()
        });
        if server.is_over() {
            etcd = None;
            return None;
        }
        let endpoint = server.endpoint.clone();
        tools.try_ask(&endpoint, &["get", "none", "--user", ROOT]).status.success().then_some(())
    });
    etcd.expect("it has answered")
}

#[test]
fn from_etcd_to_althing_and_back_everything_stays_as_it_was() {
    let Some(tools) = Tools::found() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED from_etcd_to_althing_and_back_everything_stays_as_it_was: set ETCD, ETCDCTL and ETCDUTL"
        );
        return;
    };
    let dir = TempDir::new().unwrap();
    let (of_etcd, of_althing) = (dir.path().join("of-etcd"), dir.path().join("of-althing"));
    let etcd = start_etcd(&tools.etcd, &[]);
    fill(&tools, &etcd.endpoint);
    let before = everything(&tools, &etcd.endpoint);
    tools.save(&etcd.endpoint, &of_etcd);
    drop(etcd);

    let plan = Plan::single();
    let restored = crate::process::althing()
        .args(["snapshot", "restore", of_etcd.to_str().unwrap(), "--bump-revision", "0"])
        .args(["--name", &plan.name, "--initial-cluster", &plan.cluster, "--data-dir"])
        .arg(plan.data_dir())
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let member = plan.start_ready();
    let endpoint = member.client.to_string();
    tools.wait_until_it_serves(&endpoint);
    assert_eq!(everything(&tools, &endpoint), before, "Althing");
    tools.save(&endpoint, &of_althing);
    drop(member);

    let etcd = restored_by_etcd(&tools, &of_althing, dir.path());
    assert_eq!(everything(&tools, &etcd.endpoint), before, "etcd again");
    assert_eq!(tools.ask(&etcd.endpoint, &["put", "k/99", "it goes on"]), "OK\n");
}
