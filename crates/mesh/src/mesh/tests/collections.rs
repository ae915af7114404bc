//! Collections of rows through replicas, repair, moves and regions: clients add and remove elements of sets, maps, sorted sets and
//! flags, and clear them, through any node
//! while nodes crash, are cut off, lose a disk and move. Each client has elements of its own and does one thing at a time, so
//! what a read may show of them is known: what was acknowledged last, or either where something was left open. In the end all
//! replicas hold the same elements, and the count is that of the elements.

use super::storm::nemesis;
use super::world::{MS, World, member};
use super::{SECOND, key, put, write};
use crate::collection::{self, CollectionHeader, CollectionOp, Direction, ElementEntry, ScorePaging};
use crate::context::Context;
use crate::decimal::Decimal;
use crate::mesh::{Input, Request};
use crate::mutant::Mutant;
use crate::op::Op;
use crate::record::{Kind, Record};
use crate::request::{ElementsPage, ElementsQuery, ElementsRead, Level, Reply, Write};
use crate::rows;
use crate::topology::{Epoch, MovePhase};
use base::checksum::hash64;
use base::{Code, NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::BTreeMap;

const CLIENTS: u64 = 5;
const STORM: u64 = 10 * SECOND;
const CALM: u64 = 14 * SECOND;

/// What a client knows of an element: there, gone, or either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Present,
    Absent,
    Either,
}

enum Doing {
    Change { set: String, elements: Vec<Bytes>, becomes: Known },
    Clear { set: String },
    Look { set: String, elements: Vec<Bytes> },
}

#[derive(Default)]
struct Truth {
    /// By client, set and element.
    known: BTreeMap<(u64, String), BTreeMap<Bytes, Known>>,
    violations: Vec<String>,
    n_acked: usize,
    n_read: usize,
}

/// The type of a collection, which its name says.
fn kind_of(set: &str) -> Kind {
    let kinds = [("map", Kind::Map), ("scores", Kind::SortedSet), ("flag", Kind::Flag)];
    kinds.into_iter().find(|(word, _)| set.starts_with(word)).map_or(Kind::BigSet, |(_, kind)| kind)
}

fn own(client: u64) -> String {
    let word = ["own", "map", "scores", "flag", "map"][client as usize];
    format!("{word} {client}")
}

fn all_sets() -> Vec<String> {
    let shared = ["shared", "map shared", "scores shared"].map(str::to_owned);
    (0..CLIENTS).map(own).chain(shared).collect()
}

fn score_of(element: &[u8]) -> Decimal {
    Decimal((hash64(element, 0) % 50) as i128 - 25)
}

pub fn change(set: &str, kind: Kind, ops: Vec<CollectionOp>) -> Request {
    Request::write(write(set, kind, Op::Elements(ops)))
}

fn add(set: &str, elements: &[Bytes]) -> Request {
    let each = elements.iter().cloned();
    let ops = match kind_of(set) {
        Kind::Map => {
            let field =
                |field: Bytes| CollectionOp::SetField { value: field.clone(), field, expires_ms: None };
            each.map(field).collect()
        }
        Kind::SortedSet => {
            let member = |member: Bytes| CollectionOp::SetScore { score: score_of(&member), member };
            each.map(member).collect()
        }
        Kind::Flag => vec![CollectionOp::Enable],
        _ => vec![CollectionOp::Add(elements.to_vec())],
    };
    change(set, kind_of(set), ops)
}

fn remove(set: &str, elements: &[Bytes]) -> Request {
    let op = match kind_of(set) {
        Kind::Flag => CollectionOp::Disable,
        _ => CollectionOp::Remove(elements.to_vec()),
    };
    change(set, kind_of(set), vec![op])
}

fn clear(set: &str) -> Request {
    Request::write(write(set, kind_of(set), Op::Delete))
}

pub fn ask_elements(set: &str, query: ElementsQuery) -> Request {
    Request::Elements(Box::new(ElementsRead { key: key(set), query, r: None }))
}

pub fn named(n: u64) -> Bytes {
    Bytes::from(format!("element {n:06}"))
}

