//! Automatic compaction, on three real processes: watchers that lag lose nothing, it follows right behind
//! them, and one that is dead does not hold it up for ever.

use crate::etcd::{Etcd, get, op, put};
use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use crate::watch::{Watches, watch};
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{Compare, TxnRequest, WatchCreateRequest, compare, response_op};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// How many revisions are written; `ALTHING_COMPACTION_REVISIONS` may ask for more.
const REVISIONS: i64 = 24_000;
const WRITERS: i64 = 32;
const KEYS: i64 = 500;
/// Larger than what fits between a server and a client that does not read.
const VALUE_BYTES: usize = 2_048;
const KEPT: i64 = 1_000;

fn revisions() -> i64 {
    std::env::var("ALTHING_COMPACTION_REVISIONS").map_or(REVISIONS, |text| text.parse().expect("a number"))
}

fn everything() -> WatchCreateRequest {
    WatchCreateRequest { range_end: vec![0].into(), start_revision: 2, ..watch("\0") }
}

/// Puts until there are so many revisions; the newest is told as it comes.
async fn write(members: &[Member], total: i64, newest: Arc<AtomicI64>) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mut etcd = members[writer as usize % members.len()].etcd().await;
        let newest = newest.clone();
        writers.spawn(async move {
            for nth in 0..total / WRITERS {
                let key = format!("key-{}", (writer + nth * WRITERS) % KEYS);
                let answer = etcd.put(put(key, vec![b'x'; VALUE_BYTES])).await.unwrap();
                newest.fetch_max(answer.header.unwrap().revision, Ordering::Relaxed);
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
}

/// Reads every event, but lets the writers get ahead again and again, and fails at the first gap.
async fn lag_behind(mut watches: Watches, total: i64, ahead: i64, newest: Arc<AtomicI64>) {
    let mut next = 2;
    while next < total + 2 {
        let waiting = Instant::now();
        while newest.load(Ordering::Relaxed) < (next + ahead).min(total + 1) {
            assert!(waiting.elapsed() < PATIENCE, "the writers stand still");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let until = (next + ahead / 2).min(total + 2);
        while next < until {
            let response = watches.next().await;
            assert!(!response.canceled, "ended at {next} by {}", response.compact_revision);
            for event in &response.events {
                assert_eq!(event.kv.as_ref().unwrap().mod_revision, next, "nothing is lost");
                next += 1;
            }
        }
    }
}

async fn floor_of(etcd: &mut Etcd) -> i64 {
    etcd.hash_kv(0).await.unwrap().compact_revision
}

#[test]
fn watchers_that_lag_lose_nothing_and_a_dead_one_holds_nothing_up() {
    let total = revisions() / WRITERS * WRITERS;
    let lag = total / 2;
    let flags = [
        "--compaction-retention-ms",
        "1000",
        "--compaction-retention-revisions",
        &KEPT.to_string(),
        "--compaction-lag-revisions",
        &lag.to_string(),
    ];
    let plans: Vec<Plan> = Plan::cluster(3).into_iter().map(|plan| plan.with(&flags)).collect();
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let newest = Arc::new(AtomicI64::new(1));
        let mut dead = Watches::open(&members[2]).await;
        assert!(dead.create(everything()).await.created);
        let mut lagging = tokio::task::JoinSet::new();
        for nth in 0..3 {
            let mut watches = Watches::open(&members[2]).await;
            assert!(watches.create(everything()).await.created);
            lagging.spawn(lag_behind(watches, total, total / (8 << nth), newest.clone()));
        }
        let begun = Instant::now();
        write(&members, total, newest.clone()).await;
        let _ = writeln!(std::io::stderr(), "{total} revisions written in {:?}", begun.elapsed());
        while let Some(done) = lagging.join_next().await {
            done.unwrap();
        }
        let _ = writeln!(std::io::stderr(), "all read after {:?}", begun.elapsed());
        let mut etcd = members[0].etcd().await;
        let floor = floor_of(&mut etcd).await;
        let _ = writeln!(std::io::stderr(), "compacted up to {floor} by then");
        assert!(floor > total / 8, "it did not follow the watchers, and is at {floor}");

        // The dead one is overtaken when it is too far behind; then everything but what is kept for all goes.
        let mut last = newest.load(Ordering::Relaxed);
        while last < total + lag + 2 * KEPT {
            last = etcd.put(put("key-0", "")).await.unwrap().header.unwrap().revision;
            if floor_of(&mut etcd).await >= last - 3 * KEPT {
                break;
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while floor_of(&mut etcd).await < last - 2 * KEPT {
            assert!(Instant::now() < deadline, "the dead watcher holds it up");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let ended = loop {
            let response = dead.next().await;
            if response.canceled {
                break response;
            }
        };
        assert!(ended.compact_revision > 1, "{ended:?}");
        let _ =
            writeln!(std::io::stderr(), "the dead one was told that {} is compacted", ended.compact_revision);
    });
}

/// One of Kubernetes' API servers, as far as it compacts: what it did last time is the version of a key that all of them
/// write, so that of several that come at once one compacts, to what was the newest revision a round ago.
struct Apiserver {
    etcd: Etcd,
    time: i64,
    revision: i64,
}

const COMPACTED: &str = "compact_rev_key";

impl Apiserver {
    async fn compacts(&mut self) -> bool {
        let is_ours = Compare {
            key: COMPACTED.into(),
            target: compare::CompareTarget::Version as i32,
            target_union: Some(compare::TargetUnion::Version(self.time)),
            ..Default::default()
        };
        let (time, revision) = (self.time, self.revision);
        let answer = self
            .etcd
            .txn(TxnRequest {
                compare: vec![is_ours],
                success: vec![op(Op::RequestPut(put(COMPACTED, revision.to_string())))],
                failure: vec![op(Op::RequestRange(get(COMPACTED)))],
            })
            .await
            .unwrap();
        self.revision = answer.header.unwrap().revision;
        if !answer.succeeded {
            let Some(response_op::Response::ResponseRange(told)) = &answer.responses[0].response else {
                panic!("a range was asked for")
            };
            self.time = told.kvs[0].version;
            return false;
        }
        self.time = time + 1;
        if revision > 0 {
            self.etcd.compact(revision).await.unwrap();
        }
        revision > 0
    }
}

#[test]
fn kubernetes_compacts_as_it_is_used_to() {
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let mut servers = Vec::new();
        for member in &members {
            servers.push(Apiserver { etcd: member.etcd().await, time: 0, revision: 0 });
        }
        let mut etcd = members[0].etcd().await;
        let mut floor = 0;
        for round in 0..5 {
            for nth in 0..20 {
                etcd.put(put(format!("/registry/pods/{}", nth % 4), format!("{round}"))).await.unwrap();
            }
            let expected = servers[0].revision;
            let mut compacted = 0;
            for server in &mut servers {
                compacted += usize::from(server.compacts().await);
            }
            assert_eq!(compacted, usize::from(round > 0), "one of three, and none in the first round");
            if round > 0 {
                // The first caller has won; nothing was compacted that it had not seen a round ago.
                floor = floor_of(&mut etcd).await;
                assert_eq!(floor, expected);
                let at = |revision| proto::etcdserverpb::RangeRequest { revision, ..get("/registry/pods/0") };
                assert_eq!(etcd.range(at(floor)).await.unwrap().count, 1, "the floor itself is readable");
                let below = etcd.range(at(floor - 1)).await.unwrap_err();
                assert!(below.message().contains("has been compacted"), "{below}");
            }
        }
        assert!(floor > 80, "it follows what is written, and is at {floor}");
    });
}
