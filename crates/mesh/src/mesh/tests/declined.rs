//! Writes that replicas do not take: those without disk space, those that are down, and those that are out of step for a moment.

use super::full::{FULL, PLENTY, set_free};
use super::*;
use crate::ring::Partition;
use crate::topology::Topology;

/// A reply within this time did not wait for a timeout.
const AT_ONCE: u64 = 100 * MS;

/// The replicas of a key, and the other nodes.
fn keepers(world: &World, name: &str) -> (Vec<NodeId>, Vec<NodeId>) {
    let placement = world.topology.placement();
    let list = placement.now.of(key(name).partition(), 3).to_vec();
    let others = world.hosts.keys().copied().filter(|node| !list.contains(node)).collect();
    (list, others)
}

/// Asks, and says how long the answer took.
fn timed(world: &mut World, node: NodeId, write: Write) -> (Reply, u64) {
    let before = world.now;
    let reply = world.call(node.0, Request::write(write));
    (reply, world.now - before)
}

fn sloppy(name: &str, value: &str) -> Write {
    Write { sloppy: true, ..put(name, value) }
}

/// The same, a step further.
fn renewed(world: &World) -> Topology {
    world.topology.renewed(Epoch(world.topology.epoch.0 + 1))
}

#[test]
fn a_write_that_two_of_three_have_no_space_for_is_answered_at_once() {
    let mut world = awake(70, 3);
    [2, 3].into_iter().for_each(|node| set_free(&mut world, node, 0));
    for kind in [Kind::Register, Kind::Counter] {
        let (name, op) = match kind {
            Kind::Register => ("k", Op::Put(Bytes::from_static(b"v"))),
            _ => ("c", Op::Add(1)),
        };
        let (reply, took) = timed(&mut world, NodeId(1), write(name, kind, op));
        assert!(matches!(reply, Reply::Indeterminate { acks: 1, needed: 2, .. }));
        assert!(took < AT_ONCE, "{} ms", took / MS);
    }
    let (reply, _) = timed(&mut world, NodeId(1), Write { w: Some(1), ..put("one", "v") });
    assert_eq!(value(&reply).as_deref(), Some("v"), "who wants no more than there is gets it");
    [2, 3].into_iter().for_each(|node| set_free(&mut world, node, PLENTY));
    world.run(2 * SECOND);
    assert_eq!(value(&world.call(3, read("k"))).as_deref(), Some("v"), "the hint was replayed");
    assert_eq!((world.differences().len(), world.leftovers(3)), (0, 0));
}

#[test]
fn a_write_goes_on_while_the_third_may_answer() {
    let mut world = awake(71, 3);
    set_free(&mut world, 2, 0);
    world.delay_max = 150 * MS;
    for n in 0..10 {
        let (reply, _) = timed(&mut world, NodeId(1), put(&format!("k{n}"), "v"));
        assert_eq!(value(&reply).as_deref(), Some("v"), "{n}: {reply:?}");
    }
}

#[test]
fn a_write_whose_replicas_are_known_to_be_down_is_answered_at_once() {
    let mut world = awake(72, 3);
    [2, 3].into_iter().for_each(|node| world.crash(NodeId(node)));
    // Until their silence is noticed.
    (0..4).for_each(|_| drop(world.call(1, Request::write(put("k", "v")))));
    let (reply, took) = timed(&mut world, NodeId(1), put("k", "w"));
    assert!(matches!(reply, Reply::Indeterminate { acks: 1, needed: 2, .. }));
    assert!(took < AT_ONCE, "{} ms", took / MS);
    world.heal();
    world.run(3 * SECOND);
    assert_eq!(value(&world.call(2, read("k"))).as_deref(), Some("w"), "it was durable when that was told");
}

#[test]
fn others_stand_in_for_replicas_without_space_and_for_stand_ins_without_space() {
    let mut world = awake(73, 5);
    let (list, others) = keepers(&world, "k");
    list[1..].iter().for_each(|node| set_free(&mut world, node.0, 0));
    let (strict, took) = timed(&mut world, list[0], put("k", "strict"));
    assert!(matches!(strict, Reply::Indeterminate { acks: 1, needed: 2, .. }));
    assert!(took < AT_ONCE, "{} ms", took / MS);
    let (reply, took) = timed(&mut world, list[0], sloppy("k", "both"));
    assert_eq!(value(&reply).as_deref(), Some("both"));
    assert!(took < AT_ONCE, "{} ms", took / MS);
    set_free(&mut world, others[0].0, 0);
    let (reply, took) = timed(&mut world, list[0], sloppy("k", "one"));
    assert_eq!(value(&reply).as_deref(), Some("one"), "the other one stands in");
    assert!(took < AT_ONCE, "{} ms", took / MS);
    set_free(&mut world, others[1].0, 0);
    let (reply, took) = timed(&mut world, list[0], sloppy("k", "none"));
    assert!(matches!(reply, Reply::Indeterminate { acks: 1, needed: 2, .. }));
    assert!(took < AT_ONCE, "{} ms", took / MS);
    (1..=5).for_each(|node| set_free(&mut world, node, PLENTY));
    world.run(3 * SECOND);
    assert_eq!(world.leftovers(3), 0, "no node has hints for stand-ins that were not used");
    let kept = |node: &NodeId| Partition::all().map(|one| world.records(*node, one).len()).sum::<usize>();
    assert_eq!((world.differences().len(), others.iter().map(kept).sum::<usize>()), (0, 0));
    assert_eq!(value(&world.call(list[2].0, read("k"))).as_deref(), Some("none"));
}

