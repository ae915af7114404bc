//! Backups of both planes by real processes: taken under writes, restored into clusters of another size, in part and under
//! other names; damaged ones are named; and a bucket of a real S3 server, where one is found.

use crate::process::{Member, Plan, althing, free_port, program, until};
use crate::rest::{Rest, single};
use serde_json::{Value, json};
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
    let scratch = TempDir::new().unwrap();
    let told = backup(&["verify", target, "--scratch", scratch.path().to_str().unwrap()]);
    assert!(told.contains("is whole") && told.contains("restored and verified"), "{told}");
    assert!(told.contains(" 1 keys of coordination"), "{told}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left");
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

/// The keys of collections of every type, by name.
const COLLECTIONS: [&str; 6] =
    ["bigset:tags", "flag:on", "map:ann", "sorted_set:game", "list:todo", "hyperloglog:seen"];

/// An operation on a collection. The first ones wait until the nodes have shown each other that they know collections.
fn operate(rest: Rest, operation: &str, body: &Value) {
    until("the operation is done", || {
        let answer = rest.post(&format!("/v1/crdt/{operation}"), &body.to_string());
        assert!(matches!(answer.status, 200 | 503), "{operation}: {}", answer.json());
        (answer.status == 200).then_some(())
    });
}

fn fill_collections(rest: Rest) {
    let names = |n: std::ops::Range<u32>| n.map(|n| format!("e{n:05}")).collect::<Vec<_>>();
    operate(rest, "flag:on/enable", &json!({}));
    for from in [0, 800] {
        operate(rest, "bigset:tags/add", &json!({ "elements": names(from..from + 800) }));
    }
    operate(rest, "bigset:tags/remove", &json!({ "elements": ["e00007"] }));
    let fields: BTreeMap<String, Value> = names(0..900).into_iter().zip((0..).map(Value::from)).collect();
    operate(rest, "map:ann/set", &json!({ "fields": fields }));
    operate(rest, "map:ann/set", &json!({ "field": "for an hour", "value": "x", "ttl": 3600 }));
    let scores: BTreeMap<String, Value> =
        names(0..900).into_iter().zip((0..).map(|n: i32| Value::from(450 - n * 7 % 900))).collect();
    operate(rest, "sorted_set:game/set", &json!({ "scores": scores }));
    for at in [0, 500] {
        let values: Vec<String> = (at..at + 500).map(|n| format!("item {}", n * 13 % 1_000)).collect();
        let answer = rest.post("/v1/crdt/list:todo/push", &json!({ "values": values }).to_string());
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    let increments = [("map:ann", "field", "visits"), ("sorted_set:game", "member", "e00003")];
    for (key, name, element) in increments {
        let body = json!({ name: element, "by": "2.5" }).to_string();
        let answer = rest.post(&format!("/v1/crdt/{key}/increment"), &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    operate(rest, "hyperloglog:seen/observe", &json!({ "elements": names(0..700) }));
    operate(rest, "bigset:empty/add", &json!({ "element": "gone" }));
    assert_eq!(rest.delete("/v1/crdt/bigset:empty").status, 200);
}

/// Everything that a client is shown of a collection. Positions of items are other ones after a restore.
fn contents(rest: Rest, path: &str) -> Vec<String> {
    let (mut all, mut page) = (Vec::new(), String::new());
    loop {
        let said = until("a quorum answers", || {
            let answer = rest.get(&format!("{path}?limit=400{page}"));
            (answer.status != 503).then(|| answer.json())
        });
        for list in ["elements", "entries"] {
            let shown = said[list].as_array().cloned().unwrap_or_default();
            all.extend(shown.into_iter().map(|mut entry| {
                entry.as_object_mut().map(|entry| entry.remove("position"));
                entry.to_string()
            }));
        }
        match said["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => {
                all.push(format!("{} {}", said["size"], said["value"]));
                return all;
            }
        }
    }
}

#[test]
fn collections_of_every_type_come_back_element_by_element() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let plans = Plan::cluster(3);
    let members = start(&plans);
    let rest = Rest::of(&members[0]);
    fill_collections(rest);
    let all = |rest: Rest| COLLECTIONS.map(|key| contents(rest, &format!("/v1/crdt/{key}")));
    let before = all(rest);
    assert_eq!(before.each_ref().map(Vec::len), [1_600, 1, 903, 901, 1_001, 1]);
    let told = backup(&["create", target, "--endpoints", &members[1].client.to_string()]);
    assert!(told.contains(" elements of collections"), "{told}");
    drop(members);
    drop(plans);
    let scratch = TempDir::new().unwrap();
    let told = backup(&["verify", target, "--scratch", scratch.path().to_str().unwrap()]);
    let shown: Value = serde_json::from_str(&backup(&["show", target])).unwrap();
    let elements = shown["data"]["elements"].as_u64().unwrap();
    assert!(elements > 1_599 + 902 + 900 + 1_000 + 1, "{shown}");
    assert!(told.contains(&format!("with {elements} elements of collections")), "{told}");
    assert!(told.contains(&format!("records of data with {elements} elements")), "{told}");

    let plans = Plan::cluster(2);
    let members = start(&plans);
    let rest = Rest::of(&members[1]);
    let endpoint = members[0].client.to_string();
    let restore = |words: &[&str]| backup(&[&["restore", target, "--endpoints", &endpoint], words].concat());
    // Nodes that have just met may not know yet that the others know collections.
    operate(rest, "flag:other/enable", &json!({}));
    let told = restore(&["--dry-run"]);
    assert!(told.contains("Would restore 6 keys"), "{told}");
    let told = restore(&[]);
    assert!(told.contains("Restored 6 keys and replace 0"), "{told}");
    assert!(told.contains(&format!("; {elements} elements of collections")), "{told}");
    assert_eq!(all(rest), before);
    assert_eq!(rest.get("/v1/crdt/bigset:empty").status, 404);

    let told = restore(&[]);
    assert!(told.contains("Restored 0 keys and replace 0; 6 hold something"), "{told}");
    // What is missing of a collection that is there comes back; a list that is another one stays.
    operate(rest, "bigset:tags/remove", &json!({ "elements": ["e00001", "e00900"] }));
    operate(rest, "map:ann/increment", &json!({ "field": "visits" }));
    operate(rest, "list:todo/pop", &json!({ "end": "first" }));
    let told = restore(&["--only", "tags", "--only", "ann", "--only", "todo"]);
    assert!(told.contains("Restored 1 keys and replace 0; 2 hold something"), "{told}");
    assert!(told.contains("; 2 elements of collections"), "{told}");
    let now = all(rest);
    assert_eq!((&now[0], now[4].len()), (&before[0], before[4].len() - 1));
    let told = restore(&["--prefix", "t", "--replace"]);
    assert!(told.contains("Restored 0 keys and replace 2"), "{told}");
    assert_eq!((&all(rest)[0], &all(rest)[4]), (&before[0], &before[4]));
    restore(&["--ns", "default", "--as-ns", "copy", "--only", "game", "--only", "todo"]);
    restore(&["--prefix", "an", "--as-prefix", "jo"]);
    for (path, nth) in [
        ("/v1/namespaces/copy/crdt/sorted_set:game", 3),
        ("/v1/namespaces/copy/crdt/list:todo", 4),
        ("/v1/crdt/map:jon", 2),
    ] {
        assert_eq!(contents(rest, path), before[nth], "{path}");
    }
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
fn the_backup_after_a_damage_is_whole_again() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    (0..20).for_each(|n| put(rest, &format!("k{n}"), "v"));
    let create = || backup(&["create", target, "--endpoints", &endpoint]);
    create();
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    let sent: Vec<(PathBuf, Vec<u8>)> =
        objects(dir.path()).into_iter().map(|path| (path.clone(), read(&path))).collect();
    for (path, whole) in &sent {
        std::fs::write(path, &whole[..whole.len() / 2]).unwrap();
    }
    create();
    assert!(backup(&["verify", target]).contains("is whole"), "what was cut is sent again");
    // Of the coordination store there may be other objects by now.
    let (victim, whole) =
        sent.iter().find(|(path, whole)| read(path) == *whole).expect("rows have not changed");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    std::fs::write(victim, flipped).unwrap();
    let name = victim.file_name().unwrap().to_str().unwrap();
    let dropped = try_backup(&["verify", target, "--drop-damaged"]);
    assert_eq!(dropped.status.code(), Some(1));
    assert!(text(&dropped).contains(&format!("removed object {name}")), "{}", text(&dropped));
    create();
    assert!(backup(&["verify", target]).contains("is whole"));
}

/// A verb of ours about keys of coordination, and what it prints.
fn keys(member: &Member, words: &[&str]) -> String {
    let output = althing().args(words).args(["--endpoints", &member.client.to_string()]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn keys_of_coordination_come_back_as_they_were_into_the_running_cluster() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().join("backups");
    let target = target.to_str().unwrap();
    let (member, _) = single();
    for name in ["app/1", "app/2", "app/3"] {
        keys(&member, &["put", name, "old"]);
    }
    let told: Value = serde_json::from_str(&keys(&member, &["get", "app/1", "-w", "json"])).unwrap();
    let revision = told["header"]["revision"].to_string();
    keys(&member, &["put", "app/1", "broken"]);
    keys(&member, &["del", "app/2"]);
    keys(&member, &["backup", "create", target]);
    let restore = |words: &[&str]| {
        let always = ["backup", "restore", target, "--coord", "--prefix", "app/", "--to-revision", &revision];
        keys(&member, &[&always, words].concat())
    };
    let told = restore(&["--dry-run", "--replace"]);
    assert!(told.contains("replace app/1\nrestore app/2\nkeep app/3\n"), "{told}");
    for line in restore(&["--dry-run", "-w", "json"]).lines() {
        let told: Value = serde_json::from_str(line).unwrap();
        assert_eq!(told["outcome"] == "restore", told["key"] == "app/2", "{told}");
    }
    let all = |prefix: &str| keys(&member, &["get", prefix, "--prefix"]);
    assert_eq!(all("app/"), "app/1\nbroken\napp/3\nold\n", "nothing was written");
    assert!(restore(&["--as-prefix", "was/"]).contains("Restored 3 keys of coordination"));
    assert_eq!(all("was/"), "was/1\nold\nwas/2\nold\nwas/3\nold\n");
    let told = restore(&[]);
    assert!(
        told.contains("Restored 1 keys of coordination; 1 had that value, 1 hold something else"),
        "{told}"
    );
    restore(&["--replace"]);
    assert_eq!(all("app/"), "app/1\nold\napp/2\nold\napp/3\nold\n");
    let later = try_backup(&["restore", target, "--to-revision", "1000", "--coord"]);
    assert!(!later.status.success());
    let new = dir.path().join("new");
    let earlier =
        backup(&["restore", target, "--to-revision", &revision, "--data-dir", new.to_str().unwrap()]);
    assert!(earlier.contains(&format!("keys as of revision {revision}")), "{earlier}");
    let verified = althing().arg("verify").arg(&new).output().unwrap();
    assert!(text(&verified).contains("3 keys, 3 versions"), "{}", text(&verified));
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

/// A real S3 server, where one is found: it is started with `-H 127.0.0.1 -p PORT`, as that of the Python package `moto[server]` is.
struct S3Server {
    child: Child,
    port: u16,
}

impl S3Server {
    fn start() -> Option<S3Server> {
        let (binary, port) = (program("S3_SERVER", "moto_server")?, free_port());
        let mut child = Command::new(&binary)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let serves = until("the S3 server answers or ends", || match child.try_wait().unwrap() {
            Some(_) => Some(false),
            None => TcpStream::connect(("127.0.0.1", port)).ok().map(|_| true),
        });
        if !serves {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {} does not start", binary.display());
            return None;
        }
        Some(S3Server { child, port })
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
fn a_bucket_that_cannot_be_reached_and_a_damaged_manifest_are_named() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().to_str().unwrap();
    let (member, rest) = single();
    let endpoint = member.client.to_string();
    put(rest, "k", "v");
    let closed = format!("127.0.0.1:{}", free_port());
    let refused = althing()
        .args(["backup", "create", "s3://backups/x", "--endpoints", &endpoint])
        .envs([
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
        ])
        .env("AWS_ENDPOINT_URL", format!("http://{closed}"))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains(&closed), "{}", text(&refused));
    backup(&["create", target, "--endpoints", &endpoint]);
    let manifest = std::fs::read_dir(dir.path().join("backups")).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &whole[..whole.len() - 1]).unwrap();
    for words in [&["verify", target][..], &["restore", target, "--endpoints", &endpoint], &["ls", target]] {
        let output = try_backup(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output));
        let name = manifest.file_name().unwrap().to_str().unwrap();
        assert!(text(&output).contains(name), "{words:?}: {}", text(&output));
    }
    let told = backup(&["create", target, "--endpoints", &endpoint]);
    assert!(told.contains("Backup "), "a damaged manifest vouches for nothing: {told}");
    assert!(backup(&["verify", target]).contains("is whole"));
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
