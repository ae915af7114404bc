//! Scenes: short stories about one rule each, told to a world of a few nodes. Each says what went wrong, if
//! anything did; each is also told with the bug planted that breaks its rule, and must then notice.

use super::world::{MS, World, member};
use super::{SECOND, awake, counter_value, key, put, read, value, write};
use crate::actor::Dot;
use crate::context::Context;
use crate::disk_space::DiskSpace;
use crate::frame::{Envelope, Frame, OpId, StoreReason};
use crate::mesh::{Input, Request};
use crate::op::{Attributes, Op};
use crate::record::{Body, Fence, Kind};
use crate::request::{Reply, Write};
use crate::topology::Epoch;
use base::{Code, NodeId};
use bytes::Bytes;
use std::time::Duration;

pub fn expect(world: &mut World, node: u64, name: &str, wanted: Option<&str>) -> Option<String> {
    let reply = world.call(node, read(name));
    let shown = value(&reply);
    let right = matches!(reply, Reply::Found(_)) && shown.as_deref() == wanted;
    (!right).then(|| format!("{name} at {node} shows {shown:?}, not {wanted:?}: {reply:?}"))
}

pub fn delete(name: &str) -> Request {
    Request::write(write(name, Kind::Register, Op::Delete))
}

pub fn add(name: &str, amount: i128) -> Request {
    Request::write(write(name, Kind::Counter, Op::Add(amount)))
}

pub fn a_restart_counts_on(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    for round in 0..3 {
        let wrote = format!("{round}");
        let reply = world.call(1, Request::write(put("k", &wrote)));
        if !matches!(reply, Reply::Written(_)) {
            return Some(format!("{reply:?}"));
        }
        world.crash(NodeId(1));
        world.start(NodeId(1));
        world.run(SECOND);
    }
    expect(&mut world, 2, "k", Some("2"))
}

/// A key is on its way from a, b, c to others; a and b are cut off and read on, under the epoch that they have.
pub fn readers_of_the_old_list(seed: u64) -> Option<String> {
    let mut world = awake(seed, 5);
    world.add(NodeId(6));
    let joining = world.topology.begin(Epoch(2), &[member(6)], &[]).unwrap();
    let placement = joining.placement();
    let moves = |name: &String| {
        let partition = key(name).partition();
        let (old, new) = (placement.now.of(partition, 3), placement.next.of(partition, 3));
        new.contains(&NodeId(6)) && old.iter().filter(|node| new.contains(node)).count() == 2
    };
    let name = (0..).map(|n| format!("k{n}")).find(moves).unwrap();
    let partition = key(&name).partition();
    let new = placement.next.of(partition, 3).to_vec();
    let old = placement.now.of(partition, 3).to_vec();
    let stays = *old.iter().find(|node| new.contains(node)).unwrap();
    let cut: Vec<NodeId> = old.into_iter().filter(|node| *node != stays).collect();
    world.call(1, Request::write(put(&name, "before")));
    world.publish(joining);
    for _ in 0..80 {
        if world.progress.steps(&world.topology, &placement).switch.contains(partition) {
            break;
        }
        world.run(SECOND / 4);
    }
    world.split(&cut);
    world.deaf.extend(cut.iter().copied());
    for _ in 0..8 {
        world.advance_move();
        world.run(SECOND / 4);
    }
    match world.call(stays.0, Request::write(put(&name, "after"))) {
        Reply::Written(_) => expect(&mut world, cut[0].0, &name, Some("after")),
        _ => None,
    }
}

/// A node without space accepts nothing that grows, from clients or peers.
pub fn a_disk_without_space(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    (1..=3).for_each(|node| {
        world.step(
            NodeId(node),
            Input::DiskSpace(DiskSpace { free_bytes: 0, taken_bytes: 0, lacking_bytes: 0 }),
        )
    });
    let reply = world.call(1, Request::write(put("k", "v")));
    (reply != Reply::Refused(Code::NoSpace)).then(|| format!("{reply:?}"))
}

