//! Bounded counters through replicas, repair and regions: clients add and subtract through any node while nodes crash, frames are
//! lost or come twice, and regions are cut apart. What was subtracted is never more than what may have been added, no reader is
//! shown less than the bound, and in the end all replicas hold the same, and count what was acknowledged.

use super::collections::how_many;
use super::storm::nemesis;
use super::world::{MS, World};
use super::{SECOND, Scene, awake, key, read, write};
use crate::collection::BoundedCounter;
use crate::mesh::Request;
use crate::mutant::Mutant;
use crate::op::{Attributes, BoundedChange, BoundedOp, Op};
use crate::record::Kind;
use crate::request::{Level, Reply, Write};
use base::{Code, NodeId, ReplyToken};
use std::collections::BTreeMap;

const NAME: &str = "stock";
const CLIENTS: u64 = 5;
const BOUND: i64 = -7;

fn op_of(change: BoundedChange, bound: Option<i64>) -> Write {
    write(NAME, Kind::BoundedCounter, Op::Bounded(BoundedOp { change, bound }))
}

fn of(change: BoundedChange) -> Request {
    Request::write(op_of(change, None))
}

fn deletes() -> Request {
    Request::write(write(NAME, Kind::Register, Op::Delete))
}

fn counter(reply: &Reply) -> Option<BoundedCounter> {
    match reply {
        Reply::Written(record) | Reply::Found(Some(record)) => record.bounded().cloned(),
        _ => None,
    }
}

fn value(reply: &Reply) -> Option<i128> {
    counter(reply).map(|counter| counter.value())
}

/// A scene in which a call of a node must leave this value.
fn must_leave(world: &mut World, node: u64, change: BoundedChange, right: i128) -> Option<String> {
    let reply = world.call(node, of(change));
    (value(&reply) != Some(right)).then(|| format!("{change:?} at {node}: {reply:?}, not {right}"))
}

fn must_refuse(world: &mut World, node: u64, change: BoundedChange, code: Code) -> Option<String> {
    let reply = world.call(node, of(change));
    (reply != Reply::Refused(code)).then(|| format!("{change:?} at {node}: {reply:?}, not {code:?}"))
}

/// The first thing that goes wrong.
fn all(world: &mut World, steps: &[(u64, BoundedChange, Result<i128, Code>)]) -> Option<String> {
    steps.iter().find_map(|(node, change, right)| match right {
        Ok(right) => must_leave(world, *node, *change, *right),
        Err(code) => must_refuse(world, *node, *change, *code),
    })
}

/// Any node of a region subtracts what another one has added.
fn rights_move_within_a_region(seed: u64) -> Option<String> {
    let mut world = awake(seed, 5);
    all(
        &mut world,
        &[
            (1, BoundedChange::Add(100), Ok(100)),
            (2, BoundedChange::Subtract(30), Ok(70)),
            (3, BoundedChange::Subtract(60), Ok(10)),
            (4, BoundedChange::Subtract(11), Err(Code::BelowBound)),
            (5, BoundedChange::Subtract(10), Ok(0)),
            (1, BoundedChange::Subtract(1), Err(Code::BelowBound)),
            (1, BoundedChange::Reserve(0), Ok(0)),
        ],
    )
}

/// Two regions subtract from the same counter while they cannot hear each other.
fn regions_that_are_cut_apart_stay_above_the_bound(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    let wrong = all(&mut world, &[(1, BoundedChange::Add(100), Ok(100))]);
    if wrong.is_some() {
        return wrong;
    }
    world.run(2 * SECOND);
    let wrong = all(&mut world, &[(11, BoundedChange::Reserve(40), Ok(100))]);
    if wrong.is_some() {
        return wrong;
    }
    world.run(2 * SECOND);
    world.cut_region("r1");
    let mut taken = 0;
    for round in 0..40 {
        let node = if round % 2 == 0 { 1 + round % 3 } else { 11 + round % 3 };
        let reply = world.call(node, of(BoundedChange::Subtract(5)));
        taken += i128::from(matches!(reply, Reply::Written(_))) * 5;
    }
    if !(90..=100).contains(&taken) {
        return Some(format!("{taken} of 100 were taken"));
    }
    world.heal();
    world.run(8 * SECOND);
    let right = 100 - taken;
    [1, 2, 13].into_iter().find_map(|node| {
        let shown = value(&world.call(node, read(NAME)));
        (shown != Some(right)).then(|| format!("{node} shows {shown:?}, not {right}"))
    })
}