/// Frames overtake each other, so that it is sometimes declined before and sometimes after the topology has come.
#[test]
fn a_write_of_a_node_that_is_behind_is_saved_by_what_the_others_tell_it() {
    for seed in 0..30 {
        let mut world = awake(100 + seed, 3);
        world.delay_max = 20 * MS;
        let newer = renewed(&world);
        world.topology = newer.clone();
        [2, 3].into_iter().for_each(|node| world.step(NodeId(node), Input::Topology(newer.clone())));
        let (reply, took) = timed(&mut world, NodeId(1), put("k", "v"));
        assert_eq!(value(&reply).as_deref(), Some("v"), "seed {seed}: {reply:?}");
        assert!(took < 2 * AT_ONCE, "seed {seed}: {} ms", took / MS);
    }
}

/// One has no disk space, the other another topology: only the first is given up.
#[test]
fn a_write_is_not_given_up_for_a_replica_that_is_ahead() {
    for seed in 0..30 {
        let mut world = awake(140 + seed, 3);
        let newer = renewed(&world);
        set_free(&mut world, 2, 0);
        world.topology = newer.clone();
        world.step(NodeId(3), Input::Topology(newer));
        let (reply, took) = timed(&mut world, NodeId(1), put("k", "v"));
        assert_eq!(value(&reply).as_deref(), Some("v"), "seed {seed}: {reply:?}");
        assert!(took < AT_ONCE, "seed {seed}: {} ms", took / MS);
    }
}

#[test]
fn a_conditional_write_outlives_a_change_of_topology() {
    let conditional = || Write { expect: Some(Context::default()), ..put("k", "v") };
    for seed in 0..20 {
        // The coordinator is behind, or ahead of the others.
        for ahead in [vec![2, 3], vec![1], vec![1, 2]] {
            let mut world = awake(180 + seed, 3);
            let newer = renewed(&world);
            world.topology = newer.clone();
            ahead.iter().for_each(|node| world.step(NodeId(*node), Input::Topology(newer.clone())));
            let (reply, took) = timed(&mut world, NodeId(1), conditional());
            assert_eq!(value(&reply).as_deref(), Some("v"), "seed {seed}, {ahead:?}: {reply:?}");
            assert!(took < AT_ONCE, "seed {seed}, {ahead:?}: {} ms", took / MS);
        }
    }
}

/// The node that began to ask is no replica any more when the topology has changed.
#[test]
fn a_conditional_write_goes_to_the_new_replicas_of_its_key() {
    let mut world = awake(75, 4);
    let leaving = world.topology.begin(Epoch(2), &[], &[NodeId(1)]).unwrap();
    let kept = |name: &String| keepers(&world, name).0.contains(&NodeId(1));
    let name = (0..).map(|n| format!("k{n}")).find(kept).unwrap();
    world.publish(leaving);
    for _ in 0..40 {
        world.advance_move();
        world.run(SECOND / 4);
    }
    assert!(!world.topology.is_moving());
    // It has not heard yet that the move is over.
    let write = Write { expect: Some(Context::default()), ..put(&name, "v") };
    let (reply, took) = timed(&mut world, NodeId(1), write);
    assert_eq!(value(&reply).as_deref(), Some("v"), "{reply:?}");
    assert!(took < AT_ONCE, "{} ms", took / MS);
}

#[test]
fn a_write_is_forwarded_to_a_node_with_another_topology_only_for_a_moment() {
    let mut world = awake(76, 4);
    let (list, others) = keepers(&world, "k");
    list[..2].iter().for_each(|node| set_free(&mut world, node.0, 0));
    let newer = renewed(&world);
    world.topology = newer.clone();
    [others[0], list[0], list[1]]
        .into_iter()
        .for_each(|node| world.step(node, Input::Topology(newer.clone())));
    // Two have no disk space; the third has not heard of the topology yet.
    let (reply, took) = timed(&mut world, others[0], Write { w: Some(1), ..put("k", "v") });
    assert_eq!(value(&reply).as_deref(), Some("v"), "{reply:?}");
    assert!(took < AT_ONCE, "{} ms", took / MS);
}

#[test]
fn where_disks_are_full_no_write_waits_for_a_node_that_is_down() {
    let mut world = awake(77, 3);
    world.crash(NodeId(3));
    (0..4).for_each(|_| drop(world.call(1, Request::write(put("k", "v")))));
    world.run(SECOND);
    [1, 2].into_iter().for_each(|node| set_free(&mut world, node, 0));
    let (reply, took) = timed(&mut world, NodeId(1), put("k", "w"));
    assert_eq!(reply, FULL);
    assert!(took < AT_ONCE, "{} ms", took / MS);
}

/// A delete may begin on a full disk, but not what it is judged by be taken in there.
#[test]
fn a_condition_is_judged_where_there_is_space_for_what_it_is_judged_by() {
    let mut world = awake(78, 3);
    world.call(1, Request::write(put("k", "old")));
    world.run(SECOND);
    world.isolate(NodeId(3));
    let Reply::Written(first) = world.call(1, Request::write(put("k", "v"))) else { panic!("not written") };
    world.cut.clear();
    set_free(&mut world, 3, 700_000);
    let delete = Write { expect: Some(first.context.clone()), ..write("k", Kind::Register, Op::Delete) };
    let (Reply::Written(deleted), _) = timed(&mut world, NodeId(3), delete) else { panic!("not deleted") };
    assert_ne!(deleted.header.dot.actor.node, NodeId(3));
    assert_eq!(value(&world.call(2, read("k"))), None);
}
