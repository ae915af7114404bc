//! A store that reaches its quota: it says so, refuses what grows, and heals by itself when space is free again.

use crate::etcd::{Etcd, get, put};
use crate::process::{Member, PATIENCE, Plan, althing, until};
use crate::rest::Rest;
use crate::tour::block_on;
use proto::etcdserverpb::DeleteRangeRequest;
use std::io::Write as _;
use std::process::{Command, Output};

const QUOTA: &str = "300000";
const FULL: &str = "etcdserver: mvcc: database space exceeded";

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn ask(member: &Member, words: &[&str]) -> String {
    text(&althing().args(words).args(["--endpoints", &member.client.to_string()]).output().unwrap())
}

/// Puts until it is refused.
fn fill(member: &Member) {
    let value = "x".repeat(20_000);
    let mut n = 0;
    until("the quota is reached", || {
        n += 1;
        let told = ask(member, &["put", &format!("key-{n}"), &value]);
        assert!(told == "OK\n" || told.contains(FULL), "{told}");
        (told != "OK\n").then_some(())
    });
    assert!(n > 10, "only {n} values fitted");
}

fn free_space(member: &Member) {
    let told = ask(member, &["del", "key-", "--prefix"]);
    assert!(told.trim().parse::<u32>().is_ok(), "{told}");
    let json: serde_json::Value = serde_json::from_str(&ask(member, &["get", "x", "-w", "json"])).unwrap();
    let told = ask(member, &["compaction", &json["header"]["revision"].to_string()]);
    assert!(told.contains("compacted revision"), "{told}");
}

#[test]
fn a_full_store_refuses_what_grows_and_heals_after_deletes() {
    let plan = Plan::single().with(&["--quota-bytes", QUOTA]);
    let mut member = plan.start_ready();
    ask(&member, &["put", "small", "1"]);
    fill(&member);
    let health = member.http("GET", "/health");
    assert_eq!(health.status, 503);
    assert!(health.body.contains("ALARM NOSPACE"), "{}", health.body);
    assert_eq!(member.http("GET", "/health?exclude=NOSPACE").status, 200);
    assert!(ask(&member, &["alarm", "list"]).contains("alarm:NOSPACE"));
    assert!(ask(&member, &["endpoint", "status", "-w", "json"]).contains("alarm:NOSPACE"));
    assert_eq!(ask(&member, &["get", "small"]), "small\n1\n");
    assert!(ask(&member, &["lease", "grant", "60"]).contains(FULL));
    let log = until("the log tells it", || Some(plan.log()).filter(|log| log.contains("NOSPACE: nothing")));
    let (warned, full) = (log.find("little space left"), log.find("NOSPACE: nothing"));
    assert!(warned.is_some() && warned < full, "a warning comes before: {log}");

    // It is not forgotten by a restart.
    member.kill();
    let member = plan.start();
    until("it serves", || (ask(&member, &["get", "small"]) == "small\n1\n").then_some(()));
    assert!(ask(&member, &["put", "more", "1"]).contains(FULL));

    free_space(&member);
    until("there is space again", || (ask(&member, &["put", "more", "1"]) == "OK\n").then_some(()));
    // It refuses nothing any more, and can still be disarmed.
    assert_eq!(member.http("GET", "/health").status, 200);
    assert!(ask(&member, &["alarm", "disarm"]).contains("alarm:NOSPACE"));
    assert_eq!(ask(&member, &["alarm", "list"]), "");
}

/// What the store takes of the disk, as etcd reports it.
fn db_size(member: &Member) -> u64 {
    let status: serde_json::Value =
        serde_json::from_str(&ask(member, &["endpoint", "status", "-w", "json"])).unwrap();
    status[0]["Status"]["dbSize"].as_u64().unwrap()
}

#[test]
fn a_defragmentation_gives_space_back_while_the_member_serves() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        for n in 0..16 {
            etcd.put(put(format!("key-{n}"), vec![b'x'; 750_000])).await.unwrap();
        }
    });
    assert_eq!(ask(&member, &["put", "kept", "1"]), "OK\n");
    until("the values are in the store", || (db_size(&member) > 12_000_000).then_some(()));
    free_space(&member);
    // The compacted versions leave the store a while later; a defragmentation before that copies them.
    until("the space is given back", || {
        let told = ask(&member, &["defrag"]);
        assert!(told.contains("Finished defragmenting etcd member["), "{told}");
        assert!(told.contains(" before, ") && told.contains(" after"), "{told}");
        (db_size(&member) < 3_000_000).then_some(())
    });
    assert_eq!(ask(&member, &["get", "kept"]), "kept\n1\n");
    assert_eq!(ask(&member, &["put", "written", "2"]), "OK\n");
    let metrics = member.http("GET", "/metrics").body;
    for wanted in ["etcd_disk_defrag_inflight 0", "etcd_disk_backend_defrag_duration_seconds_count"] {
        assert!(metrics.contains(wanted), "{wanted}");
    }
    member.kill();
    let member = plan.start_ready();
    assert_eq!(ask(&member, &["get", "written"]), "written\n2\n");
    assert_eq!(
        ask(&member, &["get", "key-", "--prefix", "--count-only", "-w", "fields"])
            .matches("\"Count\" : 0")
            .count(),
        1
    );
}

