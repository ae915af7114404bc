//! Amounts in collections, lists and observed values through replicas, repair and regions: clients count fields and scores up and
//! down, append to lists and observe values through any node while nodes crash, are cut off and lose a disk. A sum lies
//! between what was acknowledged and what may have been done; every item that was acknowledged is there once, and those of
//! one client in their order; what was observed is estimated. In the end all replicas hold the same.

use super::collections::{ask_elements, change, elements_of, held, how_many, named};
use super::storm::nemesis;
use super::world::{MS, World};
use super::{SECOND, key, write};
use crate::collection::{CollectionOp, InsertPosition};
use crate::decimal::Decimal;
use crate::mesh::Request;
use crate::op::Op;
use crate::record::Kind;
use crate::request::{ElementsQuery, Reply};
use base::{Code, NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::BTreeMap;

const CLIENTS: u64 = 5;
const STORM: u64 = 10 * SECOND;
const CALM: u64 = 14 * SECOND;
const COLLECTIONS: [(&str, Kind); 4] = [
    ("fields", Kind::Map),
    ("scores", Kind::SortedSet),
    ("list", Kind::List),
    ("observed", Kind::HyperLogLog),
];

#[derive(Clone, Debug)]
enum Doing {
    Count(Kind, Bytes, i128),
    Append(u64, Bytes),
    Observe(u64),
}

/// The least and the most that a sum may be.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    least: i128,
    most: i128,
}

#[derive(Default)]
struct Truth {
    sums: BTreeMap<(Kind, Bytes), Bounds>,
    /// By client: items in the order of their acknowledgements, and those of unknown fate.
    items: BTreeMap<u64, Vec<Bytes>>,
    open_items: Vec<Bytes>,
    observed: u64,
    may_be_observed: u64,
    n_acked: usize,
    violations: Vec<String>,
}

fn request_of(doing: &Doing) -> Request {
    let (kind, op) = match doing.clone() {
        Doing::Count(kind, name, by) => (kind, CollectionOp::Increment { name, by: Decimal(by) }),
        Doing::Append(_, item) => {
            (Kind::List, CollectionOp::Insert { place: InsertPosition::Last, values: vec![item] })
        }
        Doing::Observe(n) => {
            let values = (0..50).map(|nth| named(n * 50 + nth)).collect();
            (Kind::HyperLogLog, CollectionOp::Observe(values))
        }
    };
    let (name, _) = COLLECTIONS.iter().find(|(_, other)| *other == kind).expect("it has a collection");
    change(name, kind, vec![op])
}

impl Truth {
    /// What creates a collection needs more nodes than what changes it.
    fn create(&mut self, world: &mut World, node: u64) {
        let name = named(0);
        let doings = [
            Doing::Count(Kind::Map, name.clone(), 1),
            Doing::Count(Kind::SortedSet, name, 1),
            Doing::Append(0, Bytes::from_static(b"first")),
            Doing::Observe(0),
        ];
        for doing in doings {
            let reply = world.call(node, request_of(&doing));
            assert!(matches!(reply, Reply::Written(_)), "{doing:?}: {reply:?}");
            self.end(doing, Some(reply));
        }
    }

    fn begin(&mut self, world: &mut World, client: u64, n: u64, nodes: &[NodeId]) -> (ReplyToken, Doing) {
        let awake: Vec<NodeId> = nodes.iter().copied().filter(|node| !world.is_paused(*node)).collect();
        let node = *world.rng.pick(if awake.is_empty() { nodes } else { &awake });
        let doing = match world.rng.between(0, 10) {
            nth @ 0..=5 => {
                let kind = if nth % 2 == 0 { Kind::Map } else { Kind::SortedSet };
                Doing::Count(kind, named(world.rng.between(0, 4)), world.rng.between(0, 30) as i128 - 10)
            }
            6..=8 => Doing::Append(client, Bytes::from(format!("{client} {n}"))),
            _ => Doing::Observe(n),
        };
        (world.ask(node, request_of(&doing)), doing)
    }

