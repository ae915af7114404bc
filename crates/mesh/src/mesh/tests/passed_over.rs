//! A replica stands still with a write in its sockets that another node has passed on to it. The next replica carries the write
//! out within tens of milliseconds, whatever the write is, and it counts once when the first replica goes on.

use super::contest::replace;
use super::world::{MS, World};
use super::{SECOND, awake, counter_value, key, put, read, value, write};
use crate::context::Context;
use crate::mesh::Request;
use crate::op::{Attributes, Op};
use crate::record::{Body, Kind};
use crate::request::{Level, Reply, Write};
use base::NodeId;
use bytes::Bytes;

/// Two waits for a replica that says nothing, and a write over its longest way.
const IN_TIME: u64 = 150 * MS;

/// The node that is no replica of the keys.
const ASKED: u64 = 4;

/// A name that node 4 of four does not keep, and the replicas of it.
fn foreign(world: &World, prefix: &str) -> (String, Vec<NodeId>) {
    let placement = world.topology.placement();
    let list = |name: &str| placement.now.of(key(name).partition(), 3).to_vec();
    let mut names = (0..).map(|n| format!("{prefix}{n}"));
    let name = names.find(|name| !list(name).contains(&NodeId(ASKED))).unwrap();
    let list = list(&name);
    (name, list)
}

fn at_level(write: Write) -> Write {
    let attributes = Attributes { level: Level::Linearizable, ..write.attributes };
    Write { attributes, ..write }
}

/// Each kind of write that is done twice if two replicas do it without knowing of each other.
fn writes(name: &str) -> Vec<(&'static str, Write)> {
    let element = Bytes::from_static(b"e");
    let add = || write(name, Kind::Counter, Op::Add(1));
    vec![
        ("an addition", add()),
        ("a decided addition", at_level(add())),
        ("an element", write(name, Kind::Set, Op::Insert(element.clone()))),
        ("a sibling", write(name, Kind::Siblings, Op::Put(element))),
        ("a number", write(name, Kind::Numeric, Op::Add(-1))),
        ("a creation", replace(name, "v", &Context::default())),
        ("a decided value", at_level(put(name, "v"))),
        ("a last write", put(name, "v")),
    ]
}

/// How often the write is there.
fn times(reply: &Reply) -> i128 {
    let Reply::Found(Some(record)) = reply else { return 0 };
    match &record.body {
        Body::Counter(_) => counter_value(record).abs(),
        Body::Bounded(counter) => counter.value().abs(),
        Body::Set(set) => set.elements().len() as i128,
        Body::Siblings(siblings) => siblings.values().len() as i128,
        Body::Register(_) => i128::from(value(reply).is_some()),
        Body::Collection(_) => 0,
    }
}

/// What went wrong, if anything did, when `paused` of the replicas stands still.
fn passes_over(seed: u64, nth: usize, paused: usize) -> Option<String> {
    let mut world = awake(seed, 4);
    let (name, list) = foreign(&world, "k");
    // The answers tell node 4 how long its peers take.
    for n in 0..8 {
        world.call(ASKED, Request::write(put(&format!("before-{n}"), "v")));
    }
    let (what, write) = writes(&name).remove(nth);
    world.pause(list[paused]);
    let began = world.now;
    let reply = world.call(ASKED, Request::write(write));
    let took = world.now - began;
    if !matches!(reply, Reply::Written(_)) || took > IN_TIME {
        return Some(format!("{what}: {reply:?} after {} ms", took / MS));
    }
    world.resume(list[paused]);
    world.run(5 * SECOND);
    let counted = (1..=4).map(|node| times(&world.call(node, read(&name)))).find(|counted| *counted != 1);
    if let Some(counted) = counted {
        return Some(format!("{what}: it counts {counted}"));
    }
    (!world.differences().is_empty()).then(|| format!("{what}: replicas differ"))
}

pub fn a_paused_replica_is_passed_over(seed: u64) -> Option<String> {
    let n_writes = writes("k").len();
    let cases = (0..n_writes).flat_map(|nth| (0..3).map(move |paused| (nth, paused)));
    cases.into_iter().find_map(|(nth, paused)| passes_over(seed, nth, paused))
}
