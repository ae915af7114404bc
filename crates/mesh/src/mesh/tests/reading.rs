//! Reads in which replicas agree, disagree, or cannot be brought to agree.

use super::scenes::delete;
use super::*;
use std::time::Duration;

/// No anti-entropy for an hour, and the key is on three replicas.
fn undisturbed(seed: u64) -> World {
    let mut world = World::with_rounds(seed, 3, Duration::from_secs(3_600));
    world.run(3 * SECOND);
    world
}

/// The value that one node keeps by itself.
fn kept(world: &World, node: u64, name: &str) -> Option<Record> {
    let records = world.records(NodeId(node), key(name).partition());
    records.get(&key(name)).cloned().and_then(Record::decode)
}

/// A key that nodes 1 and 2 have and node 3 does not get.
fn one_lacks_it(seed: u64) -> World {
    let mut world = undisturbed(seed);
    world.isolate(NodeId(3));
    assert!(value(&world.call(1, Request::write(put("k", "v")))).is_some());
    world.run(SECOND);
    world.cut.clear();
    assert_eq!(kept(&world, 3, "k"), None);
    world
}

#[test]
fn replicas_that_agree_are_told_nothing() {
    let mut world = undisturbed(51);
    world.call(1, Request::write(put("k", "v")));
    world.call(1, Request::write(put("gone", "v")));
    world.call(1, delete("gone"));
    world.run(SECOND);
    let before = world.n_repairs;
    for node in 1..=3 {
        for r in [1, 2, 3] {
            let ask = |name: &str| Request::Read { key: key(name), r: Some(r) };
            assert_eq!(value(&world.call(node, ask("k"))).as_deref(), Some("v"));
            let Reply::Found(Some(gone)) = world.call(node, ask("gone")) else {
                panic!("a delete is a record")
            };
            assert!(gone.is_tombstone());
            assert_eq!(world.call(node, ask("absent")), Reply::Found(None));
        }
    }
    assert_eq!(world.n_repairs, before);
}

#[test]
fn a_replica_that_lacks_what_is_read_has_it_before_the_answer() {
    for seed in 0..20 {
        let mut world = one_lacks_it(seed);
        let token = world.ask(NodeId(3), Request::Read { key: key("k"), r: Some(3) });
        while !world.replies.contains_key(&token) {
            world.run(100);
        }
        assert_eq!(value(&world.replies[&token]).as_deref(), Some("v"));
        // It is durable there: a crash in this moment does not take it back.
        world.crash(NodeId(3));
        world.start(NodeId(3));
        assert!(kept(&world, 3, "k").is_some(), "seed {seed}");
    }
}

#[test]
fn a_delete_that_one_replica_has_missed_is_what_every_reader_gets() {
    let mut world = undisturbed(53);
    world.call(1, Request::write(put("k", "v")));
    world.run(SECOND);
    world.isolate(NodeId(3));
    world.call(1, delete("k"));
    world.cut.clear();
    for node in [3, 2, 1] {
        let Reply::Found(Some(record)) = world.call(node, read("k")) else { panic!("a delete is a record") };
        assert!(record.is_tombstone());
    }
    assert!(kept(&world, 3, "k").is_some_and(|record| record.is_tombstone()));
}

/// The nodes that did not answer.
fn missing(reply: &Reply) -> Vec<NodeId> {
    match reply {
        Reply::Unavailable { missing, .. } | Reply::Indeterminate { missing, .. } => missing.nodes.clone(),
        other => panic!("{other:?}"),
    }
}

/// Two of three nodes are gone, and known to be.
pub fn refusals_come_at_once_and_name_the_missing(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.call(1, Request::write(put("k", "v")));
    [2, 3].into_iter().for_each(|node| world.crash(NodeId(node)));
    (0..3).for_each(|_| drop(world.call(1, read("k"))));
    for request in [read("k"), Request::write(put("k", "w")), read("k")] {
        let before = world.now;
        let reply = world.call(1, request);
        let took = world.now - before;
        if missing(&reply) != [NodeId(2), NodeId(3)] || took > 100 * MS {
            return Some(format!("{reply:?} after {} ms", took / MS));
        }
    }
    None
}

#[test]
fn a_read_without_its_quorum_says_so_as_soon_as_that_is_known_and_names_the_missing() {
    let mut world = awake(71, 3);
    world.call(1, Request::write(put("k", "v")));
    [2, 3].into_iter().for_each(|node| world.crash(NodeId(node)));
    for _ in 0..3 {
        assert_eq!(missing(&world.call(1, read("k"))), [NodeId(2), NodeId(3)]);
    }
    for _ in 0..10 {
        let before = world.now;
        assert_eq!(missing(&world.call(1, read("k"))), [NodeId(2), NodeId(3)]);
        assert!(world.now - before < 100 * MS, "{} ms", (world.now - before) / MS);
    }
    world.heal();
    world.run(2 * SECOND);
    assert_eq!(value(&world.call(1, read("k"))).as_deref(), Some("v"));
    assert_eq!(
        missing(&{
            world.isolate(NodeId(1));
            world.call(1, Request::write(put("k", "w")))
        }),
        [NodeId(2), NodeId(3)]
    );
}

#[test]
fn a_replica_that_stands_still_is_passed_over_in_tens_of_milliseconds() {
    let mut world = awake(72, 4);
    let placement = world.topology.placement();
    let list = |name: &str| placement.now.of(key(name).partition(), 3).to_vec();
    let foreign: Vec<String> =
        (0..60).map(|n| format!("k{n}")).filter(|name| !list(name).contains(&NodeId(4))).take(12).collect();
    for name in &foreign {
        world.call(4, Request::write(put(name, "v")));
    }
    world.pause(list(&foreign[0])[0]);
    for name in &foreign {
        let before = world.now;
        assert_eq!(value(&world.call(4, Request::write(put(name, "w")))).as_deref(), Some("w"));
        assert_eq!(value(&world.call(4, read(name))).as_deref(), Some("w"));
        assert!(world.now - before < 160 * MS, "{name}: {} ms", (world.now - before) / MS);
    }
    assert_eq!(world.n_conflicts, 0, "the same write twice is no conflict");
}