/// Deletes have less space than the log wants to have left; more than that is not taken in before it is in the store.
pub fn deletes_without_space(seed: u64) -> Option<String> {
    let mut world = awake(seed, 1);
    for n in 0..1_000 {
        world.ask(NodeId(1), Request::write(put(&format!("k{n}"), "v")));
    }
    world.run(SECOND);
    world.step(
        NodeId(1),
        Input::DiskSpace(DiskSpace { free_bytes: 600_000, taken_bytes: 0, lacking_bytes: 0 }),
    );
    let ask_many = |world: &mut World| -> Vec<_> {
        (0..1_000).map(|n| world.ask(NodeId(1), delete(&format!("k{n}")))).collect()
    };
    let n_taken = |world: &World, tokens: &[_]| {
        let taken = |token: &&_| matches!(world.replies.get(*token), Some(Reply::Written(_)));
        tokens.iter().filter(taken).count()
    };
    for _ in 0..2 {
        let tokens = ask_many(&mut world);
        world.run(SECOND);
        let taken = n_taken(&world, &tokens);
        if !(100..700).contains(&taken) {
            return Some(format!("{taken} deletes were taken in"));
        }
    }
    None
}

/// Two have acknowledged a write; one of them is away, the other has lost its disk, and a new node takes over. What it can
/// take from those who are left is not everything.
pub fn a_move_meets_a_lost_disk(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.add(NodeId(4));
    let joining = world.topology.begin(Epoch(2), &[member(4)], &[]).unwrap();
    let placement = joining.placement();
    let leaves = |name: &str, node: u64| !placement.next.of(key(name).partition(), 3).contains(&NodeId(node));
    let name = (0..).map(|n| format!("k{n}")).find(|name| leaves(name, 1)).unwrap();
    world.isolate(NodeId(3));
    world.call(1, Request::write(put(&name, "v")));
    world.crash(NodeId(1));
    world.wipe(NodeId(2));
    world.cut.clear();
    world.start(NodeId(2));
    world.publish(joining);
    for _ in 0..60 {
        world.advance_move();
        world.run(SECOND / 4);
    }
    match world.call(4, read(&name)) {
        Reply::Found(found) if found.is_none() => return Some("it is gone".into()),
        _ => world.start(NodeId(1)),
    }
    for _ in 0..60 {
        world.advance_move();
        world.run(SECOND / 4);
    }
    let moved = (world.topology.is_moving()).then(|| "the move does not end".to_owned());
    moved.or_else(|| expect(&mut world, 4, &name, Some("v")))
}

/// Two have acknowledged; one of them loses its disk, the others what they had not synced.
pub fn a_disk_is_lost_in_a_power_cut(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.sync_max = 200 * MS;
    let Reply::Written(_) = world.call(1, Request::write(put("k", "v"))) else { return None };
    [2, 3].iter().for_each(|node| world.crash(NodeId(*node)));
    world.wipe(NodeId(1));
    world.heal();
    world.run(6 * SECOND);
    expect(&mut world, 2, "k", Some("v"))
}

/// The origin of a count forgets it in a crash after others have acknowledged it.
pub fn a_count_is_forgotten(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.sync_max = 200 * MS;
    let Reply::Written(_) = world.call(1, add("c", 5)) else { return None };
    world.crash(NodeId(1));
    world.sync_max = 2 * MS;
    world.start(NodeId(1));
    world.run(50 * MS);
    let second = world.call(1, add("c", 3));
    world.run(5 * SECOND);
    let Reply::Found(Some(record)) = world.call(2, read("c")) else {
        return Some("it cannot be read".into());
    };
    let (count, least) = (counter_value(&record), if matches!(second, Reply::Written(_)) { 8 } else { 5 });
    (count < least).then(|| format!("counted {count}, not {least}"))
}

/// A replica that missed a write must not answer for it alone.
pub fn a_reader_alone(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.call(1, Request::write(put("k", "old")));
    world.isolate(NodeId(3));
    world.call(1, Request::write(put("k", "new")));
    world.cut.clear();
    expect(&mut world, 3, "k", Some("new"))
}