/// A counter is deleted in one region while another one subtracts from it.
fn a_deleted_counter_begins_again(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    world.call(1, Request::write(op_of(BoundedChange::Add(100), Some(BOUND))));
    world.run(2 * SECOND);
    world.call(11, of(BoundedChange::Reserve(50)));
    world.run(SECOND);
    world.cut_region("r1");
    let (deleted, taken) = (world.call(1, deletes()), world.call(11, of(BoundedChange::Subtract(20))));
    if !matches!((&deleted, &taken), (Reply::Written(_), Reply::Written(_))) {
        return Some(format!("{deleted:?}, {taken:?}"));
    }
    if let Some(wrong) = must_refuse(&mut world, 2, BoundedChange::Subtract(1), Code::BelowBound) {
        return Some(wrong);
    }
    let wrong = must_leave(&mut world, 3, BoundedChange::Add(4), 4);
    world.heal();
    world.run(8 * SECOND);
    let wrong = wrong.or_else(|| must_leave(&mut world, 12, BoundedChange::Subtract(3), 1));
    world.run(2 * SECOND);
    wrong.or_else(|| must_leave(&mut world, 2, BoundedChange::Add(1), 2))
}

/// The counter is on its way to the node that is asked: it must not begin it with another bound.
fn a_bound_that_is_elsewhere(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    for node in [1, 3] {
        // What creates the first one asks all nodes whether they know them.
        let op = Op::Bounded(BoundedOp { change: BoundedChange::Add(1), bound: None });
        world.call(node, Request::write(write("first", Kind::BoundedCounter, op)));
    }
    world.isolate(NodeId(3));
    let created = world.call(1, Request::write(op_of(BoundedChange::Add(3), Some(BOUND))));
    if !matches!(created, Reply::Written(_)) {
        return Some(format!("{created:?}"));
    }
    world.cut.clear();
    let reply = world.call(3, of(BoundedChange::Add(1)));
    let shown = counter(&reply).map(|counter| (counter.bound(), counter.value()));
    let right = (BOUND, i128::from(BOUND) + 4);
    (shown != Some(right)).then(|| format!("{shown:?}, not {right:?}"))
}

pub const SCENES: [(&str, Scene, Mutant); 5] = [
    ("rights move within a region", rights_move_within_a_region, Mutant::WantsUnheard),
    (
        "regions that are cut apart stay above the bound",
        regions_that_are_cut_apart_stay_above_the_bound,
        Mutant::RightsUnchecked,
    ),
    ("a deleted counter begins again", a_deleted_counter_begins_again, Mutant::RightsOutliveDelete),
    ("a bound that is elsewhere", a_bound_that_is_elsewhere, Mutant::BoundUnasked),
    (
        "what was given is not the giver's any more",
        regions_that_are_cut_apart_stay_above_the_bound,
        Mutant::RightsGivenTwice,
    ),
];

#[test]
fn scenes_of_bounded_counters_end_well() {
    super::end_well(&SCENES, 3);
}

#[test]
fn planted_bugs_of_bounded_counters_show() {
    super::show(&SCENES);
}

#[test]
fn two_that_wait_for_each_other_do_not_wait_for_ever() {
    let mut world = awake(5, 3);
    for node in 1..=3 {
        world.call(node, of(BoundedChange::Add(4)));
    }
    world.run(SECOND);
    let tokens: Vec<ReplyToken> =
        (1..=3).map(|node| world.ask(NodeId(node), of(BoundedChange::Subtract(7)))).collect();
    world.run(6 * SECOND);
    let replies: Vec<Reply> = tokens.iter().filter_map(|token| world.replies.remove(token)).collect();
    let taken = replies.iter().filter(|reply| matches!(reply, Reply::Written(_))).count();
    assert_eq!((replies.len(), taken), (3, 1), "{replies:?}");
}

#[test]
fn a_repeated_request_takes_once_and_asks_for_nothing_else() {
    let mut world = awake(7, 3);
    world.call(1, of(BoundedChange::Add(10)));
    let request = |amount| {
        let attributes = Attributes { request: Some(77), ..Attributes::default() };
        Request::write(Write { attributes, ..op_of(BoundedChange::Subtract(amount), None) })
    };
    assert_eq!(value(&world.call(2, request(8))), Some(2));
    assert_eq!(value(&world.call(3, request(8))), Some(2), "two are left, and it was done");
    assert_eq!(world.call(1, request(7)), Reply::Refused(Code::RequestIdReused));
    assert_eq!(value(&world.call(1, read(NAME))), Some(2));
}

