//! Three members in one process.

use crate::world::{World, eventually, put};
use base::Code;
use base::limits::REQUESTS_WAITING_MAX;
use server::{RequiredAccess, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn every_member_takes_writes_and_every_member_reads_them() {
    let world = World::start(3, |_| {});
    for writer in 0..3 {
        let key = format!("by-{writer}");
        world.put(writer, &key, "v");
        for reader in 0..3 {
            assert_eq!(world.value(reader, &key).unwrap(), "v", "written by {writer}, read by {reader}");
        }
    }
    let text = world.handle(0).maintenance().metrics();
    assert!(text.contains("etcd_network_peer_sent_bytes_total{To="), "{text}");
    assert!(text.contains("etcd_network_peer_sent_failures_total{To="), "{text}");
}

#[test]
fn writes_go_on_without_the_leader_and_it_comes_back_with_all_of_them() {
    let mut world = World::start(3, |_| {});
    // A member that started empty is in doubt until something of its own is committed, and needs its leader for that.
    for idx in 0..3 {
        world.put(idx, "before", "v");
    }
    let leader = world.leader();
    let survivor = (leader + 1) % 3;
    world.take(leader).stop();
    world.put(survivor, "after", "v");
    assert_eq!(world.value(survivor, "before").unwrap(), "v");
    world.restart(leader);
    assert_eq!(world.value(leader, "after").unwrap(), "v");
}

#[test]
fn a_follower_that_missed_more_than_the_log_keeps_is_given_a_snapshot() {
    let mut world = World::start(3, |config| {
        config.log_keep_entries = 5;
        config.flush_interval = Duration::from_millis(5);
    });
    world.put(0, "first", "v");
    let follower = (world.leader() + 1) % 3;
    let writer = world.leader();
    world.take(follower).stop();
    let value = "v".repeat(20_000);
    for count in 0..100 {
        world.put(writer, &format!("k{count}"), &value);
    }
    let committed = world.handle(writer).status().committed;
    world.restart(follower);
    eventually(|| (world.handle(follower).status().applied >= committed).then_some(()));
    let figures = world.handle(follower).maintenance().metrics();
    assert!(figures.contains("althing_snapshots_installed_total 1\n"), "{figures}");
    for count in 0..100 {
        assert_eq!(world.value(follower, &format!("k{count}")).unwrap(), value);
    }
    world.put(follower, "goes on", "v");
    world.take(follower).stop();
    world.restart(follower);
    assert_eq!(world.value(follower, "goes on").unwrap(), "v");
}

#[test]
fn a_draining_leader_transfers_and_no_call_waits_for_an_election() {
    let mut world = World::start(3, |config| {
        config.heartbeat = Duration::from_millis(100);
        config.election = Duration::from_secs(1);
    });
    world.put(0, "k", "v");
    let leader = world.leader();
    let handle = world.handle(leader);
    world.take(leader).drain();
    assert!(!handle.status().is_leader);
    assert_eq!(world.ask_through(&handle, put("refused", "v")), Err(Code::Stopped));
    world.put((leader + 1) % 3, "l", "v");
}

#[test]
fn callers_of_the_other_members_are_not_refused_while_the_leader_drains() {
    let mut world = World::start(3, |_| {});
    world.put(0, "k", "v");
    let leader = world.leader();
    let (answered, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let caller = |number: usize| {
        let handle = world.handle((leader + 1 + number % 2) % 3);
        let (answered, enough) = (answered.clone(), enough.clone());
        world.spawn(async move {
            while !enough.load(Ordering::Relaxed) {
                handle.kv().submit(put(&format!("k{number}"), "v")).await.unwrap();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let callers = (0..16).map(caller).collect();
    let await_more = || {
        let so_far = answered.load(Ordering::Relaxed);
        eventually(|| (answered.load(Ordering::Relaxed) > so_far + 200).then_some(()));
    };
    await_more();
    world.take(leader).drain();
    await_more();
    enough.store(true, Ordering::Relaxed);
    world.join(callers);
}

#[test]
fn all_members_stopped_at_once_come_back_with_everything() {
    let mut world = World::start(3, |_| {});
    for count in 0..20 {
        world.put(count % 3, &format!("k{count}"), "v");
    }
    let servers: Vec<Server> = (0..3).map(|idx| world.take(idx)).collect();
    servers.into_iter().for_each(Server::stop);
    (0..3).for_each(|idx| world.restart(idx));
    for count in 0..20 {
        assert_eq!(world.value((count + 1) % 3, &format!("k{count}")).unwrap(), "v");
    }
}

/// What comes of a request when it is looked at once: nothing while it waits for an answer.
async fn at_once<T>(request: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::ZERO, request).await.ok()
}

#[test]
fn calls_about_members_are_taken_while_ordinary_ones_are_refused_for_overload() {
    // No member is elected, so what is taken waits.
    let world = World::start(3, |config| {
        config.election = Duration::from_secs(600);
        config.request_timeout = Duration::from_secs(600);
    });
    let handle = world.handle(0);
    world.block_on(async {
        let mut taken = 0;
        let refusal = loop {
            match at_once(handle.auth().catch_up()).await {
                None => taken += 1,
                Some(outcome) => break outcome,
            }
            assert!(taken <= REQUESTS_WAITING_MAX, "ordinary requests take every place");
        };
        assert_eq!(refusal, Err(Code::TooManyRequests));
        // The check of a change of members, the list of members, and whether auth is on.
        assert_eq!(at_once(handle.auth().permit_agreed(RequiredAccess::Root)).await, None);
        assert_eq!(at_once(handle.auth().catch_up_urgently()).await, None);
        assert_eq!(at_once(handle.auth().is_on_by_agreement()).await, None);
    });
}