/// A write of unknown fate that was read once is there for the next reader. Nothing else brings it there: the replicas
/// have compared what they have, and will not do so again.
/// Only one replica has a record, and no node keeps a hint of it.
pub fn what_was_read_is_read_again(seed: u64) -> Option<String> {
    let mut world = World::with_rounds(seed, 3, Duration::from_secs(3_600));
    world.run(3 * SECOND);
    let Reply::Written(record) = awake(seed, 3).call(3, Request::write(put("k", "v"))) else {
        return Some("it is not written".to_owned());
    };
    let (id, record, reason) = (OpId(7), record.encode(), StoreReason::Repair);
    let frame = Frame::Store { id, key: key("k"), record, reason };
    let envelope = Envelope { epoch: world.topology.epoch, frame };
    world.step(NodeId(1), Input::Received { from: NodeId(3), envelope });
    world.run(10 * MS);
    world.isolate(NodeId(3));
    let wrong = expect(&mut world, 1, "k", Some("v"));
    world.cut.clear();
    world.isolate(NodeId(1));
    wrong.or_else(|| expect(&mut world, 2, "k", Some("v")))
}

/// The node with the hint is gone, so the delete must come by anti-entropy.
pub fn a_delete_without_its_hint(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.call(1, Request::write(put("k", "v")));
    world.run(SECOND);
    world.isolate(NodeId(3));
    world.call(1, delete("k"));
    world.crash(NodeId(1));
    world.cut.clear();
    world.run(4 * SECOND);
    let partition = key("k").partition();
    let same = world.records(NodeId(2), partition) == world.records(NodeId(3), partition);
    (!same).then(|| "2 and 3 differ".into())
}

pub fn one_has_not_heard_of_the_delete(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    (0..30).for_each(|n| drop(world.call(1, Request::write(put(&format!("k{n}"), "v")))));
    world.isolate(NodeId(3));
    (0..30).for_each(|n| drop(world.call(1, delete(&format!("k{n}")))));
    world.run(4 * SECOND);
    if world.n_purged > 0 {
        return Some(format!("{} are forgotten too early", world.n_purged));
    }
    world.cut.clear();
    world.run(12 * SECOND);
    if (world.leftovers(1), world.leftovers(2)) != (0, 0) {
        return Some("tombstones stay although every replica has them".into());
    }
    (0..30).find_map(|n| expect(&mut world, 2, &format!("k{n}"), None))
}

/// The others have forgotten what they deleted while one was away; it comes back with all of it.
pub fn away_for_too_long(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    (0..30).for_each(|n| drop(world.call(1, Request::write(put(&format!("k{n}"), "v")))));
    world.run(SECOND);
    world.crash(NodeId(3));
    (0..30).for_each(|n| drop(world.call(1, delete(&format!("k{n}")))));
    world.topology = world.topology.mark(Epoch(2), NodeId(3), true);
    for node in [1, 2] {
        world.step(NodeId(node), Input::Topology(world.topology.clone()));
    }
    world.run(8 * SECOND);
    if world.leftovers(1) > 0 {
        return Some("the others wait for it".into());
    }
    world.start(NodeId(3));
    world.run(8 * SECOND);
    if !world.caught_up.contains(&NodeId(3)) || world.leftovers(1) > 0 {
        return Some(format!("{} records came back", world.leftovers(1)));
    }
    world.publish(world.topology.mark(Epoch(3), NodeId(3), false));
    world.run(2 * SECOND);
    if !world.hosts[&NodeId(3)].mesh.as_ref().unwrap().membership.is_serving() {
        return Some("it does not serve again".into());
    }
    (0..30).find_map(|n| expect(&mut world, 3, &format!("k{n}"), None))
}

/// The new holder of a lock has written where the old one, who knows nothing of it, writes next.
pub fn a_passed_fence(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    let under = |token, text| {
        let fence = Some(Fence { lock: Bytes::from_static(b"lock"), token });
        Request::write(Write { attributes: Attributes { fence, ..Attributes::default() }, ..put("k", text) })
    };
    world.isolate(NodeId(3));
    world.call(1, under(9, "new holder"));
    world.cut.clear();
    let reply = world.call(3, under(8, "old holder"));
    if reply != Reply::Refused(Code::FencePassed) {
        return Some(format!("{reply:?}"));
    }
    expect(&mut world, 2, "k", Some("new holder"))
}

