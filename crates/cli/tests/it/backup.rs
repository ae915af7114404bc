//! Backups of real processes: saved under load, told apart from damaged ones, restored into new clusters; and
//! directories verified.

use crate::process::{Member, Plan, althing, until};
use crate::rest::single;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A client verb of ours that must succeed.
fn ask(member: &Member, words: &[&str]) -> String {
    let output = run(althing().args(words).args(["--endpoints", &member.client.to_string()]));
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn revision(member: &Member) -> i64 {
    let told = ask(member, &["get", "none", "-w", "json"]);
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    json["header"]["revision"].as_i64().unwrap()
}

fn fill(member: &Member, keys: u32) {
    for n in 0..keys {
        ask(member, &["put", &format!("key-{n:04}"), &format!("value {n}")]);
    }
}

fn save(member: &Member, file: &Path) {
    ask(member, &["snapshot", "save", file.to_str().unwrap()]);
}

#[test]
fn a_snapshot_says_that_it_holds_nothing_of_the_data_plane() {
    let dir = TempDir::new().unwrap();
    let (member, rest) = single();
    assert_eq!(rest.put("/v1/data/k", r#"{"value": 1}"#).status, 200);
    let output = run(althing()
        .args(["snapshot", "save", dir.path().join("backup").to_str().unwrap()])
        .args(["--endpoints", &member.client.to_string()]));
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no keys of the data plane") && said.contains("backup create"), "{said}");
}

fn restore(file: &Path, plan: &Plan, extra: &[&str]) -> Output {
    run(althing()
        .args(["snapshot", "restore", file.to_str().unwrap()])
        .args(["--name", &plan.name, "--initial-cluster", &plan.cluster, "--data-dir"])
        .arg(plan.data_dir())
        .args(extra))
}

#[test]
fn a_restored_cluster_has_every_key_and_its_watchers_read_again() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("backup");
    let member = Plan::single().start_ready();
    fill(&member, 20);
    let lease = ask(&member, &["lease", "grant", "600"]);
    let lease = lease.split(' ').nth(1).unwrap().to_owned();
    ask(&member, &["put", "leased", "x", "--lease", &lease]);
    save(&member, &file);
    let saved_at = revision(&member);
    ask(&member, &["put", "later", "not in the backup"]);
    drop(member);

    let plans = Plan::cluster(3);
    for plan in &plans {
        let output = restore(&file, plan, &["--bump-revision", "1000", "--mark-compacted"]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(!restore(&file, plan, &[]).status.success(), "not into a directory that is in use");
    }
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    for member in &members {
        assert_eq!(revision(member), saved_at + 1_000);
        assert_eq!(ask(member, &["get", "key-0007", "--print-value-only"]), "value 7\n");
        assert_eq!(ask(member, &["get", "later"]), "");
        assert!(ask(member, &["lease", "timetolive", &lease, "--keys"]).contains("leased"));
    }
    let watch = run(althing()
        .args(["watch", "key-0007", "--rev", &saved_at.to_string()])
        .args(["--endpoints", &members[1].client.to_string()]));
    assert!(text(&watch).contains("compacted"), "{}", text(&watch));
    ask(&members[2], &["put", "new", "1"]);
    assert_eq!(revision(&members[0]), saved_at + 1_001);
    let hashes: Vec<String> = members.iter().map(|member| ask(member, &["endpoint", "hashkv"])).collect();
    let hash = |told: &String| told.rsplit(", ").next().unwrap().to_owned();
    assert!(hashes.iter().all(|told| hash(told) == hash(&hashes[0])), "{hashes:?}");
    // A restart reads the raised revision back.
    drop(members);
    let again = plans[0].start();
    let _other = plans[1].start();
    again.wait_ready();
    assert_eq!(revision(&again), saved_at + 1_001);
}

#[test]
fn a_backup_tells_what_is_in_it_and_a_damaged_one_is_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("backup");
    let member = Plan::single().start_ready();
    fill(&member, 5);
    save(&member, &file);
    assert!(!dir.path().join("backup.part").exists());
    let status = |format: &str| {
        let output = run(althing().args(["snapshot", "status", file.to_str().unwrap(), "-w", format]));
        (output.status.code(), text(&output))
    };
    let (code, told) = status("json");
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, json["revision"].as_i64(), json["totalKey"].as_i64()), (Some(0), Some(6), Some(5)));
    assert!(status("table").1.contains("TOTAL KEYS"));

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(status("simple").0, Some(1));
    let plan = Plan::single();
    let output = restore(&file, &plan, &[]);
    assert!(!output.status.success());
    assert!(text(&output).contains("damaged at byte"), "{}", text(&output));
    std::fs::write(&file, "no backup").unwrap();
    assert!(status("simple").1.contains("not a backup"), "{:?}", status("simple"));
}

