//! Backups of both planes by real processes: taken under writes, restored into clusters of another size, in part and under
//! other names; damaged ones are named; and a bucket of a real S3 server, where one is found.

use crate::process::{Member, Plan, althing, free_port, until};
use crate::rest::{Rest, single};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn try_backup(words: &[&str]) -> Output {
    althing().arg("backup").args(words).output().unwrap()
}

/// `althing backup` that must succeed.
fn backup(words: &[&str]) -> String {
    let output = try_backup(words);
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    text(&output)
}

fn put(rest: Rest, key: &str, value: &str) {
    let answer = rest.put(&format!("/v1/data/{key}"), &format!("{{\"value\": \"{value}\"}}"));
    assert!(answer.status < 300, "{key}: {} {}", answer.status, String::from_utf8_lossy(&answer.bytes));
}

fn value(rest: Rest, key: &str) -> Option<String> {
    let answer = rest.get(&format!("/v1/data/{key}"));
    match answer.status {
        200 => Some(answer.json()["value"].as_str().unwrap().to_owned()),
        404 | 410 => None,
        status => panic!("{key}: {status} {}", String::from_utf8_lossy(&answer.bytes)),
    }
}

fn crdt(rest: Rest, operation: &str, body: &str) {
    let answer = rest.post(&format!("/v1/crdt/{operation}"), body);
    assert!(answer.status < 300, "{operation}: {} {}", answer.status, String::from_utf8_lossy(&answer.bytes));
}

fn crdt_value(rest: Rest, key: &str) -> Value {
    rest.get(&format!("/v1/crdt/{key}")).json()["value"].clone()
}