pub fn elements_of(world: &mut World, node: u64, set: &str, query: ElementsQuery) -> ElementsPage {
    match world.call(node, ask_elements(set, query)) {
        Reply::Elements(page) => *page,
        other => panic!("{set} cannot be read: {other:?}"),
    }
}

/// All elements, page by page.
fn all_of(world: &mut World, node: u64, set: &str) -> Vec<Bytes> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = elements_of(world, node, set, ElementsQuery::Page { after, limit: 100 });
        let wrong = page.elements.iter().find(|entry| !is_as_written(set, entry));
        assert_eq!(wrong, None, "{set}");
        all.extend(page.elements.into_iter().map(|entry| entry.name));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

fn is_as_written(set: &str, entry: &ElementEntry) -> bool {
    match kind_of(set) {
        Kind::Map => entry.state.register() == Some(&entry.name),
        Kind::SortedSet => entry.state.score() == score_of(&entry.name),
        _ => true,
    }
}

/// All members of a sorted set in the order of their scores, page by page, and by rank.
fn in_order(world: &mut World, node: u64, set: &str, direction: Direction) -> Vec<Bytes> {
    let (from, to) = (Decimal(-100), Decimal(100));
    let mut paging = ScorePaging { from, to, direction, after: None, limit: 7 };
    let mut all = Vec::new();
    loop {
        let page = elements_of(world, node, set, ElementsQuery::Scores(paging.clone()));
        all.extend(page.elements.into_iter().map(|entry| entry.name));
        paging.after = page.next;
        if paging.after.is_none() {
            return all;
        }
    }
}

fn check_order(world: &mut World, node: u64, set: &str, all: &[Bytes]) -> bool {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|name| (score_of(name), name.clone()));
    let ranks = ElementsQuery::Ranks { from: 2, limit: 5 };
    let ranked = elements_of(world, node, set, ranks).elements.into_iter().map(|entry| entry.name);
    let is_ranked = ranked.eq(sorted.iter().skip(2).take(5).cloned());
    let up = in_order(world, node, set, Direction::Up);
    let mut down = in_order(world, node, set, Direction::Down);
    down.reverse();
    is_ranked && up == sorted && down == sorted
}

impl Truth {
    fn begin(&mut self, world: &mut World, client: u64, n: u64, nodes: &[NodeId]) -> (ReplyToken, Doing) {
        let awake: Vec<NodeId> = nodes.iter().copied().filter(|node| !world.is_paused(*node)).collect();
        let node = *world.rng.pick(if awake.is_empty() { nodes } else { &awake });
        let shared = world.rng.chance(600_000);
        let sets = all_sets();
        let set = if shared { world.rng.pick(&sets[CLIENTS as usize..]).clone() } else { own(client) };
        let is_flag = kind_of(&set) == Kind::Flag;
        let known = self.known.entry((client, set.clone())).or_default();
        let present: Vec<Bytes> = known
            .iter()
            .filter(|(_, known)| **known == Known::Present)
            .map(|(name, _)| name.clone())
            .collect();
        match world.rng.between(0, 20) {
            0..=7 => {
                let new = (0..world.rng.between(1, 4)).map(|nth| named(n * 10 + nth));
                let elements: Vec<Bytes> = if is_flag { vec![Bytes::new()] } else { new.collect() };
                let doing =
                    Doing::Change { set: set.clone(), elements: elements.clone(), becomes: Known::Present };
                (world.ask(node, add(&set, &elements)), doing)
            }
            8..=12 if !present.is_empty() => {
                let elements = vec![world.rng.pick(&present).clone()];
                let doing =
                    Doing::Change { set: set.clone(), elements: elements.clone(), becomes: Known::Absent };
                (world.ask(node, remove(&set, &elements)), doing)
            }
            13 if !shared => (world.ask(node, clear(&set)), Doing::Clear { set }),
            _ => {
                let mut elements: Vec<Bytes> = known.keys().rev().take(20).cloned().collect();
                elements.push(named(n * 10 + 9));
                let query = ElementsQuery::Named(elements.clone());
                (world.ask(node, ask_elements(&set, query)), Doing::Look { set, elements })
            }
        }
    }