    fn end(&mut self, doing: Doing, reply: Option<Reply>) {
        let acked = matches!(reply, Some(Reply::Written(_)));
        let refused =
            matches!(reply, Some(Reply::Refused(_))) && reply != Some(Reply::Refused(Code::Timeout));
        self.n_acked += usize::from(acked);
        if refused {
            return;
        }
        match doing {
            Doing::Count(kind, name, by) => {
                let bounds = self.sums.entry((kind, name)).or_default();
                let (less, more) = if acked { (by, by) } else { (by.min(0), by.max(0)) };
                bounds.least += less;
                bounds.most += more;
            }
            Doing::Append(client, item) if acked => self.items.entry(client).or_default().push(item),
            Doing::Append(_, item) => self.open_items.push(item),
            Doing::Observe(_) => {
                self.observed += if acked { 50 } else { 0 };
                self.may_be_observed += 50;
            }
        }
    }

    fn judge(&mut self, world: &mut World, node: u64) {
        for ((kind, name), Bounds { least, most }) in self.sums.clone() {
            let set = if kind == Kind::Map { "fields" } else { "scores" };
            let page = elements_of(world, node, set, ElementsQuery::Named(vec![name.clone()]));
            let state = page.elements.first().map(|entry| entry.state.clone()).unwrap_or_default();
            let Decimal(sum) = if kind == Kind::Map { state.amount() } else { state.score() };
            if !(least..=most).contains(&sum) {
                self.violations.push(format!("{set} {name:?} is {sum}, not {least} to {most}"));
            }
        }
        let items = items_of(world, node);
        for (client, acked) in &self.items {
            let found: Vec<&Bytes> = items.iter().filter(|item| acked.contains(item)).collect();
            if !found.iter().copied().eq(acked.iter()) {
                self.violations.push(format!("items of {client}: {found:?}, not {acked:?}"));
            }
        }
        let known: usize = self.items.values().map(Vec::len).sum();
        let others = items.iter().filter(|item| self.open_items.contains(item)).count();
        if items.len() != known + others {
            self.violations
                .push(format!("{} items, of which {known} and {others} were appended", items.len()));
        }
        let page = elements_of(world, node, "observed", ElementsQuery::Count);
        let estimate = page.estimate.unwrap_or(0);
        if estimate * 100 < self.observed * 95 || estimate * 100 > self.may_be_observed * 105 {
            let (least, most) = (self.observed, self.may_be_observed);
            self.violations.push(format!("{estimate} values, and {least} to {most} were observed"));
        }
    }

    fn check(&self, seed: u64) {
        assert!(self.violations.is_empty(), "seed {seed}: {:?}", self.violations);
        assert!(self.n_acked > 20, "{} writes", self.n_acked);
    }
}

