//! The change feed in a world of nodes: a follower at one node, whose questions go the way that they go in the product.
//! Judged are the changes that a subscription is sent: each key in order, no acknowledged write missed, and going on from a
//! cursor after the follower, its node or its region is gone.

use super::collections::{change, elements_of, how_many, named};
use super::world::{MS, World, member};
use super::{SECOND, awake, put, write};
use crate::actor::RegionId;
use crate::collection::{CollectionOp, ElementEntry};
use crate::feed::{
    Change, ChangeKind, FeedAsk, FeedChange, FeedCursor, FeedOutput, FeedRange, FeedScan, Follower, ShardSet,
    Subscription, SubscriptionId, Target,
};
use crate::frame::Shard;
use crate::mesh::Request;
use crate::op::Op;
use crate::record::{Body, Kind, Record};
use crate::request::{ElementsQuery, Reply, Write};
use crate::ring::{PARTITIONS, Partition};
use crate::topology::Epoch;
use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What a subscription was sent of one key: its value, or none where it is gone.
type Told = (String, Option<String>);

/// A follower at a node, with one subscription.
struct Rig {
    node: NodeId,
    follower: Follower,
    id: SubscriptionId,
    asked: BTreeMap<ReplyToken, (NodeId, u64)>,
    sent: Vec<Told>,
    /// Of collections, what is there after all that was told.
    elements: BTreeMap<String, BTreeSet<Bytes>>,
    conflicts: usize,
    is_ready: bool,
    has_gap: bool,
    cursor: FeedCursor,
}

fn range() -> FeedRange {
    FeedRange { namespace_id: Some(0), prefix: Bytes::from_static(b"k") }
}

impl Rig {
    fn new(world: &World, node: u64, since: Option<FeedCursor>) -> Rig {
        let node = NodeId(node);
        let mut follower = Follower::new(node);
        if let Some(mesh) = &world.hosts[&node].mesh {
            follower.set_topology(mesh.topology());
        }
        let cursor = since.clone().unwrap_or_default();
        let id = follower.subscribe(Subscription { since, range: range() });
        Rig {
            node,
            follower,
            id,
            asked: BTreeMap::new(),
            sent: Vec::new(),
            elements: BTreeMap::new(),
            conflicts: 0,
            is_ready: false,
            has_gap: false,
            cursor,
        }
    }

    /// What the thin code around a follower does, every few milliseconds.
    fn turn(&mut self, world: &mut World) {
        let now = Instant(world.now);
        let topology = world.hosts[&self.node].mesh.as_ref().map(|mesh| mesh.topology().clone());
        topology.iter().for_each(|topology| self.follower.set_topology(topology));
        for (node, mut ask) in self.follower.asks(now, |_| true) {
            ask.wait_ms = ask.wait_ms.min(100);
            let token = world.ask(self.node, Request::Feed { node, ask: Box::new(ask) });
            self.asked.insert(token, (node, world.now));
        }
        let mut out = Vec::new();
        let answered: Vec<ReplyToken> =
            self.asked.keys().copied().filter(|token| world.replies.contains_key(token)).collect();
        for token in answered {
            let (node, _) = self.asked.remove(&token).unwrap();
            match world.replies.remove(&token) {
                Some(Reply::Feed(answer)) => self.follower.answered(node, *answer, &mut out),
                _ => self.follower.failed(now, node),
            }
        }
        let late = self.asked.extract_if(.., |_, (_, at)| world.now > *at + SECOND);
        late.for_each(|(_, (node, _))| self.follower.failed(now, node));
        out.into_iter().for_each(|output| self.take(output));
    }

    /// Takes the state again, as a consumer does that was sent of a gap.
    fn list_again(&mut self) {
        self.follower.unsubscribe(self.id);
        (self.is_ready, self.has_gap) = (false, false);
        self.id = self.follower.subscribe(Subscription { since: None, range: range() });
        self.sent.clear();
        self.elements.clear();
    }

    /// What a consumer makes of a change of a collection.
    fn take_elements(&mut self, kind: ChangeKind, name: String, record: &Record) {
        let elements = self.elements.entry(name).or_default();
        let count = record.collection_header().expect("it is a collection").exact_count();
        if kind == ChangeKind::FirstElements || record.header.tombstone && count == Some(0) {
            elements.clear();
        }
        for ElementEntry { name, state } in record.changed_elements() {
            if state.is_visible() {
                elements.insert(name.clone());
            } else {
                elements.remove(name);
            }
        }
    }