    fn end(&mut self, client: u64, doing: Doing, reply: Option<Reply>) {
        let acked = matches!(reply, Some(Reply::Written(_)));
        let refused =
            matches!(reply, Some(Reply::Refused(_))) && reply != Some(Reply::Refused(Code::Timeout));
        self.n_acked += usize::from(acked);
        match doing {
            Doing::Change { set, elements, becomes } => {
                let known = self.known.entry((client, set)).or_default();
                for element in elements.into_iter().filter(|_| !refused) {
                    let known = known.entry(element).or_insert(becomes);
                    let open = *known == Known::Either || !acked;
                    *known = if open { Known::Either } else { becomes };
                }
            }
            Doing::Clear { set } if !refused => {
                let known = self.known.entry((client, set)).or_default();
                let present = known.values_mut().filter(|known| **known == Known::Present);
                present.for_each(|known| *known = if acked { Known::Absent } else { Known::Either });
            }
            Doing::Clear { .. } => {}
            Doing::Look { set, elements } => {
                let Some(Reply::Elements(page)) = reply else { return };
                self.n_read += 1;
                let known = self.known.get(&(client, set.clone())).cloned().unwrap_or_default();
                for element in elements {
                    let is_there = page.elements.iter().any(|entry| entry.name == element);
                    let wrong = match known.get(&element).copied().unwrap_or(Known::Absent) {
                        Known::Present => !is_there,
                        Known::Absent => is_there,
                        Known::Either => false,
                    };
                    if wrong {
                        self.violations.push(format!("{set} shows {element:?}: {is_there}"));
                    }
                }
            }
        }
    }

    fn judge(&mut self, world: &mut World, nodes: &[NodeId]) {
        for set in all_sets() {
            for node in [nodes[0], nodes[nodes.len() - 1]] {
                let all = all_of(world, node.0, &set);
                let count = elements_of(world, node.0, &set, ElementsQuery::Count).count;
                let n = all.len() as u64;
                if count.unwrap_or(0) != n {
                    self.violations.push(format!("{set} counts {count:?} and has {n}"));
                }
                if kind_of(&set) == Kind::SortedSet && !check_order(world, node.0, &set, &all) {
                    self.violations.push(format!("{set} is out of order"));
                }
                for ((_, _), known) in self.known.iter().filter(|((_, name), _)| *name == set) {
                    for (element, known) in known {
                        let is_there = all.contains(element);
                        if *known == Known::Present && !is_there || *known == Known::Absent && is_there {
                            self.violations.push(format!("in the end {set} has {element:?}: {is_there}"));
                        }
                    }
                }
            }
        }
    }
}

/// What a node has of a collection: what its replicas have in common, and its elements.
pub fn held(world: &World, node: NodeId, set: &str) -> Option<(CollectionHeader, Vec<Bytes>)> {
    let host = &world.hosts[&node];
    let mesh = host.mesh.as_ref().expect("it runs");
    let (key, storage) = (key(set), &mesh.replica.storage);
    let record = storage.get(&host.rows, &rows::record(&key)).0.and_then(Record::decode)?;
    let header = record.collection_header()?;
    let rows = mesh.replica.rows_in(&host.rows, &key);
    let page = collection::page(&header, &rows, None, usize::MAX);
    let visible = page.entries.into_iter().filter(|entry| entry.state.is_visible()).map(|entry| entry.name);
    Some((CollectionHeader { sweep: None, generation: 0, ..header }, visible.collect()))
}