#[test]
fn a_directory_is_verified_and_damage_is_named() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    fill(&member, 20);
    let verify = || {
        let output = run(althing().arg("verify").arg(plan.data_dir()));
        (output.status.code(), text(&output))
    };
    let (code, told) = verify();
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("another process uses"), "{told}");
    member.kill();
    let (code, told) = verify();
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("sound: store"), "{told}");

    damage(&plan.data_dir(), "store.redb");
    let (code, told) = verify();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("DAMAGED: "), "{told}");
    let nowhere = run(althing().args(["verify", "/nowhere/at/all"]));
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(!Path::new("/nowhere").exists());
}

/// Flips a bit in every page of a file but the first two.
fn damage(dir: &Path, name: &str) {
    let path = dir.join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    for page in (2..bytes.len() / 4096).map(|page| page * 4096) {
        bytes[page + 64] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn etcdctl_saves_a_backup_under_load_that_restores() {
    let Ok(etcdctl) = std::env::var("ETCDCTL") else { return };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("backup");
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    fill(&members[0], 10);
    let stop = Arc::new(AtomicBool::new(false));
    let endpoint = members[0].client.to_string();
    let load = {
        let (stop, endpoint) = (stop.clone(), endpoint.clone());
        std::thread::spawn(move || {
            let mut writes = 0;
            while !stop.load(Ordering::Relaxed) {
                let put = run(althing().args(["put", "load", &writes.to_string(), "--endpoints", &endpoint]));
                assert!(put.status.success(), "{}", text(&put));
                writes += 1;
            }
            writes
        })
    };
    until("some load has come", || (revision(&members[0]) > 15).then_some(()));
    let acknowledged = revision(&members[0]);
    let saved = run(Command::new(&etcdctl).args([
        "--endpoints",
        &endpoint,
        "snapshot",
        "save",
        file.to_str().unwrap(),
    ]));
    assert!(saved.status.success(), "{}", text(&saved));
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    let plan = Plan::single();
    let output = restore(&file, &plan, &["--bump-revision", "0"]);
    assert!(output.status.success(), "{}", text(&output));
    let member = plan.start_ready();
    assert!(revision(&member) >= acknowledged, "what was acknowledged before is in it");
    assert_eq!(ask(&member, &["get", "key-0003", "--print-value-only"]), "value 3\n");
}

fn key_hash(member: &Member) -> u64 {
    let told: serde_json::Value =
        serde_json::from_str(&ask(member, &["endpoint", "hashkv", "-w", "json"])).unwrap();
    told[0]["HashKV"]["hash"].as_u64().unwrap()
}

/// Saved by etcd 3.5.1: five keys, one of them put twice, one deleted, one put again after a compaction, a lease with a key, a
/// role and a user.
const OF_ETCD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/etcd-3.5.db");
/// What etcd said of it then.
const HASH_OF_ETCD: u64 = 1_126_604_602;

#[test]
fn a_snapshot_of_etcd_is_restored_with_its_revisions_leases_and_users() {
    let plan = Plan::single();
    let output = restore(Path::new(OF_ETCD), &plan, &[]);
    assert!(output.status.success(), "{}", text(&output));
    let member = plan.start_ready();
    assert_eq!((revision(&member), key_hash(&member)), (10, HASH_OF_ETCD));
    let told = ask(&member, &["get", "key-1", "-w", "json"]);
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    let found = &json["kvs"][0];
    let numbers = ["create_revision", "mod_revision", "version"].map(|name| found[name].as_i64().unwrap());
    assert_eq!(numbers, [2, 7, 2]);
    assert_eq!(ask(&member, &["get", "key-", "--prefix", "--keys-only"]).matches("key-").count(), 4);
    assert!(ask(&member, &["lease", "list"]).contains("694da1e833b1420c"));
    assert_eq!(ask(&member, &["user", "list"]), "ann\n");
    assert!(ask(&member, &["role", "get", "reader"]).contains("key-"));
    // What comes back is the same.
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("backup");
    save(&member, &file);
    let again = Plan::single();
    let output = restore(&file, &again, &[]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(key_hash(&again.start_ready()), HASH_OF_ETCD);
}

/// Which of the variables names no program is told.
fn tools_of_etcd<const N: usize>(variables: [&str; N]) -> Option<[String; N]> {
    let found = variables.map(|variable| std::env::var(variable).ok());
    if found.iter().any(Option::is_none) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: set {}", variables.join(", "));
        return None;
    }
    Some(found.map(|program| program.unwrap()))
}

fn restore_etcd(etcdutl: &str, file: &Path, data_dir: &Path) {
    let mut command = Command::new(etcdutl);
    command.args(["snapshot", "restore"]).arg(file).arg("--data-dir").arg(data_dir);
    let told = run(&mut command);
    assert!(told.status.success(), "{}", text(&told));
}

fn key_hash_of_etcd(endpoint: &str) -> u64 {
    until("etcd serves", || {
        let told = run(althing().args(["endpoint", "hashkv", "-w", "json", "--endpoints", endpoint]));
        let json: serde_json::Value = serde_json::from_slice(&told.stdout).ok()?;
        json[0]["HashKV"]["hash"].as_u64()
    })
}

#[test]
fn the_hash_is_the_same_at_each_step_from_etcd_to_etcd() {
    let Some([etcd, etcdctl, etcdutl]) = tools_of_etcd(["ETCD", "ETCDCTL", "ETCDUTL"]) else { return };
    let dir = TempDir::new().unwrap();
    let (ours, theirs, data) = (dir.path().join("ours"), dir.path().join("theirs"), dir.path().join("etcd"));
    let plan = Plan::single();
    assert!(restore(Path::new(OF_ETCD), &plan, &[]).status.success());
    let member = plan.start_ready();
    assert_eq!(key_hash(&member), HASH_OF_ETCD);
    save(&member, &ours);
    restore_etcd(&etcdutl, &ours, &data);
    let server =
        differ::server::Server::etcd_with(Path::new(&etcd), &["--data-dir", data.to_str().unwrap()]).unwrap();
    assert_eq!(key_hash_of_etcd(&server.endpoint), HASH_OF_ETCD);
    let mut saving = Command::new(&etcdctl);
    saving.env("ETCDCTL_API", "3").args(["--endpoints", &server.endpoint, "snapshot", "save"]).arg(&theirs);
    let saved = run(&mut saving);
    assert!(saved.status.success(), "{}", text(&saved));
    let again = Plan::single();
    assert!(restore(&theirs, &again, &[]).status.success());
    let member = again.start_ready();
    assert_eq!((revision(&member), key_hash(&member)), (10, HASH_OF_ETCD));
    assert_eq!(ask(&member, &["user", "list"]), "ann\n");
    assert!(ask(&member, &["lease", "list"]).contains("694da1e833b1420c"));
}

#[test]
fn etcd_is_started_on_a_backup_of_ours() {
    let Some([etcd, etcdutl]) = tools_of_etcd(["ETCD", "ETCDUTL"]) else { return };
    let dir = TempDir::new().unwrap();
    let (file, data) = (dir.path().join("backup"), dir.path().join("etcd"));
    let member = Plan::single().start_ready();
    fill(&member, 50);
    ask(&member, &["put", "large", &"x".repeat(100_000)]);
    ask(&member, &["del", "key-0007"]);
    ask(&member, &["compaction", "20"]);
    save(&member, &file);
    let told = run(Command::new(&etcdutl).args(["snapshot", "status", file.to_str().unwrap()]));
    assert!(told.status.success(), "{}", text(&told));
    restore_etcd(&etcdutl, &file, &data);
    let server =
        differ::server::Server::etcd_with(Path::new(&etcd), &["--data-dir", data.to_str().unwrap()]).unwrap();
    assert_eq!(key_hash_of_etcd(&server.endpoint), key_hash(&member));
}
