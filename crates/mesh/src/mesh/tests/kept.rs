//! Scenes about acknowledged writes that must stay: quorums count only what can tell of them, a request counts as done only
//! if it took effect, and what was shown stays while a partition moves.

use super::scenes::{delete, expect};
use super::world::{World, member};
use super::{SECOND, awake, key, put, read, value};
use crate::mesh::Request;
use crate::mutant::Mutant;
use crate::op::{Attributes, Op};
use crate::record::{Body, Kind};
use crate::request::{Reply, Write};
use crate::topology::Epoch;
use base::NodeId;

const YEAR_MS: i64 = 365 * 86_400_000;

fn is_written(reply: &Reply) -> bool {
    matches!(reply, Reply::Written(_))
}

/// Nodes 1 and 2 acknowledge a write of a clock that is ahead. Node 2 is away and node 1 has lost its disk when node 3, which
/// knows nothing of it, writes next.
fn a_lost_disk_forgets_a_stamp(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 3);
    world.hosts.get_mut(&NodeId(1)).unwrap().skew_ms = YEAR_MS;
    world.run(2 * SECOND);
    world.isolate(NodeId(3));
    let first = world.call(1, Request::write(put("k", "first")));
    if !is_written(&first) {
        return Some(format!("{first:?}"));
    }
    world.crash(NodeId(2));
    world.wipe(NodeId(1));
    world.cut.clear();
    world.start(NodeId(1));
    world.run(SECOND);
    let second = world.call(3, Request::write(put("k", "second")));
    world.start(NodeId(2));
    world.run(4 * SECOND);
    if is_written(&second) {
        return expect(&mut world, 3, "k", Some("second"));
    }
    let third = world.call(3, Request::write(put("k", "third")));
    if !is_written(&third) {
        return Some(format!("the replica that lost its disk is back, and {third:?}"));
    }
    expect(&mut world, 1, "k", Some("third"))
}

/// The clocks of all replicas were a year ahead, and are right now: their stamps stay ahead of those of the node where writes
/// begin. So each first stamp is refused, by what the replica has promised, and the second is still behind the write before.
fn a_stamp_is_refused_by_a_promise(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 4);
    let set_clocks = |world: &mut World, skew_ms: i64| {
        (1..=3).for_each(|node| world.hosts.get_mut(&NodeId(node)).unwrap().skew_ms = skew_ms);
    };
    set_clocks(&mut world, YEAR_MS);
    world.run(2 * SECOND);
    (1..=3).for_each(|node| drop(world.call(node, Request::write(put("ahead", "v")))));
    set_clocks(&mut world, 0);
    let placement = world.topology.placement();
    let is_foreign = |name: &String| !placement.now.of(key(name).partition(), 3).contains(&NodeId(4));
    let names: Vec<String> = (0..).map(|n| format!("k{n}")).filter(is_foreign).take(6).collect();
    for (nth, name) in names.iter().enumerate() {
        for (wrote, id) in [("plain", None), ("named", Some(nth as u64))] {
            let first = world.call(1 + (seed + nth as u64) % 3, Request::write(put(name, "before")));
            let attributes = Attributes { request: id, ..Attributes::default() };
            let second = world.call(4, Request::write(Write { attributes, ..put(name, wrote) }));
            if !is_written(&first) || !is_written(&second) {
                return Some(format!("{first:?}, {second:?}"));
            }
            if let Some(wrong) = expect(&mut world, 4, name, Some(wrote)) {
                return Some(wrong);
            }
        }
    }
    None
}

/// A partition is about to leave one of its replicas, which has a write of unknown fate alone. It is shown while another of
/// the replicas can be reached; then both are away, and those that take over are asked.
fn what_the_old_replicas_show(seed: u64) -> Option<String> {
    let mut world = awake(seed, 5);
    world.add(NodeId(6));
    let joining = world.topology.begin(Epoch(2), &[member(6)], &[]).unwrap();
    let placement = joining.placement();
    let lists = |name: &str| {
        let partition = key(name).partition();
        (placement.now.of(partition, 3).to_vec(), placement.next.of(partition, 3).to_vec())
    };
    let moves = |name: &String| {
        let (old, new) = lists(name);
        new.contains(&NodeId(6)) && old.iter().filter(|node| new.contains(node)).count() == 2
    };
    let name = (0..).map(|n| format!("k{n}")).find(moves).unwrap();
    let (old, new) = lists(&name);
    let stay: Vec<NodeId> = old.iter().copied().filter(|node| new.contains(node)).collect();
    let goes = *old.iter().find(|node| !new.contains(node)).unwrap();
    world.call(1, Request::write(put(&name, "before")));
    world.publish(joining);
    for _ in 0..80 {
        if world.progress.steps(&world.topology, &placement).switch.contains(key(&name).partition()) {
            break;
        }
        world.run(SECOND / 4);
    }
    world.isolate(goes);
    world.call(goes.0, Request::write(put(&name, "shown")));
    world.cut.clear();
    world.split(&[goes, stay[0]]);
    let shown = value(&world.call(stay[0].0, read(&name)));
    world.crash(goes);
    world.crash(stay[0]);
    world.cut.clear();
    for _ in 0..8 {
        world.advance_move();
        world.run(SECOND / 4);
    }
    match world.call(stay[1].0, read(&name)) {
        Reply::Found(_) if shown.is_some() => expect(&mut world, stay[1].0, &name, shown.as_deref()),
        _ => None,
    }
}