    fn take(&mut self, output: FeedOutput) {
        match output {
            FeedOutput::Change { to, kind, key, change, sent, .. } => {
                let is_for_me = matches!(to, Target::All) || to == Target::One(self.id);
                if !is_for_me || !self.follower.is_news(self.id, sent) || !key.name_slice().starts_with(b"k")
                {
                    return;
                }
                let name = String::from_utf8(key.name().to_vec()).unwrap();
                match *change {
                    FeedChange::Conflict(_) => self.conflicts += 1,
                    FeedChange::Record(record) if record.is_collection() => {
                        self.take_elements(kind, name, &record);
                    }
                    FeedChange::Record(record) => {
                        let value = match record.body {
                            Body::Register(value)
                                if kind == ChangeKind::Record && !record.header.tombstone =>
                            {
                                Some(String::from_utf8(value.to_vec()).unwrap())
                            }
                            Body::Counter(counter) => Some(counter.value().to_string()),
                            _ => None,
                        };
                        self.sent.push((name, value));
                    }
                }
            }
            FeedOutput::Gap(_) => self.has_gap = true,
            FeedOutput::Ready(_) => {
                self.is_ready = true;
                self.cursor = self.follower.cursor().clone();
            }
            FeedOutput::Moved if self.is_ready => self.cursor = self.follower.cursor().clone(),
            FeedOutput::Moved => {}
        }
    }

    fn run(&mut self, world: &mut World, span: u64) {
        let end = world.now + span;
        while world.now < end {
            self.turn(world);
            world.run(5 * MS);
        }
    }

    fn until(&mut self, world: &mut World, mut is_done: impl FnMut(&Rig) -> bool) {
        for _ in 0..8_000 {
            if is_done(self) {
                return;
            }
            self.turn(world);
            world.run(5 * MS);
        }
        panic!("not sent in time: {:?}", self.sent);
    }

    fn of(&self, name: &str) -> Vec<Option<&str>> {
        self.sent.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_deref()).collect()
    }
}

fn set(world: &mut World, node: u64, name: &str, value: &str) {
    let reply = world.call(node, Request::write(put(name, value)));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
}

#[test]
fn the_state_comes_first_and_then_every_change_in_its_order() {
    let mut world = awake(7, 3);
    set(&mut world, 1, "k1", "old");
    set(&mut world, 1, "other", "no");
    let mut rig = Rig::new(&world, 2, None);
    rig.until(&mut world, |rig| rig.is_ready);
    assert_eq!(rig.of("k1"), [Some("old")]);
    for n in 0..20 {
        set(&mut world, 1 + n % 3, "k1", &n.to_string());
    }
    world.call(3, Request::write(write("k1", Kind::Register, Op::Delete)));
    rig.until(&mut world, |rig| rig.of("k1").last() == Some(&None));
    let sent = rig.of("k1");
    let written: Vec<String> = (0..20).map(|n: u32| n.to_string()).collect();
    assert_eq!(sent[1..21], written.iter().map(|n| Some(n.as_str())).collect::<Vec<_>>());
    assert_eq!((sent.len(), rig.of("other").len()), (22, 0));
}

#[test]
fn the_end_of_a_record_is_told() {
    let mut world = awake(8, 3);
    let mut rig = Rig::new(&world, 1, None);
    rig.until(&mut world, |rig| rig.is_ready);
    let mut expiring = put("k1", "short");
    expiring.attributes.expires_ms = Some(1_000_000_000 + world.now / MS + 700);
    world.call(2, Request::write(expiring));
    rig.until(&mut world, |rig| rig.of("k1").last() == Some(&None));
    assert_eq!(rig.of("k1"), [Some("short"), None]);
}

#[test]
fn a_cursor_moves_and_another_node_goes_on_from_it() {
    let mut world = awake(9, 3);
    let mut rig = Rig::new(&world, 1, None);
    set(&mut world, 1, "k1", "a");
    rig.until(&mut world, |rig| rig.is_ready && !rig.of("k1").is_empty());
    let written_ms = 1_000_000_000 + world.now / MS;
    rig.until(&mut world, |rig| rig.cursor.least().ms() > written_ms);
    set(&mut world, 3, "k2", "b");
    world.crash(NodeId(1));
    let mut next = Rig::new(&world, 2, Some(rig.cursor));
    next.until(&mut world, |rig| rig.is_ready && !rig.of("k2").is_empty());
    assert!(next.of("k1").is_empty() && !next.has_gap, "what the cursor covers is not sent again");
}