/// The values of a list, page by page: by position, and by rank.
fn items_of(world: &mut World, node: u64) -> Vec<Bytes> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = elements_of(world, node, "list", ElementsQuery::Page { after, limit: 20 });
        all.extend(page.elements.iter().filter_map(|entry| entry.state.register().cloned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let ranks = ElementsQuery::Ranks { from: 3, limit: 4 };
    let ranked = elements_of(world, node, "list", ranks).elements;
    let ranked: Vec<Bytes> = ranked.iter().filter_map(|entry| entry.state.register().cloned()).collect();
    let expected: Vec<Bytes> = all.iter().skip(3).take(4).cloned().collect();
    assert_eq!(ranked, expected, "an index leads to its item");
    all
}

fn drive(
    world: &mut World,
    truth: &mut Truth,
    n: &mut u64,
    doing: &mut BTreeMap<u64, (ReplyToken, Doing)>,
    nodes_of: &dyn Fn(u64) -> Vec<NodeId>,
) {
    for client in 0..CLIENTS {
        doing.entry(client).or_insert_with(|| {
            *n += 1;
            truth.begin(world, client, *n, &nodes_of(client))
        });
    }
    let step = world.rng.between(1, 40 * MS);
    world.run(step);
    for client in 0..CLIENTS {
        let token = doing[&client].0;
        let reply = world.replies.remove(&token);
        let is_abandoned = world.asked_at.get(&token).is_some_and(|at| world.now > at + SECOND);
        if reply.is_some() || is_abandoned {
            let (_, done) = doing.remove(&client).expect("it is under way");
            truth.end(done, reply);
        }
    }
}

/// The replicas of each collection, in all regions, hold the same.
fn check_equal(world: &mut World, truth: &mut Truth) {
    let differ = |world: &World| {
        let near = [&world.topology].into_iter();
        let placements: Vec<_> =
            near.chain(world.remote_topologies.values()).map(|topology| topology.placement()).collect();
        COLLECTIONS.iter().any(|(name, _)| {
            let partition = key(name).partition();
            let list = placements.iter().flat_map(|placement| placement.next.of(partition, 3));
            let mut held = list.map(|node| held(world, *node, name));
            let first = held.next().expect("it has a replica");
            held.any(|other| other != first)
        })
    };
    for _ in 0..40 {
        if !differ(world) {
            return;
        }
        world.run(SECOND / 2);
    }
    truth.violations.push("replicas differ".to_owned());
}

fn storm(seed: u64) -> Truth {
    let mut world = World::new(seed, 5);
    let mut truth = Truth::default();
    world.run(2 * SECOND);
    truth.create(&mut world, 1);
    world.loss_per_million = world.rng.between(0, 30_000);
    let (mut n, mut wiped, mut moved, mut doing) = (0, false, false, BTreeMap::new());
    while world.now < STORM {
        nemesis(&mut world, &mut wiped, &mut moved);
        world.advance_move();
        let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
        drive(&mut world, &mut truth, &mut n, &mut doing, &|_| nodes.clone());
    }
    doing.into_values().for_each(|(_, done)| truth.end(done, None));
    world.heal();
    let end = world.now + CALM;
    while world.now < end {
        world.advance_move();
        world.run(SECOND / 4);
    }
    let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
    [nodes[0], nodes[nodes.len() - 1]].iter().for_each(|node| truth.judge(&mut world, node.0));
    check_equal(&mut world, &mut truth);
    truth
}

#[test]
fn amounts_and_lists_survive_storms() {
    for seed in 1..=how_many("MESH_SET_STORMS", 3) {
        storm(seed).check(seed);
    }
}

/// Three regions write to the same collections, are cut off for a while, and meet again.
fn regions(seed: u64) -> Truth {
    let mut world = World::of_regions(seed, 3);
    let mut truth = Truth::default();
    let (mut n, mut doing) = (0, BTreeMap::new());
    let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
    truth.create(&mut world, nodes[0].0);
    let begun = world.now;
    while world.now < begun + 8 * SECOND {
        match world.rng.between(0, 100) {
            0 => world.cut_region("r1"),
            1 => world.cut_region("here"),
            2..=5 => world.cut.clear(),
            6 if world.hosts.values().all(|host| host.mesh.is_some()) => {
                let node = *world.rng.pick(&nodes);
                world.crash(node);
            }
            7..=12 => {
                let down = nodes.iter().copied().filter(|node| world.hosts[node].mesh.is_none());
                down.collect::<Vec<_>>().into_iter().for_each(|node| world.start(node));
            }
            _ => {}
        }
        // A client stays in its region: another may not have heard of what it did.
        let home = |client: u64| nodes.iter().copied().filter(|node| node.0 / 10 == client % 3).collect();
        drive(&mut world, &mut truth, &mut n, &mut doing, &home);
    }
    doing.into_values().for_each(|(_, done)| truth.end(done, None));
    world.heal();
    world.run(12 * SECOND);
    check_equal(&mut world, &mut truth);
    [nodes[0], nodes[nodes.len() - 1]].iter().for_each(|node| truth.judge(&mut world, node.0));
    truth
}

#[test]
fn regions_that_were_cut_apart_come_to_the_same_amounts_and_lists() {
    for seed in 1..=how_many("MESH_SET_STORMS", 2) {
        regions(seed).check(seed);
    }
}

#[test]
fn fields_expire_and_are_removed_behind_their_time() {
    let mut world = World::new(3, 3);
    world.run(2 * SECOND);
    let expires_ms = 1_000_000_000 + world.now / MS + 1_500;
    let field = |name: &'static str, expires_ms| CollectionOp::SetField {
        field: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(b"1"),
        expires_ms,
    };
    let ops = vec![field("kept", None), field("short", Some(expires_ms))];
    assert!(matches!(world.call(1, change("m", Kind::Map, ops)), Reply::Written(_)));
    let names = |world: &mut World, node| -> Vec<Bytes> {
        let page = elements_of(world, node, "m", ElementsQuery::Page { after: None, limit: 10 });
        page.elements.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names(&mut world, 2), ["kept", "short"]);
    world.run(3 * SECOND);
    assert_eq!(names(&mut world, 2), ["kept"]);
    for node in 1..=3 {
        let held = held(&world, NodeId(node), "m").map(|(header, names)| (header.count, names.len()));
        assert_eq!(held, Some((1, 1)), "its row is gone at {node}");
    }
}