#[test]
fn etcdctl_lists_and_disarms_alarms_on_three_members() {
    let Ok(binary) = std::env::var("ETCDCTL") else { return };
    let plans: Vec<Plan> =
        Plan::cluster(3).into_iter().map(|plan| plan.with(&["--quota-bytes", QUOTA])).collect();
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let all: Vec<String> = members.iter().map(|member| member.client.to_string()).collect();
    let etcdctl = |words: &[&str]| {
        let mut command = Command::new(&binary);
        text(&command.args(["--endpoints", &all.join(",")]).args(words).output().unwrap())
    };
    fill(&members[0]);
    for member in &members {
        assert!(ask(member, &["put", "k", "v"]).contains(FULL), "all members agree");
    }
    assert!(etcdctl(&["alarm", "list"]).contains("alarm:NOSPACE"));
    assert!(etcdctl(&["alarm", "disarm"]).contains("alarm:NOSPACE"));
    // Nothing was freed, so it comes back by itself.
    until("it is raised again", || etcdctl(&["alarm", "list"]).contains("alarm:NOSPACE").then_some(()));
    assert!(etcdctl(&["defrag"]).contains("Finished defragmenting"));
    free_space(&members[1]);
    until("all accept again", || {
        members.iter().all(|member| ask(member, &["put", "k", "v"]) == "OK\n").then_some(())
    });
    assert!(etcdctl(&["alarm", "disarm"]).contains("alarm:NOSPACE"), "it was healed just now");
    assert_eq!(etcdctl(&["alarm", "list"]), "");
    let hashes = etcdctl(&["endpoint", "hashkv"]);
    assert_eq!(hashes.lines().count(), 3, "{hashes}");
}

/// A file system of so few MB, for as long as it lives; nothing where it may not be mounted.
pub struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &std::path::Path, megabytes: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        let disk = mounted.ok().filter(|output| output.status.success()).map(|_| SmallDisk(at.to_owned()));
        if disk.is_none() {
            let _ = writeln!(std::io::stderr(), "skipped: a file system may not be mounted here");
        }
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A member that will run on such a disk, if one may be had here.
pub fn on_small_disk() -> Option<(Plan, SmallDisk)> {
    let plan = Plan::single().with(&["--wal-segment-bytes", "1048576", "--flush-bytes", "1048576"]);
    let disk = SmallDisk::mount(&plan.data_dir(), 64)?;
    Some((plan, disk))
}

fn delete_prefix(prefix: &str) -> DeleteRangeRequest {
    let range_end = base::key_range::prefix_end(prefix.as_bytes());
    DeleteRangeRequest { key: prefix.to_owned().into(), range_end, prev_kv: false }
}