fn drive(
    world: &mut World,
    truth: &mut Truth,
    nodes: &[NodeId],
    n: &mut u64,
    doing: &mut BTreeMap<u64, (ReplyToken, Doing)>,
) {
    for client in 0..CLIENTS {
        doing.entry(client).or_insert_with(|| {
            *n += 1;
            truth.begin(world, client, *n, nodes)
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
            truth.end(client, done, reply);
        }
    }
}

fn storm_of_sets(seed: u64) -> Truth {
    let mut world = World::new(seed, 5);
    let mut truth = Truth::default();
    world.run(2 * SECOND);
    world.loss_per_million = world.rng.between(0, 30_000);
    let (mut n, mut wiped, mut moved, mut doing) = (0, false, false, BTreeMap::new());
    while world.now < STORM {
        nemesis(&mut world, &mut wiped, &mut moved);
        world.advance_move();
        let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
        drive(&mut world, &mut truth, &nodes, &mut n, &mut doing);
    }
    doing.into_iter().for_each(|(client, (_, done))| truth.end(client, done, None));
    world.heal();
    let end = world.now + CALM;
    while world.now < end {
        world.advance_move();
        world.run(SECOND / 4);
    }
    if world.topology.is_moving() {
        truth.violations.push("the move did not end".to_owned());
    }
    let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
    truth.judge(&mut world, &nodes);
    check_equal(&mut world, &mut truth);
    truth
}

/// After all reads have repaired and all rounds were made, every replica of a set holds the same.
fn check_equal(world: &mut World, truth: &mut Truth) {
    let different = |world: &World| -> Vec<String> {
        let near = [&world.topology].into_iter();
        let far = world.remote_topologies.values();
        let placements: Vec<_> = near.chain(far).map(|topology| topology.placement()).collect();
        let mut different = Vec::new();
        for set in all_sets() {
            let partition = key(&set).partition();
            let list: Vec<NodeId> =
                placements.iter().flat_map(|placement| placement.next.of(partition, 3)).copied().collect();
            let first = held(world, list[0], &set);
            let others = list[1..].iter().filter(|node| held(world, **node, &set) != first);
            different.extend(others.map(|node| format!("{set} at {node:?}")));
        }
        different
    };
    for _ in 0..40 {
        if different(world).is_empty() {
            return;
        }
        world.run(SECOND / 2);
    }
    truth.violations.push(format!("replicas differ: {:?}", different(world)));
}

fn check(truth: &Truth, seed: u64) {
    assert!(truth.violations.is_empty(), "seed {seed}: {:?}", truth.violations);
    assert!(truth.n_acked > 0 && truth.n_read > 0, "{} writes, {} reads", truth.n_acked, truth.n_read);
}

/// A number of the environment, for runs that take longer than those of `cargo test`.
#[expect(clippy::disallowed_methods, reason = "a test may be told to take its time")]
pub fn how_many(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn elements_survive_storms() {
    for seed in 1..=how_many("MESH_SET_STORMS", 3) {
        check(&storm_of_sets(seed), seed);
    }
}

/// Three regions write to the same sets, are cut off for a while, and meet again.
fn regions_of_sets(seed: u64) -> Truth {
    let mut world = World::of_regions(seed, 3);
    let mut truth = Truth::default();
    let (mut n, mut doing) = (0, BTreeMap::new());
    let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
    let home: Vec<Vec<NodeId>> = (0..CLIENTS)
        .map(|client| nodes.iter().copied().filter(|node| node.0 / 10 == client % 3).collect())
        .collect();
    let begun = world.now;
    while world.now < begun + 8 * SECOND {
        match world.rng.between(0, 100) {
            0 => world.cut_region("r1"),
            1 => world.cut_region("here"),
            2..=5 => world.cut.clear(),
            6 => {
                let node = *world.rng.pick(&nodes);
                if world.hosts.values().all(|host| host.mesh.is_some()) {
                    world.crash(node);
                }
            }
            7..=12 => {
                let down = nodes.iter().copied().filter(|node| world.hosts[node].mesh.is_none());
                down.collect::<Vec<_>>().into_iter().for_each(|node| world.start(node));
            }
            _ => {}
        }
        // A client stays in its region: another may not have heard of what it did.
        for client in 0..CLIENTS {
            doing.entry(client).or_insert_with(|| {
                n += 1;
                truth.begin(&mut world, client, n, &home[client as usize])
            });
        }
        drive(&mut world, &mut truth, &nodes, &mut n, &mut doing);
    }
    doing.into_iter().for_each(|(client, (_, done))| truth.end(client, done, None));
    world.heal();
    world.run(12 * SECOND);
    check_equal(&mut world, &mut truth);
    truth.judge(&mut world, &nodes);
    truth
}

#[test]
fn regions_that_were_cut_apart_come_to_the_same_elements() {
    for seed in 1..=how_many("MESH_SET_STORMS", 2) {
        check(&regions_of_sets(seed), seed);
    }
}

#[test]
fn a_newcomer_is_filled_below_the_key_and_late_differences_cost_little() {
    let mut world = World::new(7, 3);
    world.run(2 * SECOND);
    for n in 0..20 {
        let elements: Vec<Bytes> = (0..100).map(|nth| named(n * 100 + nth)).collect();
        let reply = world.call(1, add("s", &elements));
        assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    }
    world.add(NodeId(4));
    let next = world.topology.begin(Epoch(2), &[member(4)], &[NodeId(3)]).unwrap();
    world.publish(next);
    for _ in 0..200 {
        world.advance_move();
        world.run(SECOND / 10);
    }
    assert!(!world.topology.is_moving(), "the move ends");
    assert!(world.topology.phase(key("s").partition()) != MovePhase::Pending);
    let (header, all) = held(&world, NodeId(4), "s").expect("it is a replica");
    assert_eq!((header.count, all.len()), (2_000, 2_000));
    assert!(held(&world, NodeId(3), "s").is_none(), "rows go with the header");
    // One replica misses one element; the others do not send it all of them again.
    world.isolate(NodeId(4));
    assert!(matches!(world.call(1, add("s", &[named(9_999)])), Reply::Written(_)));
    world.run(SECOND);
    let before = world.collection_answer_bytes;
    world.cut.clear();
    world.run(6 * SECOND);
    assert_eq!(held(&world, NodeId(4), "s").map(|(header, _)| header.count), Some(2_001));
    let spent = world.collection_answer_bytes - before;
    assert!(spent < 60_000, "{spent} bytes for one element of 2,001");
}

#[test]
fn what_a_collection_does_not_take_is_refused() {
    let mut world = World::new(3, 3);
    world.run(2 * SECOND);
    let element = [named(1)];
    assert!(matches!(world.call(1, Request::write(put("r", "v"))), Reply::Written(_)));
    assert_eq!(world.call(2, add("r", &element)), Reply::Refused(Code::WrongType));
    assert!(matches!(world.call(2, add("s", &element)), Reply::Written(_)));
    assert_eq!(world.call(3, Request::write(put("s", "v"))), Reply::Refused(Code::WrongType));
    let mut once = write("s", Kind::BigSet, Op::Elements(vec![CollectionOp::Add(element.to_vec())]));
    once.attributes.request = Some(7);
    assert_eq!(world.call(1, Request::write(once)), Reply::Refused(Code::NotForCollections));
    // A delete names no type; what was deleted is a set again with the next addition.
    assert!(matches!(
        world.call(1, Request::write(write("s", Kind::Register, Op::Delete))),
        Reply::Written(_)
    ));
    assert!(all_of(&mut world, 2, "s").is_empty());
    assert!(matches!(world.call(3, add("s", &[named(2)])), Reply::Written(_)));
    assert_eq!(all_of(&mut world, 1, "s"), [named(2)]);
}

/// A request for a decision is refused, and nothing of it stays.
fn a_decision_is_asked_for(_: u64) -> Option<String> {
    let mut world = World::new(3, 3);
    world.run(2 * SECOND);
    assert!(matches!(world.call(1, add("s", &[named(1)])), Reply::Written(_)));
    world.run(SECOND);
    let creation = Write { expect: Some(Context::default()), ..put("s", "v") };
    let created = world.call(2, Request::write(creation));
    if !matches!(created, Reply::Conflict(_) | Reply::Refused(Code::WrongType | Code::NotForCollections)) {
        return Some(format!("a creation where a collection is: {created:?}"));
    }
    let mut decided = write("s", Kind::Register, Op::Delete);
    decided.attributes.level = Level::Linearizable;
    let deleted = world.call(3, Request::write(decided));
    if !matches!(deleted, Reply::Refused(Code::WrongType | Code::NotForCollections)) {
        return Some(format!("a decided delete of a collection: {deleted:?}"));
    }
    for node in 1..=3 {
        let added = world.call(node, add("s", &[named(10 + node)]));
        if !matches!(added, Reply::Written(_)) {
            return Some(format!("an addition through {node} afterwards: {added:?}"));
        }
    }
    let deleted = world.call(1, clear("s"));
    (!matches!(deleted, Reply::Written(_))).then(|| format!("a delete afterwards: {deleted:?}"))
}

#[test]
fn a_deleted_collection_is_forgotten_with_all_its_rows() {
    let mut world = World::new(5, 3);
    world.run(2 * SECOND);
    let elements: Vec<Bytes> = (0..1_000).map(named).collect();
    assert!(matches!(world.call(1, add("s", &elements)), Reply::Written(_)));
    assert!(matches!(world.call(2, clear("s")), Reply::Written(_)));
    assert_eq!(elements_of(&mut world, 3, "s", ElementsQuery::Count).count.unwrap_or(0), 0);
    world.run(30 * SECOND);
    assert_eq!((world.leftovers(1), world.leftovers(12), world.leftovers(2)), (0, 0, 0));
}

/// What additions of one element each cost, in a set of so many: bytes of the three logs, and of frames, for one.
fn cost_of_additions(n_elements: u64) -> (usize, usize) {
    const ADDITIONS: u64 = 200;
    let mut world = World::new(1, 3);
    world.run(2 * SECOND);
    for first in (0..n_elements).step_by(1_000) {
        let elements: Vec<Bytes> = (first..n_elements.min(first + 1_000)).map(named).collect();
        assert!(matches!(world.call(1, add("s", &elements)), Reply::Written(_)));
    }
    world.run(SECOND / 2);
    (world.batch_bytes, world.store_bytes) = (0, 0);
    for n in 0..ADDITIONS {
        assert!(matches!(world.call(1, add("s", &[named(500_000 + n * 7)])), Reply::Written(_)));
    }
    (world.batch_bytes / ADDITIONS as usize, world.store_bytes / ADDITIONS as usize)
}

fn costs_the_same_among(n_elements: u64) {
    let (small, large) = (cost_of_additions(10), cost_of_additions(n_elements));
    assert!(large.0 < 2 * small.0, "bytes of logs: {} and {}", small.0, large.0);
    assert!(large.1 < 2 * small.1, "bytes of frames: {} and {}", small.1, large.1);
}

#[test]
fn an_addition_costs_as_many_bytes_in_a_large_set_as_in_a_small_one() {
    costs_the_same_among(how_many("MESH_SET_ELEMENTS", 3_000));
}

/// Which of some elements a node finds by a quorum.
fn found(world: &mut World, node: u64, elements: &[Bytes]) -> Option<Vec<Bytes>> {
    match world.call(node, ask_elements("s", ElementsQuery::Named(elements.to_vec()))) {
        Reply::Elements(page) => Some(page.elements.into_iter().map(|entry| entry.name).collect()),
        _ => None,
    }
}

/// A set that all three replicas have.
fn with_a_set(seed: u64) -> World {
    let mut world = World::with_rounds(seed, 3, std::time::Duration::from_secs(3_600));
    world.run(2 * SECOND);
    assert!(matches!(world.call(1, add("s", &[named(0)])), Reply::Written(_)));
    world.run(SECOND / 10);
    world
}

/// A removal comes to a replica that has not heard of the addition.
fn an_addition_was_missed(seed: u64) -> Option<String> {
    let mut world = with_a_set(seed);
    world.isolate(NodeId(1));
    let element = [named(1)];
    assert!(matches!(world.call(2, add("s", &element)), Reply::Written(_)));
    world.cut.clear();
    if !matches!(world.call(1, remove("s", &element)), Reply::Written(_)) {
        return None;
    }
    world.run(5 * SECOND);
    let shown = found(&mut world, 3, &element)?;
    (!shown.is_empty()).then(|| "what was removed is there".to_owned())
}

/// What a reader was shown is with one replica only, which is lost then.
fn a_reader_has_seen_it(seed: u64) -> Option<String> {
    let mut world = with_a_set(seed);
    let element = [named(1)];
    world.split(&[NodeId(1)]);
    let token = world.ask(NodeId(1), add("s", &element));
    world.run(30 * MS);
    world.replies.remove(&token);
    world.cut.clear();
    world.isolate(NodeId(3));
    let first = found(&mut world, 1, &element)?;
    world.cut.clear();
    world.isolate(NodeId(1));
    let second = found(&mut world, 2, &element)?;
    (first.len() > second.len()).then(|| "what was shown is shown no more".to_owned())
}

/// A node takes back a set that it lost from another, and stands still for a moment. Meanwhile the other loses its disk, and has
/// begun to take the set back from the third.
fn a_source_of_elements_loses_its_disk(seed: u64) -> Option<String> {
    let mut world = with_a_set(seed);
    let elements: Vec<Bytes> = (1..2_000).map(named).collect();
    for some in elements.chunks(500) {
        assert!(matches!(world.call(1, add("s", some)), Reply::Written(_)));
    }
    world.run(SECOND);
    let holds = |world: &World, node| held(world, NodeId(node), "s").map_or(0, |(_, names)| names.len());
    let run_until = |world: &mut World, wanted: &dyn Fn(&World) -> bool| {
        (0..4_000).any(|_| {
            world.run(MS / 2);
            wanted(world)
        })
    };
    world.wipe(NodeId(1));
    world.cut.extend([(NodeId(1), NodeId(3)), (NodeId(3), NodeId(1))]);
    world.start(NodeId(1));
    assert!(run_until(&mut world, &|world| (200..1_500).contains(&holds(world, 1))), "it takes the set back");
    world.pause(NodeId(1));
    world.run(10 * MS);
    world.wipe(NodeId(2));
    world.start(NodeId(2));
    assert!(run_until(&mut world, &|world| held(world, NodeId(2), "s").is_some()), "it has begun");
    assert!(holds(&world, 2) < 1_500, "it has only begun");
    world.step(NodeId(1), Input::Topology(world.topology.clone()));
    world.resume(NodeId(1));
    world.run(SECOND);
    world.cut.clear();
    world.run(8 * SECOND);
    let left = holds(&world, 3);
    (left != 2_000).then(|| format!("{left} of 2,000 elements are left"))
}

/// A replica loses its disk, and serves again when it says that it has everything.
fn a_disk_is_lost(seed: u64) -> Option<String> {
    let mut world = with_a_set(seed);
    let elements: Vec<Bytes> = (0..50).map(named).collect();
    assert!(matches!(world.call(1, add("s", &elements)), Reply::Written(_)));
    world.wipe(NodeId(2));
    world.start(NodeId(2));
    for _ in 0..40 {
        world.advance_move();
        world.run(SECOND / 5);
    }
    let held = held(&world, NodeId(2), "s").map_or(0, |(_, names)| names.len());
    (held != 50).then(|| format!("{held} of 50 elements are there"))
}

pub const SCENES: [(&str, super::Scene, Mutant); 5] = [
    ("a decision about a collection is asked for", a_decision_is_asked_for, Mutant::CollectionPromised),
    (
        "a source of elements loses its disk",
        a_source_of_elements_loses_its_disk,
        Mutant::LostCollectionClaimed,
    ),
    ("an addition was missed", an_addition_was_missed, Mutant::RemovalUnasked),
    ("a reader has seen an element", a_reader_has_seen_it, Mutant::ElementsNotRepaired),
    ("a disk with elements is lost", a_disk_is_lost, Mutant::HeaderNotCompared),
];

#[test]
fn scenes_of_sets_end_well() {
    super::end_well(&SCENES, 3);
}

#[test]
fn every_planted_bug_of_sets_shows_in_its_scene() {
    super::show(&SCENES);
}