#[test]
fn a_delete_that_is_forgotten_since_the_cursor_is_a_gap() {
    let mut world = awake(10, 3);
    set(&mut world, 1, "k1", "a");
    let mut rig = Rig::new(&world, 1, None);
    rig.until(&mut world, |rig| rig.is_ready && rig.cursor.least().ms() > 0);
    let cursor = rig.cursor.clone();
    world.call(1, Request::write(write("k1", Kind::Register, Op::Delete)));
    for _ in 0..60 {
        rig.run(&mut world, SECOND / 2);
    }
    assert!(world.n_purged > 0 && !rig.has_gap, "the follower that was there has been sent of it");
    let mut late = Rig::new(&world, 2, Some(cursor));
    late.until(&mut world, |rig| rig.is_ready);
    assert!(late.has_gap);
    let mut current = Rig::new(&world, 2, Some(rig.cursor));
    current.until(&mut world, |rig| rig.is_ready);
    assert!(!current.has_gap);
}

#[test]
fn another_region_goes_on_from_the_cursor_of_one_that_is_lost() {
    let mut world = World::of_regions(11, 2);
    set(&mut world, 1, "k1", "a");
    let mut rig = Rig::new(&world, 1, None);
    rig.until(&mut world, |rig| rig.is_ready);
    let regions = [RegionId::of("here"), RegionId::of("r1")];
    rig.until(&mut world, |rig| regions.iter().all(|region| rig.cursor.marks.of(*region).ms() > 0));
    let written_ms = 1_000_000_000 + world.now / MS;
    rig.until(&mut world, |rig| rig.cursor.least().ms() > written_ms);
    set(&mut world, 2, "k2", "b");
    world.run(2 * SECOND);
    world.cut_region("here");
    set(&mut world, 12, "k3", "c");
    let mut there = Rig::new(&world, 11, Some(rig.cursor));
    there.until(&mut world, |rig| rig.is_ready && !rig.of("k3").is_empty());
    assert_eq!((there.of("k2"), there.of("k1").len()), (vec![Some("b")], 0));
}

/// One client to a key writes numbers upwards, one after the other.
#[derive(Default)]
struct Writer {
    n: u64,
    acked: u64,
    doing: Option<ReplyToken>,
}

fn step_writers(world: &mut World, writers: &mut BTreeMap<String, Writer>) {
    for (name, writer) in writers {
        if let Some(token) = writer.doing {
            let late = world.asked_at[&token] + SECOND < world.now;
            match world.replies.remove(&token) {
                Some(Reply::Written(_)) => writer.acked = writer.n,
                None if !late => continue,
                _ => {}
            }
        }
        writer.n += 1;
        let node = NodeId(world.rng.between(1, 5));
        let write: Write = put(name, &writer.n.to_string());
        writer.doing = Some(world.ask(node, Request::write(write)));
    }
}

fn nemesis(world: &mut World, moved: &mut bool) {
    if !world.rng.chance(60_000) {
        return;
    }
    let node = NodeId(world.rng.between(1, 5));
    let n_down = world.hosts.values().filter(|host| host.mesh.is_none()).count();
    match world.rng.between(0, 6) {
        0 if n_down == 0 => world.crash(node),
        1 => world.isolate(node),
        2 | 3 => world.heal(),
        4 if !*moved && !world.topology.is_moving() => {
            *moved = true;
            world.add(NodeId(6));
            let epoch = Epoch(world.topology.epoch.0 + 1);
            world.topology = world.topology.begin(epoch, &[member(6)], &[]).unwrap();
        }
        _ => world.loss_per_million = world.rng.between(0, 20_000),
    }
}

/// Values of one key that a subscription was sent, checked for their order.
fn check_order(seed: u64, sent: &[Told]) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, value) in sent {
        let n: u64 = value.as_ref().unwrap().parse().unwrap();
        let before = last.insert(name, n).unwrap_or(0);
        assert!(before <= n, "seed {seed}: {name} goes back from {before} to {n}");
    }
}