/// Puts until it is refused and every member knows why. An earlier refusal may be temporary.
async fn put_until_full(etcd: &mut Etcd) -> usize {
    let mut fitted = 0;
    for nth in 0..10_000 {
        match etcd.put(put(format!("key-{nth:04}"), vec![b'x'; 64 * 1024])).await {
            Ok(_) => fitted += 1,
            Err(refused) => {
                assert_eq!(refused.message(), FULL, "{refused:?}");
                let told = etcd.status().await.unwrap().errors;
                if told.iter().any(|error| error.contains("NOSPACE")) {
                    return fitted;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
    panic!("64 MB hold no more than 64 MB");
}

#[test]
fn a_disk_that_is_filled_to_the_brim_heals_after_deletes() {
    let Some((plan, _disk)) = on_small_disk() else { return };
    let mut member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.put(put("small", "1")).await.unwrap();
        for round in 0..3 {
            let fitted = put_until_full(&mut etcd).await;
            let _ = writeln!(std::io::stderr(), "round {round}: {fitted} values of 64 KiB fitted");
            assert!(fitted > 50, "only {fitted} values fitted");
            assert_eq!(etcd.range(get("small")).await.unwrap().kvs[0].value, "1");
            let begun = std::time::Instant::now();
            etcd.delete(delete_prefix("key-")).await.unwrap();
            while !etcd.status().await.unwrap().errors.is_empty() || etcd.put(put("more", "1")).await.is_err()
            {
                assert!(begun.elapsed() < PATIENCE, "there is still no space");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            let _ = writeln!(std::io::stderr(), "round {round}: space again after {:?}", begun.elapsed());
        }
    });
    assert!(member.is_running());
    member.kill();
    let member = plan.start_ready();
    assert_eq!(ask(&member, &["get", "small"]), "small\n1\n");
}

#[test]
fn a_volume_of_120_megabytes_is_mostly_for_data() {
    let plan = Plan::single();
    let Some(_disk) = SmallDisk::mount(&plan.data_dir(), 120) else { return };
    let member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    block_on(async {
        let mut etcd = member.etcd().await;
        for nth in 0..100 {
            etcd.put(put(format!("key-{nth:04}"), vec![b'x'; 64 * 1024])).await.unwrap();
        }
        assert_eq!(etcd.status().await.unwrap().errors, Vec::<String>::new());
    });
    assert_eq!(rest.put("/v1/data/k", r#"{"value": 1}"#).status, 200);
}

#[test]
fn the_quota_is_set_while_members_run() {
    let plan = Plan::single().with(&["--quota-bytes", QUOTA]);
    let member = plan.start_ready();
    fill(&member);
    assert!(ask(&member, &["quota", "3000000"]).ends_with("of 3000000 bytes stored\n"));
    until("there is space again", || (ask(&member, &["put", "more", "1"]) == "OK\n").then_some(()));
    assert!(ask(&member, &["quota", "-w", "json"]).starts_with("{\"quota_bytes\":3000000,"));
    assert!(ask(&member, &["quota", "--reset"]).ends_with("of 300000 bytes stored\n"));
    until("it is full again", || ask(&member, &["put", "more", "1"]).contains(FULL).then_some(()));
}

#[test]
fn a_key_has_a_history_when_its_values_are_gone() {
    let member = Plan::single().start_ready();
    for value in ["1", "22", "333"] {
        ask(&member, &["put", "k", value]);
    }
    ask(&member, &["del", "k"]);
    ask(&member, &["put", "k", "4"]);
    assert!(ask(&member, &["compaction", "6", "--physical"]).contains("compacted"));
    let told = ask(&member, &["history", "k"]);
    assert!(!told.contains("time unknown"), "{told}");
    let kinds: Vec<&str> = told.lines().map(|line| line.split('\t').nth(2).unwrap()).collect();
    assert_eq!(kinds, ["PUT", "PUT", "PUT", "DELETE", "PUT"], "{told}");
    assert!(told.lines().nth(1).unwrap().contains("22") || told.lines().nth(1).unwrap().contains("2 bytes"));
    let compacted: Vec<bool> = told.lines().map(|line| line.contains("compacted 20")).collect();
    assert_eq!(compacted, [true, true, true, true, false], "{told}");
    let json = ask(&member, &["history", "k", "--limit", "2", "-w", "json"]);
    assert!(json.contains("\"more\":true") && json.matches("revision\":").count() >= 2, "{json}");
    let answer = member.http_with("POST", "/v1/store/history", r#"{"key":"aw=="}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.body.matches("\"revision\"").count(), 6, "{}", answer.body);
}

/// Who put at once.
const CROWD: usize = 48;

/// Many large values at once: by the time the disk is measured again, they are all in the log, unless what is
/// under way is counted before it is taken in.
#[test]
fn a_crowd_that_fills_the_disk_at_once_is_refused_and_ends_nothing() {
    let Some((plan, _disk)) = on_small_disk() else { return };
    let mut member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.put(put("small", "1")).await.unwrap();
        let mut crowd = tokio::task::JoinSet::new();
        for one in 0..CROWD {
            let mut etcd = member.etcd().await;
            crowd.spawn(async move {
                let mut fitted = 0;
                for nth in 0..20 {
                    match etcd.put(put(format!("key-{one:02}-{nth}"), vec![b'x'; 1024 * 1024])).await {
                        Ok(_) => fitted += 1,
                        Err(refused) => assert_eq!(refused.message(), FULL, "{refused:?}"),
                    }
                }
                fitted
            });
        }
        let fitted: u32 = crowd.join_all().await.into_iter().sum();
        let _ = writeln!(std::io::stderr(), "{fitted} values of 1 MiB fitted");
        assert!((1..60).contains(&fitted), "{fitted} values fitted");
        assert_eq!(etcd.range(get("small")).await.unwrap().kvs[0].value, "1");
        let begun = std::time::Instant::now();
        etcd.delete(delete_prefix("key-")).await.unwrap();
        while etcd.put(put("more", vec![b'x'; 64 * 1024])).await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "there is still no space");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let _ = writeln!(std::io::stderr(), "space again after {:?}", begun.elapsed());
    });
    assert!(member.is_running());
}