/// A node forgets, in a crash, a write with which others have run ahead of its clock; what it writes next wins.
pub fn a_write_is_forgotten(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 3);
    world.hosts.get_mut(&NodeId(2)).unwrap().skew_ms = 450;
    world.run(SECOND);
    world.call(2, Request::write(put("other", "v")));
    world.sync_max = 200 * MS;
    let Reply::Written(_) = world.call(1, Request::write(put("k", "first"))) else { return None };
    world.crash(NodeId(1));
    world.sync_max = 2 * MS;
    world.start(NodeId(1));
    world.run(60 * MS);
    match world.call(1, Request::write(put("k", "second"))) {
        Reply::Written(_) => expect(&mut world, 3, "k", Some("second")),
        _ => None,
    }
}

/// Two clients create a key at once, with different types; the loser gets an error.
pub fn a_key_is_two_things(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.isolate(NodeId(3));
    world.call(1, Request::write(write("k", Kind::Set, Op::Insert(Bytes::from_static(b"e")))));
    world.cut.clear();
    let reply = world.call(3, Request::write(put("k", "v")));
    (reply != Reply::Refused(Code::WrongType)).then(|| format!("{reply:?}"))
}

/// One clock is a year ahead, one five seconds behind; the later write wins.
pub fn clocks_disagree(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 3);
    world.hosts.get_mut(&NodeId(1)).unwrap().skew_ms = 365 * 86_400_000;
    world.hosts.get_mut(&NodeId(2)).unwrap().skew_ms = -5_000;
    world.run(SECOND);
    for n in 0..10 {
        let (wrote, node) = (format!("{n}"), world.rng.between(1, 4));
        // One replica misses the write, so the next write may begin without having seen it.
        let away = NodeId(world.rng.between(1, 4));
        if away.0 != node {
            world.isolate(away);
        }
        let reply = world.call(node, Request::write(put("k", &wrote)));
        if value(&reply).as_ref() != Some(&wrote) {
            return Some(format!("{reply:?}"));
        }
        world.cut.clear();
        let reader = world.rng.between(1, 4);
        if let Some(wrong) = expect(&mut world, reader, "k", Some(&wrote)) {
            return Some(wrong);
        }
    }
    None
}

/// A client asks a node, hears nothing, has the same done by another, and writes on; then the first attempt gets through.
pub fn a_first_attempt_comes_late(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    let request = |name: &str, value: &str, id: u64| {
        let attributes = Attributes { request: Some(id), ..Attributes::default() };
        Request::write(Write { attributes, ..put(name, value) })
    };
    for nth in 0..12 {
        let name = format!("k{nth}");
        world.delay_max = 250 * MS;
        world.ask(NodeId(1), request(&name, "first", 2 * nth));
        world.run((nth * 25) * MS);
        world.delay_max = 3 * MS;
        let retried = world.call(2, request(&name, "first", 2 * nth));
        let second = world.call(2, request(&name, "second", 2 * nth + 1));
        world.run(SECOND);
        let acked = [&retried, &second].iter().all(|reply| matches!(reply, Reply::Written(_)));
        if let Some(wrong) = expect(&mut world, 3, &name, Some("second")).filter(|_| acked) {
            return Some(wrong);
        }
    }
    None
}

/// A key that node 4 of four does not keep, and its replicas.
fn foreign_key(world: &World) -> (String, Vec<NodeId>) {
    let placement = world.topology.placement();
    let list = |name: &str| placement.now.of(key(name).partition(), 3).to_vec();
    let name = (0..).map(|n| format!("k{n}")).find(|name| !list(name).contains(&NodeId(4))).unwrap();
    let list = list(&name);
    (name, list)
}

/// A replica stands still with writes of another node in its sockets; the client writes on, is acknowledged, and reads what
/// it wrote. Then the replica goes on.
pub fn a_forwarded_write_comes_late(seed: u64) -> Option<String> {
    let mut world = awake(seed, 4);
    let (name, list) = foreign_key(&world);
    world.pause(list[0]);
    let mut last = None;
    for n in 0..6 {
        let wrote = format!("{n}");
        let reply = world.call(4, Request::write(put(&name, &wrote)));
        if matches!(reply, Reply::Written(_)) {
            last = Some(wrote);
        }
    }
    let wrong = expect(&mut world, 4, &name, last.as_deref());
    world.resume(list[0]);
    world.run(SECOND);
    wrong.or_else(|| expect(&mut world, 4, &name, last.as_deref()))
}