#[test]
fn what_a_bounded_counter_cannot_be_asked_for_is_refused() {
    let mut world = awake(9, 3);
    world.call(1, Request::write(op_of(BoundedChange::Add(10), Some(BOUND))));
    let other = Request::write(op_of(BoundedChange::Add(1), Some(BOUND + 1)));
    assert_eq!(world.call(2, other), Reply::Refused(Code::BoundDiffers));
    let decided = |op: Write| {
        let attributes = Attributes { level: Level::Linearizable, ..op.attributes };
        Request::write(Write { attributes, ..op })
    };
    let refused = Reply::Refused(Code::NotForBoundedCounters);
    assert_eq!(world.call(2, decided(op_of(BoundedChange::Add(1), None))), refused);
    assert_eq!(world.call(2, decided(write(NAME, Kind::Register, Op::Delete))), refused);
    assert_eq!(value(&world.call(1, of(BoundedChange::Add(1)))), Some(i128::from(BOUND) + 11), "it goes on");
    let put = write(NAME, Kind::Counter, Op::Add(1));
    assert_eq!(world.call(3, Request::write(put)), Reply::Refused(Code::WrongType));
    let misfit = write(NAME, Kind::BoundedCounter, Op::Add(1));
    assert_eq!(world.call(3, Request::write(misfit)), Reply::Refused(Code::WrongType));
    assert_eq!(value(&world.call(3, read(NAME))), Some(i128::from(BOUND) + 11));
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Change(BoundedChange),
    Read,
}

/// What was acknowledged, and what may have been done as well.
#[derive(Default)]
struct Truth {
    added: (i128, i128),
    taken: (i128, i128),
    n_acked: usize,
    n_taken: usize,
    violations: Vec<String>,
}

impl Truth {
    fn begin(&mut self, world: &mut World, nodes: &[NodeId]) -> (ReplyToken, Doing) {
        let awake: Vec<NodeId> = nodes.iter().copied().filter(|node| !world.is_paused(*node)).collect();
        let node = *world.rng.pick(if awake.is_empty() { nodes } else { &awake });
        let amount = world.rng.between(1, 12);
        let doing = match world.rng.between(0, 10) {
            0..=2 => Doing::Change(BoundedChange::Add(amount)),
            3..=6 => Doing::Change(BoundedChange::Subtract(amount)),
            7 => Doing::Change(BoundedChange::Reserve(amount)),
            _ => Doing::Read,
        };
        // It may be done from the moment in which it is asked for.
        if let Doing::Change(BoundedChange::Add(amount)) = doing {
            self.added.1 += i128::from(amount);
        }
        let request = match doing {
            Doing::Change(change) => of(change),
            Doing::Read => read(NAME),
        };
        (world.ask(node, request), doing)
    }

    fn end(&mut self, doing: Doing, reply: Option<Reply>) {
        let acked = matches!(reply, Some(Reply::Written(_)));
        let shown = reply.as_ref().and_then(counter);
        if let Some(shown) = shown.filter(|shown| shown.value() < i128::from(shown.bound())) {
            self.violations.push(format!("{} is below {}", shown.value(), shown.bound()));
        }
        let sure = matches!(reply, Some(Reply::Refused(Code::BelowBound | Code::RightsElsewhere)));
        self.n_acked += usize::from(acked);
        match doing {
            Doing::Change(BoundedChange::Add(amount)) if acked => self.added.0 += i128::from(amount),
            Doing::Change(BoundedChange::Subtract(amount)) if acked => {
                self.n_taken += 1;
                self.taken.0 += i128::from(amount);
                self.taken.1 += i128::from(amount);
            }
            Doing::Change(BoundedChange::Subtract(amount)) if !sure => self.taken.1 += i128::from(amount),
            _ => {}
        }
        let (most, taken) = (self.added.1, self.taken.0);
        if taken > most {
            self.violations.push(format!("{taken} were taken of {most}"));
        }
    }