/// A follower in a storm of crashes, cuts, losses and a move, which is itself replaced now and then by one at another node,
/// with the cursor of the one before.
fn storm(seed: u64) {
    let mut world = World::new(seed, 5);
    world.run(2 * SECOND);
    let mut writers: BTreeMap<String, Writer> =
        (0..8).map(|n| (format!("k{n}"), Writer::default())).collect();
    let mut moved = false;
    let mut best: BTreeMap<String, u64> = BTreeMap::new();
    let mut rig = Rig::new(&world, 1, None);
    let (mut n_replaced, mut replace_at) = (0, 3 * SECOND);
    let mut finish = |rig: &Rig| {
        check_order(seed, &rig.sent);
        for (name, value) in &rig.sent {
            let best = best.entry(name.clone()).or_default();
            *best = (*best).max(value.as_ref().unwrap().parse().unwrap());
        }
    };
    while world.now < 25 * SECOND {
        nemesis(&mut world, &mut moved);
        world.advance_move();
        step_writers(&mut world, &mut writers);
        rig.turn(&mut world);
        if rig.has_gap {
            finish(&rig);
            rig.list_again();
        }
        let step = world.rng.between(1, 20 * MS);
        world.run(step);
        if world.now > replace_at {
            replace_at = world.now + world.rng.between(SECOND, 5 * SECOND);
            finish(&rig);
            n_replaced += 1;
            let since = Some(rig.cursor.clone()).filter(|cursor| *cursor != FeedCursor::default());
            let node = world.rng.between(1, 5);
            rig = Rig::new(&world, node, since);
        }
    }
    writers.values_mut().for_each(|writer| writer.doing = None);
    world.heal();
    for _ in 0..60 {
        world.advance_move();
        rig.run(&mut world, SECOND / 4);
        if rig.has_gap {
            finish(&rig);
            rig.list_again();
        }
    }
    finish(&rig);
    assert!(n_replaced > 0, "seed {seed}");
    for (name, writer) in writers {
        let sent = best.get(&name).copied().unwrap_or(0);
        assert!(writer.acked > 20, "seed {seed}: {name} was written {} times", writer.acked);
        assert!(
            sent >= writer.acked,
            "seed {seed}: {name} was sent up to {sent}, acknowledged {}",
            writer.acked
        );
    }
}

#[test]
fn no_acknowledged_change_is_missed_and_no_key_goes_back_in_a_storm() {
    (1..=how_many("MESH_FEED_STORMS", 3)).for_each(storm);
}

