//! A member whose log was damaged while it was down: promises that cannot be kept stop it with words that help,
//! and an end that was never promised is cut.

use crate::etcd::{Etcd, get, put};
use crate::process::{Member, Plan};
use crate::tour::block_on;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Stdio;

/// Writes before the member goes down, and again without it.
const WRITES: usize = 100;
const GARBAGE: u8 = 0xa5;
const GARBAGE_BYTES: usize = 64;

const SEGMENT: &str = "wal-0000000000000001";
const STORE: &str = "store.redb";

struct Scene {
    plans: Vec<Plan>,
    /// Those that stay up.
    others: Vec<Member>,
}

impl Scene {
    /// Three members with some writes in their logs, the first of them stopped.
    fn open() -> Scene {
        let plans = Plan::cluster(3);
        let mut others: Vec<Member> = plans.iter().map(Plan::start).collect();
        others.iter().for_each(Member::wait_ready);
        write_through(&others[0], "before");
        others.remove(0).kill();
        others.iter().for_each(Member::wait_ready);
        Scene { plans, others }
    }

    fn victim(&self) -> &Plan {
        &self.plans[0]
    }

    /// The first segment of the victim's log, and where its last byte that is not zero lies.
    fn log(&self) -> (PathBuf, u64) {
        let path = self.victim().data_dir().join(SEGMENT);
        let bytes = std::fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        (path, end as u64)
    }
}

/// The writes of one client, one after the other, so that each lies behind one that is durable.
fn write_through(member: &Member, prefix: &str) {
    block_on(async {
        let mut etcd = member.etcd().await;
        for i in 0..WRITES {
            etcd.put(put(format!("{prefix}/{i}"), "value")).await.unwrap();
        }
    });
}

async fn count_of(etcd: &mut Etcd, prefix: &str) -> usize {
    let range = crate::etcd::prefix(&format!("{prefix}/"));
    etcd.range(range).await.unwrap().kvs.len()
}

fn overwrite(path: &PathBuf, offset: u64, change: impl Fn(u8) -> u8, len: usize) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = change(*byte));
    file.write_all_at(&bytes, offset).unwrap();
}

/// The number behind "at byte ".
fn offset_named(message: &str) -> u64 {
    let (_, rest) = message.split_once("at byte ").unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_member_with_a_damaged_log_stops_and_says_where_and_what_to_do() {
    let scene = Scene::open();
    let (path, end) = scene.log();
    let flipped = end / 2;
    overwrite(&path, flipped, |byte| byte ^ 0x10, 1);

    let child = scene.victim().command().stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_eq!(output.stdout, b"", "it does not say that it serves");
    assert!(message.contains(SEGMENT) && message.contains("Replace this member"), "{message}");
    // The frame that is named begins before the flipped byte and reaches over it.
    let named = offset_named(&message);
    assert!(named <= flipped && flipped - named < 1024, "{flipped} was flipped: {message}");

    for member in &scene.others {
        block_on(async { member.etcd().await.put(put("after", "value")).await.unwrap() });
    }
}

#[test]
fn a_member_with_a_torn_log_cuts_it_and_catches_up() {
    let scene = Scene::open();
    write_through(&scene.others[0], "without");
    let (path, end) = scene.log();
    // The last frame ends in garbage, and more of it follows.
    overwrite(&path, end - 4, |_| GARBAGE, GARBAGE_BYTES);

    let member = scene.victim().start_ready();
    let log = scene.victim().log();
    assert!(log.contains("truncated the end of the write-ahead log") && log.contains(SEGMENT), "{log}");
    block_on(async {
        let mut etcd = member.etcd().await;
        for prefix in ["before", "without"] {
            assert_eq!(count_of(&mut etcd, prefix).await, WRITES, "{prefix}");
        }
        etcd.put(put("after", "value")).await.unwrap();
        let mut other = scene.others[0].etcd().await;
        assert_eq!(other.range(get("after")).await.unwrap().count, 1);
    });
}

#[test]
fn a_member_killed_between_taking_a_snapshot_and_logging_it_comes_back_every_time() {
    let mut scene = Scene::open();
    write_through(&scene.others[0], "without");
    let mut giver = scene.others.remove(0);
    giver.signal("TERM");
    assert!(giver.wait_exit().success());
    // So it looks when a snapshot has just been put in place: a store far ahead of the log beside it.
    std::fs::copy(scene.plans[1].data_dir().join(STORE), scene.victim().data_dir().join(STORE)).unwrap();

    let mut member = scene.victim().start_ready();
    write_through(&member, "behind");
    member.kill();
    // Its log now goes on behind the snapshot.
    let member = scene.victim().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        for prefix in ["before", "without", "behind"] {
            assert_eq!(count_of(&mut etcd, prefix).await, WRITES, "{prefix}");
        }
    });
}