/// The same with a delete of a value into which everything goes that came before it.
pub fn a_forwarded_delete_comes_late(seed: u64) -> Option<String> {
    let mut world = awake(seed, 4);
    let (name, list) = foreign_key(&world);
    let away = list[seed as usize % 3];
    world.call(4, add(&name, 1));
    world.pause(away);
    let deleted = world.call(4, Request::write(write(&name, Kind::Counter, Op::Delete)));
    let other = list.iter().find(|node| **node != away).unwrap();
    let before = if matches!(deleted, Reply::Written(_)) { 0 } else { 1 };
    let Reply::Written(_) = world.call(other.0, add(&name, 5)) else { return None };
    world.resume(away);
    world.run(SECOND);
    let Reply::Found(Some(record)) = world.call(other.0, read(&name)) else {
        return Some("it is gone".into());
    };
    let count = counter_value(&record);
    (count != 5 && count != 5 + before).then(|| format!("counted {count}"))
}

/// A node's write meets one of a clock that is ahead, and the node stands still before it hears of that. The client writes on
/// elsewhere; then the node goes on.
pub fn a_coordinator_stands_still(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 3);
    world.hosts.get_mut(&NodeId(2)).unwrap().skew_ms = 5_000;
    world.run(SECOND);
    world.isolate(NodeId(3));
    let Reply::Written(_) = world.call(2, Request::write(put("k", "0"))) else { return None };
    world.cut.clear();
    world.ask(NodeId(3), Request::write(put("k", "1")));
    world.pause(NodeId(3));
    world.run(SECOND);
    let Reply::Written(_) = world.call(1, Request::write(put("k", "2"))) else { return None };
    world.resume(NodeId(3));
    world.run(2 * SECOND);
    expect(&mut world, 2, "k", Some("2"))
}

/// An addition under a request id.
fn add_once(name: &str, request: u64, amount: i128) -> Request {
    let attributes = Attributes { request: Some(request), ..Attributes::default() };
    Request::write(Write { attributes, ..write(name, Kind::Counter, Op::Add(amount)) })
}

fn expect_count(world: &mut World, node: u64, name: &str, wanted: i128) -> Option<String> {
    let Reply::Found(Some(record)) = world.call(node, read(name)) else {
        return Some(format!("{name} cannot be read"));
    };
    let count = counter_value(&record);
    (count != wanted).then(|| format!("{name} at {node} counts {count}, not {wanted}"))
}

/// A write names a handler that is not registered; through a replica, and through the node that passes it on.
pub fn a_handler_that_is_unknown(seed: u64) -> Option<String> {
    let mut world = awake(seed, 4);
    let attributes = Attributes { handler: Some(Bytes::from_static(b"nowhere")), ..Attributes::default() };
    let put = write("k", Kind::Siblings, Op::Put(Bytes::from_static(b"v")));
    (1..=4).find_map(|node| {
        let reply = world.call(node, Request::write(Write { attributes: attributes.clone(), ..put.clone() }));
        (reply != Reply::Refused(Code::UnknownHandler)).then(|| format!("{reply:?} at {node}"))
    })
}

/// A request comes again through another node when more have come in between than a record remembers.
pub fn a_request_comes_again_later(seed: u64) -> Option<String> {
    let mut world = awake(seed, 4);
    world.call(1, add_once("c", 100, 5));
    for n in 0..12 {
        world.call(1 + n % 4, add_once("c", n, 1));
    }
    for node in 1..=4 {
        world.call(node, add_once("c", 100, 5));
    }
    expect_count(&mut world, 2, "c", 17)
}

