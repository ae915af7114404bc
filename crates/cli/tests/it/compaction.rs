//! Compaction that nobody asks for, on three real processes: watchers that lag lose nothing, it follows right behind
//! them, and one that is dead does not hold it up for ever.

use crate::etcd::{Etcd, put};
use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use crate::watch::{Watches, watch};
use proto::etcdserverpb::WatchCreateRequest;
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
