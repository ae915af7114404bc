//! A peer that lies: frames under the name of a node of the region, with numbers that nothing real has reached. When the lies are
//! over, every key is taken and everything acknowledged is found.

use super::world::World;
use super::{SECOND, awake, key, put, read, value};
use crate::frame::{Envelope, ExchangePage, Frame, OpId, Shard, Writer};
use crate::hlc::Stamp;
use crate::mesh::{Input, Mesh};
use crate::mutant::Mutant;
use crate::request::{Reply, Request};
use crate::ring::Partition;
use crate::topology::{Epoch, Topology};
use crate::tree::{Buckets, TREE_LEAVES};
use crate::watermarks::Watermarks;
use base::NodeId;
use std::sync::Arc;

pub const SCENES: [(&str, super::Scene, Mutant); 2] = [
    ("forged marks", forged_marks, Mutant::FarStampTaken),
    ("forged names of writes", forged_names, Mutant::ForwardNamesPoisoned),
];

fn tell(world: &mut World, from: u64, to: u64, frame: Frame) {
    let envelope = Envelope { epoch: world.topology.epoch, frame };
    world.step(NodeId(to), Input::Received { from: NodeId(from), envelope });
}

/// One of the others lies to each node: every replica has passed times that are far away. New keys would then count as deleted,
/// and what is there would be removed.
fn forged_marks(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    for n in 0..20 {
        world.call(1 + n % 3, Request::write(put(&format!("old{n}"), "v")));
    }
    let late = [Stamp::MAX, Stamp(1 << 62), Stamp::at_ms(world.now / 1_000 + 86_400_000)];
    for (to, from) in [(1, 3), (2, 1), (3, 2)] {
        let actors = [from, to].map(|node| world.actor(NodeId(node)));
        let stamp = late[(seed + to) as usize % late.len()];
        for partition in Partition::all() {
            let shard = Shard { partition, copies: 3 };
            let known: Vec<_> = actors.iter().map(|actor| (Writer::Actor(*actor), stamp)).collect();
            let mut marks = Watermarks::default();
            marks.raise(world.topology.region, stamp);
            let buckets = Buckets::from_words([u64::MAX; TREE_LEAVES / 64]);
            let (id, after, upto, entries) = (OpId(7), None, None, Vec::new());
            let page = ExchangePage { id, shard, buckets, marks: marks.clone(), after, upto, entries };
            let compare = Frame::Compare { id, shard, root: 1, known: known.clone() };
            for frame in [compare, Frame::Page(Box::new(page)), Frame::Synced { shard, known, marks }] {
                tell(&mut world, from, to, frame);
            }
        }
    }
    world.run(3 * SECOND);
    for n in 0..20 {
        let (node, other) = (1 + n % 3, 1 + (n + 1) % 3);
        let name = format!("new{n}");
        let reply = world.call(node, Request::write(put(&name, "v")));
        if !matches!(reply, Reply::Written(_)) {
            return Some(format!("{name} is not taken by {node}: {reply:?}"));
        }
        for name in [name, format!("old{n}")] {
            if value(&world.call(other, read(&name))).as_deref() != Some("v") {
                return Some(format!("{name} is gone at {other}"));
            }
        }
    }
    (!world.differences().is_empty()).then(|| "replicas differ".into())
}

/// A peer forwards writes in the name of a node, under numbers that the node will never reach; then the node forwards its own.
fn forged_names(seed: u64) -> Option<String> {
    let mut world = awake(seed, 5);
    let list = world.topology.placement().now.of(key("k").partition(), 3).to_vec();
    let origin = (1..=5).find(|node| !list.contains(&NodeId(*node)))?;
    for n in 0..200 {
        let id = OpId(u64::MAX - base::rng::mix(n) % (1 << 60));
        for to in &list {
            let write = Arc::new(put("forged", "v"));
            tell(&mut world, origin, to.0, Frame::Forward { id, origin: None, write });
        }
    }
    world.run(SECOND);
    for n in 0..5 {
        let reply = world.call(origin, Request::write(put("k", &n.to_string())));
        if !matches!(reply, Reply::Written(_)) {
            return Some(format!("what {origin} forwards is not taken: {reply:?}"));
        }
    }
    None
}

#[test]
fn lies_about_time_and_names_do_no_harm() {
    super::end_well(&SCENES, 6);
}

#[test]
fn every_planted_bug_of_lies_shows() {
    super::show(&SCENES);
}

fn mesh(world: &World, node: u64) -> &Mesh {
    world.hosts[&NodeId(node)].mesh.as_ref().expect("it runs")
}

/// In a region of two one other node is all there is, and its lie about the epoch is believed. What the cluster agrees on ends it.
#[test]
fn a_forged_epoch_ends_with_the_next_topology_that_is_agreed() {
    let mut world = awake(1, 2);
    let agreed = world.topology.clone();
    let again = |epoch: u64| {
        let (members, namespace_copies) = (agreed.members().to_vec(), agreed.namespace_copies().to_vec());
        Topology::new(Epoch(epoch), agreed.region, members, namespace_copies)
    };
    tell(&mut world, 2, 1, Frame::Topology(again(u64::MAX).encode()));
    assert_eq!(mesh(&world, 1).topology().epoch, Epoch(u64::MAX), "it has no other node to ask");
    world.step(NodeId(1), Input::Topology(again(agreed.epoch.0 + 1)));
    world.step(NodeId(2), Input::Topology(again(agreed.epoch.0 + 1)));
    assert_eq!(mesh(&world, 1).topology().epoch.0, agreed.epoch.0 + 1);
    world.run(SECOND);
    assert!(matches!(world.call(1, Request::write(put("k", "v"))), Reply::Written(_)));
}