    fn judge(&mut self, world: &mut World, node: u64) {
        let Some(shown) = value(&world.call(node, read(NAME))) else {
            return self.violations.push(format!("{node} shows nothing"));
        };
        let bound = i128::from(BOUND);
        let (least, most) = (self.added.0 - self.taken.1, self.added.1 - self.taken.0);
        if !(least.max(0)..=most).contains(&(shown - bound)) {
            let (least, most) = (least + bound, most + bound);
            self.violations.push(format!("{node} shows {shown}, not {least} to {most}"));
        }
    }

    fn check(&self, seed: u64) {
        assert!(self.violations.is_empty(), "seed {seed}: {:?}", self.violations);
        assert!(self.n_acked > 20 && self.n_taken > 3, "{} writes, {} taken", self.n_acked, self.n_taken);
    }
}

fn drive(
    world: &mut World,
    truth: &mut Truth,
    doing: &mut BTreeMap<u64, (ReplyToken, Doing)>,
    nodes_of: &dyn Fn(u64) -> Vec<NodeId>,
) {
    for client in 0..CLIENTS {
        doing.entry(client).or_insert_with(|| truth.begin(world, &nodes_of(client)));
    }
    let step = world.rng.between(1, 40 * MS);
    world.run(step);
    for client in 0..CLIENTS {
        let token = doing[&client].0;
        let reply = world.replies.remove(&token);
        let is_abandoned = world.asked_at.get(&token).is_some_and(|at| world.now > at + 4 * SECOND);
        if reply.is_some() || is_abandoned {
            let (_, done) = doing.remove(&client).expect("it is under way");
            truth.end(done, reply);
        }
    }
}

/// The replicas, in all regions, hold the same.
fn check_equal(world: &mut World, truth: &mut Truth) {
    let partition = key(NAME).partition();
    let differ = |world: &World| {
        let near = [&world.topology].into_iter();
        let placements: Vec<_> =
            near.chain(world.remote_topologies.values()).map(|topology| topology.placement()).collect();
        let list = placements.iter().flat_map(|placement| placement.next.of(partition, 3));
        let mut held = list.map(|node| world.records(*node, partition).get(&key(NAME)).cloned());
        let first = held.next().expect("it has a replica");
        held.any(|other| other != first)
    };
    for _ in 0..40 {
        if !differ(world) {
            return;
        }
        world.run(SECOND / 2);
    }
    truth.violations.push("replicas differ".to_owned());
}

fn create(world: &mut World, truth: &mut Truth) {
    let reply = world.call(1, Request::write(op_of(BoundedChange::Add(60), Some(BOUND))));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    truth.added = (60, 60);
}

fn storm(seed: u64) -> Truth {
    let mut world = World::new(seed, 5);
    let mut truth = Truth::default();
    world.run(2 * SECOND);
    create(&mut world, &mut truth);
    world.loss_per_million = world.rng.between(0, 30_000);
    world.repeats = seed.is_multiple_of(2);
    let (mut wiped, mut moved, mut doing) = (false, false, BTreeMap::new());
    while world.now < 12 * SECOND {
        nemesis(&mut world, &mut wiped, &mut moved);
        world.advance_move();
        let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
        drive(&mut world, &mut truth, &mut doing, &|_| nodes.clone());
    }
    doing.into_values().for_each(|(_, done)| truth.end(done, None));
    world.heal();
    let end = world.now + 14 * SECOND;
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
fn bounds_hold_in_storms() {
    for seed in 1..=how_many("MESH_BOUNDED_STORMS", 3) {
        storm(seed).check(seed);
    }
}

fn regions(seed: u64) -> Truth {
    let mut world = World::of_regions(seed, 3);
    let mut truth = Truth::default();
    let mut doing = BTreeMap::new();
    let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
    create(&mut world, &mut truth);
    world.run(SECOND);
    world.loss_per_million = world.rng.between(0, 20_000);
    let begun = world.now;
    while world.now < begun + 12 * SECOND {
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
        let home = |client: u64| nodes.iter().copied().filter(|node| node.0 / 10 == client % 3).collect();
        drive(&mut world, &mut truth, &mut doing, &home);
    }
    doing.into_values().for_each(|(_, done)| truth.end(done, None));
    world.heal();
    world.run(12 * SECOND);
    check_equal(&mut world, &mut truth);
    [nodes[0], nodes[nodes.len() - 1]].iter().for_each(|node| truth.judge(&mut world, node.0));
    truth
}

#[test]
fn bounds_hold_in_regions_that_are_cut_apart() {
    for seed in 1..=how_many("MESH_BOUNDED_STORMS", 2) {
        regions(seed).check(seed);
    }
}