/// A request was carried out by a node that was cut off, and then by another one that could not know.
pub fn two_attempts_meet(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    let request = |nth: u64, kind: Kind, op: Op| {
        let attributes = Attributes { request: Some(nth), ..Attributes::default() };
        Request::write(Write { attributes, ..write(&format!("{nth}"), kind, op) })
    };
    let element = Bytes::from_static(b"e");
    let requests = [
        request(1, Kind::Counter, Op::Add(5)),
        request(2, Kind::GrowingCounter, Op::Add(5)),
        request(3, Kind::Numeric, Op::Add(-5)),
        request(4, Kind::Set, Op::Insert(element.clone())),
        request(5, Kind::Siblings, Op::Put(element)),
    ];
    // It has asked the others, and is cut off before it can send them anything.
    world.sync_max = 80 * MS;
    for request in &requests {
        world.ask(NodeId(1), request.clone());
    }
    world.run(8 * MS);
    world.isolate(NodeId(1));
    world.run(SECOND);
    world.sync_max = 4 * MS;
    for request in &requests {
        if !matches!(world.call(2, request.clone()), Reply::Written(_)) {
            return None;
        }
    }
    world.cut.clear();
    world.run(5 * SECOND);
    for node in 1..=3 {
        let counts = [("1", 5), ("2", 5), ("3", -5)];
        let wrong = counts.into_iter().find_map(|(name, n)| expect_count(&mut world, node, name, n));
        if wrong.is_some() {
            return wrong;
        }
        for (name, wanted) in [("4", 1), ("5", 1)] {
            let found = match world.call(node, read(name)) {
                Reply::Found(found) => found.map(|record| record.body),
                other => return Some(format!("{other:?}")),
            };
            let n = match found {
                Some(Body::Set(set)) => set.elements().len(),
                Some(Body::Siblings(siblings)) => siblings.values().len(),
                _ => 0,
            };
            if n != wanted {
                return Some(format!("{name} at {node} has {n} values"));
            }
        }
    }
    (!world.differences().is_empty()).then(|| "replicas differ".into())
}

/// A client claims to have seen a write that node 1 never made; then every node writes the key again, and node 1 starts again.
pub fn a_forged_context(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.call(1, Request::write(put("k", "first")));
    let Reply::Found(Some(seen)) = world.call(2, read("k")) else { return Some("it was written".to_owned()) };
    let actor = seen.header.dot.actor;
    for counter in [u64::MAX, 1 << 62, seen.header.dot.counter + 1_000_000] {
        let mut context = seen.context.clone();
        context.join(&Context::of_dot(Dot { actor, counter }));
        let attributes = Attributes { context: Some(context.clone()), ..Attributes::default() };
        let believes = Write { attributes, ..put("k", "forged") };
        let conditional = Write { expect: Some(context), ..put("k", "forged") };
        for (node, forged) in [(2, believes.clone()), (1, believes), (3, conditional)] {
            let reply = world.call(node, Request::write(forged));
            if reply != Reply::Refused(Code::UnknownContext) {
                return Some(format!("{counter} is believed: {reply:?}"));
            }
        }
    }
    let context = Some(seen.context.clone());
    let honest = Write { attributes: Attributes { context, ..Attributes::default() }, ..put("k", "second") };
    for node in [3, 1, 2] {
        let reply = world.call(node, Request::write(honest.clone()));
        if !matches!(reply, Reply::Written(_)) {
            return Some(format!("what was seen is not believed at {node}: {reply:?}"));
        }
    }
    world.crash(NodeId(1));
    world.start(NodeId(1));
    world.run(SECOND);
    world.call(1, Request::write(put("k", "third")));
    expect(&mut world, 2, "k", Some("third"))
}

/// A record that a node of 0.1.0 kept: it claims a write of node 1 that never was.
pub fn a_poisoned_record(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    world.call(1, Request::write(put("k", "first")));
    let Reply::Found(Some(record)) = world.call(1, read("k")) else {
        return Some("it was written".to_owned());
    };
    let mut poisoned = *record;
    let actor = world.actor(NodeId(1));
    poisoned.context.join(&Context::of_dot(Dot { actor, counter: u64::MAX }));
    poisoned.header.stamp = poisoned.header.stamp.next();
    for node in [1, 2, 3] {
        let frame = Frame::Store {
            id: OpId(7),
            key: key("k"),
            record: poisoned.encode(),
            reason: StoreReason::Repair,
        };
        let envelope = Envelope { epoch: world.topology.epoch, frame };
        let from = NodeId(if node == 1 { 2 } else { 1 });
        world.step(NodeId(node), Input::Received { from, envelope });
    }
    for round in ["second", "third"] {
        for node in [1, 2, 3] {
            world.call(node, Request::write(put("k", round)));
        }
        world.crash(NodeId(1));
        world.start(NodeId(1));
        world.run(SECOND);
    }
    expect(&mut world, 2, "k", Some("third"))
}