#[test]
fn a_cleared_amount_begins_again_everywhere() {
    let mut world = World::new(4, 3);
    world.run(2 * SECOND);
    let count =
        |by| change("m", Kind::Map, vec![CollectionOp::Increment { name: named(1), by: Decimal(by) }]);
    assert!(matches!(world.call(1, count(5)), Reply::Written(_)));
    assert!(matches!(world.call(2, count(7)), Reply::Written(_)));
    assert!(matches!(world.call(3, Request::write(write("m", Kind::Map, Op::Delete))), Reply::Written(_)));
    let written = world.call(1, count(2));
    let Reply::Written(record) = written else { panic!("{written:?}") };
    assert_eq!(record.changed_elements()[0].state.amount(), Decimal(2), "the answer says the sum");
    world.run(3 * SECOND);
    for node in 1..=3 {
        let page = elements_of(&mut world, node, "m", ElementsQuery::Named(vec![named(1)]));
        assert_eq!(page.elements[0].state.amount(), Decimal(2), "at {node}");
    }
}

#[test]
fn of_two_types_the_larger_stays() {
    let mut world = World::of_regions(6, 2);
    world.run(2 * SECOND);
    let node_of = |world: &World, region: u64| {
        world.hosts.keys().find(|node| node.0 / 10 == region).expect("a region has nodes").0
    };
    let (here, there) = (node_of(&world, 0), node_of(&world, 1));
    // Each learns that the other knows what collections are.
    for n in 0..10 {
        for node in [here, there] {
            let added =
                change(&format!("other {n}"), Kind::BigSet, vec![CollectionOp::Add(vec![named(node)])]);
            assert!(matches!(world.call(node, added), Reply::Written(_)));
        }
    }
    let push = |word: &'static str| CollectionOp::Insert {
        place: InsertPosition::Last,
        values: vec![Bytes::from_static(word.as_bytes())],
    };
    world.cut_region("here");
    let field = CollectionOp::SetField { field: named(1), value: named(2), expires_ms: None };
    let first = world.ask(NodeId(here), change("k", Kind::Map, vec![field]));
    let second = world.ask(NodeId(there), change("k", Kind::List, vec![push("a")]));
    world.run(SECOND);
    for token in [first, second] {
        let reply = world.replies.remove(&token);
        assert!(matches!(reply, Some(Reply::Written(_))), "{reply:?}");
    }
    world.heal();
    world.run(8 * SECOND);
    for node in [here, there] {
        let reply = world.call(node, ask_elements("k", ElementsQuery::Page { after: None, limit: 10 }));
        let Reply::Elements(page) = reply else { panic!("{reply:?}") };
        let values: Vec<Option<&Bytes>> = page.elements.iter().map(|entry| entry.state.register()).collect();
        assert_eq!(values, [Some(&Bytes::from_static(b"a"))], "at {node}");
        let record = page.record.expect("it is there");
        assert_eq!(record.kind, Kind::List);
    }
    let refused = world.call(here, change("k", Kind::BigSet, vec![CollectionOp::Add(vec![named(1)])]));
    assert_eq!(refused, Reply::Refused(Code::WrongType), "a key has one type");
}