fn all_elements(world: &mut World, node: u64, name: &str) -> BTreeSet<Bytes> {
    let (mut all, mut after) = (BTreeSet::new(), None);
    loop {
        let page = elements_of(world, node, name, ElementsQuery::Page { after, limit: 500 });
        all.extend(page.elements.into_iter().map(|entry| entry.name));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

#[test]
fn elements_come_in_pages_first_and_then_as_they_change() {
    let mut world = World::new(12, 3);
    world.run(2 * SECOND);
    let call = |world: &mut World, node, op| {
        let reply = world.call(node, change("k set", Kind::BigSet, vec![op]));
        assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    };
    call(&mut world, 1, CollectionOp::Add((0..1_000).map(named).collect()));
    let mut rig = Rig::new(&world, 2, None);
    rig.until(&mut world, |rig| rig.is_ready);
    assert_eq!(rig.elements["k set"], (0..1_000).map(named).collect());
    call(&mut world, 2, CollectionOp::Remove(vec![named(3), named(700)]));
    call(&mut world, 3, CollectionOp::Add(vec![named(5_000)]));
    rig.until(&mut world, |rig| rig.elements["k set"].contains(&named(5_000)));
    rig.until(&mut world, |rig| rig.elements["k set"].len() == 999);
    world.call(1, Request::write(write("k set", Kind::BigSet, Op::Delete)));
    rig.until(&mut world, |rig| rig.elements["k set"].is_empty());
    call(&mut world, 1, CollectionOp::Add(vec![named(7)]));
    rig.until(&mut world, |rig| rig.elements["k set"].len() == 1);
}

/// Everything that a node has to tell a follower that knows nothing, deletes and conflicts included, page by page.
fn scan_all(world: &mut World, node: u64) -> Vec<Change> {
    let shards: ShardSet = Partition::all().map(|partition| Shard { partition, copies: 3 }).collect();
    let ask = |world: &mut World, ask: FeedAsk| match world
        .call(node, Request::Feed { node: NodeId(node), ask: Box::new(ask) })
    {
        Reply::Feed(answer) => *answer,
        reply => panic!("{reply:?}"),
    };
    let first = ask(world, FeedAsk { shards: shards.clone(), ..FeedAsk::default() });
    let (mut told, mut next) = (Vec::new(), None);
    loop {
        let since = Some(FeedCursor::default());
        let scan = FeedScan { since, range: range(), shards: shards.clone(), next };
        let (log, from) = (first.log, first.upto);
        let answer = ask(world, FeedAsk { log, from, shards: shards.clone(), scan: Some(scan), wait_ms: 0 });
        assert!(answer.scanned, "{answer:?}");
        told.extend(answer.rows);
        next = answer.next;
        if next.is_none() {
            return told;
        }
    }
}

#[test]
fn conflicts_are_told_behind_a_page_that_ends_with_elements() {
    let mut world = World::new(12, 3);
    world.run(2 * SECOND);
    // The last partition is read with the conflicts behind it.
    let is_last = |name: &String| super::key(name).partition().idx() == PARTITIONS - 1;
    let name = (0..).map(|n| format!("k set {n}")).find(is_last).expect("some name lies there");
    let add = vec![CollectionOp::Add((0..1_000).map(named).collect())];
    let reply = world.call(1, change(&name, Kind::BigSet, add));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    world.isolate(NodeId(3));
    for (node, value) in [(1, "here"), (3, "there")] {
        world.call(node, Request::write(Write { w: Some(1), ..put("k", value) }));
    }
    world.heal();
    world.run(5 * SECOND);
    assert!(world.n_conflicts > 0);
    let conflicts = |node, world: &mut World| {
        scan_all(world, node).iter().filter(|change| change.kind == ChangeKind::Conflict).count()
    };
    let told: usize = (1..=3).map(|node| conflicts(node, &mut world)).sum();
    assert_eq!(told, world.leftovers(4), "each conflict that a node has is told");
}

/// One client adds and removes elements and clears the set, in a storm. Who applies what is told comes to what is there.
fn storm_of_elements(seed: u64) {
    let mut world = World::new(seed, 5);
    world.run(2 * SECOND);
    let reply = world.call(1, change("k set", Kind::BigSet, vec![CollectionOp::Add(vec![named(0)])]));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    let (mut moved, mut doing, mut n_written) = (false, None, 0);
    let mut rig = Rig::new(&world, 1, None);
    let mut replace_at = 3 * SECOND;
    while world.now < 25 * SECOND {
        nemesis(&mut world, &mut moved);
        world.advance_move();
        let is_done = |token: &ReplyToken| {
            world.replies.contains_key(token) || world.asked_at[token] + SECOND < world.now
        };
        if doing.as_ref().is_none_or(is_done) {
            n_written += u64::from(doing.is_some_and(|token| world.replies.contains_key(&token)));
            let elements = vec![named(world.rng.between(0, 30)), named(world.rng.between(0, 400))];
            let request = match world.rng.between(0, 40) {
                0 => Request::write(write("k set", Kind::BigSet, Op::Delete)),
                1..=15 => change("k set", Kind::BigSet, vec![CollectionOp::Remove(elements)]),
                _ => change("k set", Kind::BigSet, vec![CollectionOp::Add(elements)]),
            };
            let node = NodeId(world.rng.between(1, 5));
            doing = Some(world.ask(node, request));
        }
        rig.turn(&mut world);
        if rig.has_gap {
            rig.list_again();
        }
        let step = world.rng.between(1, 20 * MS);
        world.run(step);
        if world.now > replace_at {
            replace_at = world.now + world.rng.between(SECOND, 5 * SECOND);
            let since = Some(rig.cursor.clone()).filter(|cursor| *cursor != FeedCursor::default());
            let node = world.rng.between(1, 5);
            let elements = std::mem::take(&mut rig.elements);
            let begins = since.is_none();
            rig = Rig::new(&world, node, since);
            if !begins {
                rig.elements = elements;
            }
        }
    }
    world.heal();
    for _ in 0..60 {
        world.advance_move();
        rig.run(&mut world, SECOND / 4);
        if rig.has_gap {
            rig.list_again();
        }
    }
    assert!(n_written > 50, "seed {seed}: {n_written} writes were answered");
    let there = all_elements(&mut world, 1, "k set");
    let told = rig.elements.remove("k set").unwrap_or_default();
    let differ: Vec<&Bytes> = told.symmetric_difference(&there).collect();
    assert!(differ.is_empty(), "seed {seed}: {differ:?} of {} were told otherwise", there.len());
}

#[test]
fn who_applies_what_is_told_of_elements_has_the_same_elements_after_a_storm() {
    (1..=how_many("MESH_FEED_STORMS", 4)).for_each(storm_of_elements);
}