fn objects(target: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(target.join("objects")).unwrap() {
        files.extend(std::fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    files.sort();
    files
}

/// A client that writes one key after the other and notes what was acknowledged.
struct Writer {
    acked: Arc<Mutex<BTreeMap<String, String>>>,
    done: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Writer {
    fn start(rest: Rest) -> Writer {
        let (acked, done): (Arc<Mutex<BTreeMap<String, String>>>, Arc<AtomicBool>) = Default::default();
        let (noted, over) = (acked.clone(), done.clone());
        let thread = thread::spawn(move || {
            for n in 0_u64.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (key, value) = (format!("busy-{:03}", n % 300), n.to_string());
                put(rest, &key, &value);
                noted.lock().unwrap().insert(key, value);
            }
        });
        Writer { acked, done, thread }
    }

    fn acked(&self) -> BTreeMap<String, String> {
        self.acked.lock().unwrap().clone()
    }

    fn stop(self) -> BTreeMap<String, String> {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.acked.lock().unwrap().clone()
    }
}

fn start(plans: &[Plan]) -> Vec<Member> {
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    members.iter().for_each(|member| Rest::of(member).wait_for_ring(plans.len()));
    members
}

#[test]
fn a_backup_under_writes_is_restored_into_a_cluster_of_another_size() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let plans = Plan::cluster(3);
    let members = start(&plans);
    let rest = Rest::of(&members[0]);
    let endpoint = members[0].client.to_string();
    for n in 0..50 {
        put(rest, &format!("still-{n}"), &format!("value {n}"));
    }
    put(rest, "removed", "x");
    assert!(rest.delete("/v1/data/removed").status < 300);
    assert!(rest.put("/v1/namespaces/shop", r#"{"n": 2}"#).status < 300);
    assert!(rest.put("/v1/namespaces/shop/data/order/1", r#"{"value": "paid"}"#).status < 300);
    crdt(rest, "counter:visits/increment", r#"{"amount": 7}"#);
    crdt(Rest::of(&members[1]), "counter:visits/increment", r#"{"amount": 5}"#);
    crdt(rest, "set:tags/add", r#"{"element": "a"}"#);
    crdt(Rest::of(&members[2]), "set:tags/add", r#"{"element": "b"}"#);
    let put_key = althing().args(["put", "plain", "key", "--endpoints", &endpoint]).output().unwrap();
    assert!(put_key.status.success(), "{}", text(&put_key));

    let writer = Writer::start(Rest::of(&members[1]));
    until("writes are under way", || (writer.acked().len() == 300).then_some(()));
    let before = writer.acked();
    let told = backup(&["create", target, "--endpoints", &endpoint]);
    assert!(told.contains("Backup ") && told.contains("rows"), "{told}");
    let after = writer.stop();
    assert!(backup(&["verify", target]).contains("is whole"));
    drop(members);
    drop(plans);

    let plans = Plan::cluster(2);
    for plan in &plans {
        let data_dir = plan.data_dir();
        let data_dir = data_dir.to_str().unwrap();
        backup(&[
            "restore",
            target,
            "--data-dir",
            data_dir,
            "--name",
            &plan.name,
            "--initial-cluster",
            &plan.cluster,
        ]);
    }
    let members = start(&plans);
    let rest = Rest::of(&members[1]);
    let endpoint = members[0].client.to_string();
    let told = backup(&["restore", target, "--endpoints", &endpoint]);
    assert!(told.contains("Restored "), "{told}");
    let get =
        althing().args(["get", "plain", "--print-value-only", "--endpoints", &endpoint]).output().unwrap();
    assert_eq!(text(&get).trim(), "key");
    for n in 0..50 {
        assert_eq!(value(rest, &format!("still-{n}")), Some(format!("value {n}")));
    }
    assert_eq!(value(rest, "removed"), None);
    let order = rest.get("/v1/namespaces/shop/data/order/1");
    assert_eq!((order.status, order.json()["value"].as_str()), (200, Some("paid")));
    assert_eq!(crdt_value(rest, "counter:visits"), 12);
    assert_eq!(rest.get("/v1/crdt/set:tags").json()["elements"], serde_json::json!(["a", "b"]));
    for (key, acked) in before {
        let found: u64 = value(rest, &key).unwrap_or_else(|| panic!("{key} is missing")).parse().unwrap();
        let (acked, last): (u64, u64) = (acked.parse().unwrap(), after[&key].parse().unwrap());
        assert!(
            (acked..=last).contains(&found),
            "{key} was {acked} before the backup, and {found} is restored"
        );
    }
    // Nodes of the new cluster count on from what was restored.
    crdt(rest, "counter:visits/increment", r#"{"amount": 1}"#);
    assert_eq!(crdt_value(rest, "counter:visits"), 13);
    let again = backup(&["restore", target, "--endpoints", &endpoint]);
    assert!(again.contains("Restored 0 keys"), "what is there stays: {again}");
    assert_eq!(crdt_value(rest, "counter:visits"), 13);
}

#[test]
fn a_second_backup_sends_only_what_has_changed() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    for n in 0..200 {
        // Not to be compressed.
        let noise: String =
            (0..200_u64).map(|i| char::from(b'a' + (base::rng::mix(n * 1_000 + i) % 26) as u8)).collect();
        put(rest, &format!("k{n}"), &noise);
    }
    let create = || backup(&["create", target, "--endpoints", &endpoint]);
    create();
    let before = objects(dir.path()).len();
    create();
    let same = objects(dir.path()).len();
    assert!(same <= before + 1, "only the keys of coordination may differ: {before}, {same}");
    put(rest, "k7", "changed");
    create();
    assert!(objects(dir.path()).len() <= same + 2, "one partition has changed");
    assert_eq!(backup(&["ls", target]).lines().count(), 3);
    let told = backup(&["prune", target, "--keep", "1"]);
    assert_eq!(told.lines().filter(|line| line.starts_with("removed backup")).count(), 2, "{told}");
    assert!(backup(&["verify", target]).contains("is whole"));
    let shown: Value = serde_json::from_str(&backup(&["show", target])).unwrap();
    assert_eq!(shown["data"]["rows"], 200, "{shown}");
}

#[test]
fn damaged_removed_and_truncated_objects_are_named_and_nothing_is_restored() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    (0..20).for_each(|n| put(rest, &format!("k{n}"), "v"));
    backup(&["create", target, "--endpoints", &endpoint]);
    drop(member);
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    let files = objects(dir.path());
    let victim = &files[files.len() / 2];
    let whole = std::fs::read(victim).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [Some(&flipped[..]), Some(&whole[..whole.len() - 3]), Some(&b""[..]), None] {
        match damaged {
            Some(bytes) => std::fs::write(victim, bytes).unwrap(),
            None => std::fs::remove_file(victim).unwrap(),
        }
        for words in [vec!["verify", target], vec!["restore", target, "--endpoints", &endpoint]] {
            let output = try_backup(&words);
            assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output));
            assert!(
                text(&output).contains(victim.file_name().unwrap().to_str().unwrap()),
                "{}",
                text(&output)
            );
        }
    }
    assert_eq!((0..20).filter_map(|n| value(rest, &format!("k{n}"))).count(), 0);
    std::fs::write(victim, whole).unwrap();
    backup(&["restore", target, "--endpoints", &endpoint]);
    assert_eq!((0..20).filter_map(|n| value(rest, &format!("k{n}"))).count(), 20);
}

#[test]
fn a_part_is_restored_under_another_name_and_what_is_there_stays_unless_replaced() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().join("backups");
    let target = target.to_str().unwrap();
    let key_file = dir.path().join("key");
    std::fs::write(&key_file, "ab".repeat(32)).unwrap();
    let key_file = key_file.to_str().unwrap();
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    for name in ["a/1", "a/2", "b/1"] {
        put(rest, name, "old");
    }
    crdt(rest, "counter:count/increment", r#"{"amount": 5}"#);
    backup(&["create", target, "--key-file", key_file, "--endpoints", &endpoint]);
    assert!(text(&try_backup(&["ls", target])).contains("--key-file"), "it is encrypted");
    put(rest, "a/1", "new");
    assert!(rest.delete("/v1/data/a/2").status < 300);
    crdt(rest, "counter:count/increment", r#"{"amount": 2}"#);

    let restore = |words: &[&str]| {
        let always = ["restore", target, "--key-file", key_file, "--endpoints", &endpoint];
        backup(&[&always, words].concat())
    };
    let told = restore(&["--ns", "default", "--prefix", "a/", "--dry-run"]);
    assert!(told.contains("Would restore 1 keys and replace 0; 1 hold something"), "{told}");
    assert_eq!((value(rest, "a/1"), value(rest, "a/2")), (Some("new".into()), None), "nothing has changed");
    restore(&["--prefix", "a/", "--as-prefix", "c/"]);
    assert_eq!((value(rest, "c/1"), value(rest, "c/2")), (Some("old".into()), Some("old".into())));
    restore(&["--only", "a/2"]);
    assert_eq!((value(rest, "a/1"), value(rest, "a/2")), (Some("new".into()), Some("old".into())));
    restore(&["--only", "a/1", "--only", "count", "--replace"]);
    assert_eq!(value(rest, "a/1"), Some("old".into()));
    assert_eq!(crdt_value(rest, "counter:count"), 5, "replaced, not added up");
    restore(&["--ns", "default", "--as-ns", "copy", "--only", "b/1"]);
    assert_eq!(rest.get("/v1/namespaces/copy/data/b/1").json()["value"], "old");
    let unknown =
        try_backup(&["restore", target, "--key-file", key_file, "--endpoints", &endpoint, "--ns", "none"]);
    assert!(!unknown.status.success() && text(&unknown).contains("no namespace none"), "{}", text(&unknown));
}

#[test]
fn a_backup_without_enough_replicas_is_refused() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let plans = Plan::cluster(3);
    let mut members = start(&plans);
    put(Rest::of(&members[0]), "k", "v");
    members[2].kill();
    let endpoint = members[0].client.to_string();
    let told = backup(&["create", target, "--endpoints", &endpoint]);
    assert!(told.contains("Warning: saved without the nodes"), "{told}");
    members[1].kill();
    let output = try_backup(&["create", target, "--endpoints", &endpoint]);
    assert!(!output.status.success(), "{}", text(&output));
    assert_eq!(backup(&["ls", target]).lines().count(), 1, "only the first is a backup");
}

/// A real S3 server, if the variable names a program: it is started with `-H 127.0.0.1 -p PORT`, as moto's is.
struct S3Server {
    child: Child,
    port: u16,
}

impl S3Server {
    fn start() -> Option<S3Server> {
        let Ok(program) = std::env::var("S3_SERVER") else {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED backups in a bucket: set S3_SERVER to a server, as moto_server"
            );
            return None;
        };
        let port = free_port();
        let child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = S3Server { child, port };
        until("the S3 server answers", || TcpStream::connect(("127.0.0.1", port)).ok());
        Some(server)
    }

    fn run(&self, words: &[&str]) -> Output {
        althing()
            .arg("backup")
            .args(words)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .output()
            .unwrap()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_bucket_keeps_backups_as_a_directory_does() {
    let Some(server) = S3Server::start() else { return };
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], server.port));
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    (0..30).for_each(|n| put(rest, &format!("k{n}"), "v"));
    let target = "s3://backups/some/place";
    let missing = server.run(&["create", target, "--endpoints", &endpoint]);
    assert!(text(&missing).contains("NoSuchBucket"), "{}", text(&missing));
    assert_eq!(Rest(at).call("PUT", "/backups", &[], b"").status, 200);
    let run = |words: &[&str]| {
        let output = server.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        text(&output)
    };
    run(&["create", target, "--endpoints", &endpoint, "--limit-rate", "50MB"]);
    run(&["create", target, "--endpoints", &endpoint]);
    assert_eq!(run(&["ls", target]).lines().count(), 2);
    assert!(run(&["verify", target]).contains("is whole"));
    run(&["prune", target, "--keep", "1"]);
    assert_eq!(run(&["ls", target]).lines().count(), 1);
    drop(member);
    let (member, rest) = single();
    run(&["restore", target, "--endpoints", &member.client.to_string()]);
    assert_eq!((0..30).filter_map(|n| value(rest, &format!("k{n}"))).count(), 30);
}