/// Additions come again under their request ids through a node whose clock is a year ahead, and once more when it is right.
fn a_clock_ahead_forgets_requests(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    let add = |id: u64| Write {
        attributes: Attributes { request: Some(id), ..Attributes::default() },
        ..super::write("count", Kind::Counter, Op::Add(1))
    };
    let skews = [(1, 0), (2, YEAR_MS), (2, 0), (3, 0)];
    for (node, skew_ms) in skews {
        world.hosts.get_mut(&NodeId(node)).unwrap().skew_ms = skew_ms;
        // More than a record remembers by itself.
        for id in 0..20 {
            let reply = world.call(node, Request::write(add(id)));
            if !is_written(&reply) {
                return Some(format!("{reply:?}"));
            }
        }
        world.run(2 * SECOND);
    }
    let reply = world.call(1, read("count"));
    let Reply::Found(Some(record)) = &reply else { return Some(format!("{reply:?}")) };
    let Body::Counter(count) = &record.body else { return Some(format!("{record:?}")) };
    (count.value() != 20).then(|| format!("{} of 20 are counted", count.value()))
}

/// A key is written and deleted by a clock that is a year ahead. Then two of its three replicas are away for so long that
/// none waits for them, and come back.
fn one_replica_waits_for_none(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 3);
    world.hosts.get_mut(&NodeId(1)).unwrap().skew_ms = YEAR_MS;
    world.run(2 * SECOND);
    for request in [Request::write(put("k", "v")), delete("k")] {
        let written = world.call(1, request);
        if !is_written(&written) {
            return Some(format!("{written:?}"));
        }
    }
    world.run(2 * SECOND);
    for (epoch, stale) in [(2, true), (4, false)] {
        let marked = world.topology.mark(Epoch(epoch), NodeId(2), stale);
        world.publish(marked.mark(Epoch(epoch + 1), NodeId(3), stale));
        world.run(6 * SECOND);
    }
    let differ = world.differences();
    (!differ.is_empty()).then(|| format!("replicas stay different: {differ:?}"))
}

/// Scenes in which a rule matters, and the bug that breaks it.
pub const SCENES: [(&str, super::Scene, Mutant); 5] = [
    ("one replica waits for none", one_replica_waits_for_none, Mutant::MarkOfOneReplica),
    ("a clock ahead forgets requests", a_clock_ahead_forgets_requests, Mutant::NoteExpiresByOwnClock),
    ("a lost disk forgets a stamp", a_lost_disk_forgets_a_stamp, Mutant::RefillingAcknowledged),
    ("a stamp is refused by a promise", a_stamp_is_refused_by_a_promise, Mutant::FloorCountsAsCheck),
    ("what the old replicas show", what_the_old_replicas_show, Mutant::OldListShows),
];

/// After a power cut no node knows all that it acknowledged, and each has been started under another incarnation.
#[test]
fn nodes_that_are_all_in_doubt_come_back_without_help() {
    let mut world = awake(3, 3);
    for n in 0..20 {
        let reply = world.call(1 + n % 3, Request::write(put(&format!("k{n}"), "v")));
        assert!(is_written(&reply), "{reply:?}");
    }
    (1..=3).for_each(|node| world.crash_in_doubt(NodeId(node)));
    (1..=2).for_each(|node| world.start(NodeId(node)));
    world.run(4 * SECOND);
    let reply = world.call(1, read("k0"));
    assert!(matches!(reply, Reply::Unavailable { .. }), "the third may have what both lost: {reply:?}");
    world.start(NodeId(3));
    world.run(4 * SECOND);
    for n in 0..20 {
        let name = format!("k{n}");
        assert_eq!(expect(&mut world, 1 + n % 3, &name, Some("v")), None);
        assert!(is_written(&world.call(1, Request::write(put(&name, "w")))));
    }
}

#[test]
fn acknowledged_writes_are_kept_in_every_scene() {
    super::end_well(&SCENES, 8);
}

#[test]
fn every_planted_bug_that_loses_one_shows_in_its_scene() {
    super::show(&SCENES);
}
