//! Storms: clients write, delete, count and read through any node while nodes crash, are cut off, lose a disk
//! and disagree about the time; then it is calm and judgement is passed. Each client has keys of its own and does
//! one thing at a time, so what a read may show is known: the last write that was acknowledged, or one whose fate
//! was left open. Where clocks agree, one of the latter that its client has gone on from never comes back behind the next
//! that is acknowledged. In the end all replicas hold the same, counters are exact, and no delete is undone.

use super::world::{MS, World, member};
use super::{SECOND, counter_value, key, put, read, value, write};
use crate::mesh::Request;
use crate::op::Op;
use crate::record::{Body, Kind};
use crate::request::Reply;
use crate::ring::Partition;
use crate::topology::{Epoch, MovePhase};
use base::{NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: u64 = 6;
const STORM: u64 = 12 * SECOND;
const CALM: u64 = 14 * SECOND;

/// What is known of one register: `None` is absent.
#[derive(Default)]
struct Register {
    acked: Option<String>,
    open: BTreeSet<Option<String>>,
}

#[derive(Default)]
struct Truth {
    registers: BTreeMap<String, Register>,
    /// The least and the most that a counter may be.
    counters: BTreeMap<String, (i128, i128)>,
    /// Elements that must be there, and those that may.
    sets: BTreeMap<String, (BTreeSet<Bytes>, BTreeSet<Bytes>)>,
    n_acked: usize,
    /// Clocks agree.
    strict: bool,
}

enum Doing {
    Write(String, Option<String>),
    Read(String),
    Count(String, i128),
    Insert(String, Bytes),
}

#[derive(Default)]
pub struct Verdict {
    pub violations: Vec<String>,
    pub n_acked: usize,
}

pub fn storm(seed: u64) -> Verdict {
    let mut world = World::new(seed, 5);
    let (mut truth, mut verdict) = (Truth::default(), Verdict::default());
    truth.strict = world.rng.chance(500_000);
    for host in world.hosts.values_mut().filter(|_| !truth.strict) {
        host.skew_ms = world.rng.between(0, 1_200) as i64 - 600;
    }
    if !truth.strict && world.rng.chance(300_000) {
        world.hosts.get_mut(&NodeId(2)).unwrap().skew_ms = 365 * 86_400_000;
    }
    world.run(2 * SECOND);
    world.loss_per_million = world.rng.between(0, 30_000);
    let mut doing: BTreeMap<u64, (ReplyToken, Doing)> = BTreeMap::new();
    let (mut n, mut wiped, mut moved) = (0, false, false);
    while world.now < STORM {
        nemesis(&mut world, &mut wiped, &mut moved);
        world.advance_move();
        for client in 0..CLIENTS {
            if doing.contains_key(&client) {
                continue;
            }
            n += 1;
            doing.insert(client, begin(&mut world, client, n));
        }
        let step = world.rng.between(1, 40 * MS);
        world.run(step);
        for client in 0..CLIENTS {
            if let Some((token, _)) = doing.get(&client)
                && let Some(reply) = world.replies.remove(token)
            {
                let (_, done) = doing.remove(&client).unwrap();
                truth.judge(done, Some(reply), &mut verdict);
            } else if let Some((token, _)) = doing.get(&client)
                && abandoned(&world, *token)
            {
                let (_, done) = doing.remove(&client).unwrap();
                truth.judge(done, None, &mut verdict);
            }
        }
    }
    doing.into_values().for_each(|(_, done)| truth.judge(done, None, &mut verdict));
    world.heal();
    let end = world.now + CALM;
    while world.now < end {
        world.advance_move();
        world.run(SECOND / 4);
    }
    truth.judge_the_end(&mut world, &mut verdict);
    verdict.n_acked = truth.n_acked;
    verdict
}

/// Its node died with it.
fn abandoned(world: &World, token: ReplyToken) -> bool {
    world.asked_at.get(&token).is_some_and(|at| world.now > at + SECOND)
}

fn begin(world: &mut World, client: u64, n: u64) -> (ReplyToken, Doing) {
    let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
    let awake: Vec<NodeId> = nodes.iter().copied().filter(|node| !world.is_paused(*node)).collect();
    let node = *world.rng.pick(if awake.is_empty() { &nodes } else { &awake });
    let name = format!("{client}:{}", world.rng.between(0, 3));
    let (request, doing) = match world.rng.between(0, 12) {
        0..=3 => (Request::write(put(&name, &n.to_string())), Doing::Write(name, Some(n.to_string()))),
        4 => (Request::write(write(&name, Kind::Register, Op::Delete)), Doing::Write(name, None)),
        5..=7 => (read(&name), Doing::Read(name)),
        8 | 9 => {
            let (name, amount) = (format!("count{}", n % 3), (n % 7) as i128 + 1);
            (Request::write(write(&name, Kind::Counter, Op::Add(amount))), Doing::Count(name, amount))
        }
        _ => {
            let (name, element) = (format!("set{}", n % 3), Bytes::from(n.to_string()));
            (
                Request::write(write(&name, Kind::Set, Op::Insert(element.clone()))),
                Doing::Insert(name, element),
            )
        }
    };
    (world.ask(node, request), doing)
}

pub fn nemesis(world: &mut World, wiped: &mut bool, moved: &mut bool) {
    let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
    let node = *world.rng.pick(&nodes);
    let down = world.hosts.values().filter(|host| host.mesh.is_none()).count();
    match world.rng.between(0, 260) {
        0..=3 if down < 2 && world.hosts[&node].mesh.is_some() => world.crash(node),
        4..=11 if world.hosts[&node].mesh.is_none() => world.start(node),
        12 => world.isolate(node),
        13..=16 => world.cut.clear(),
        // Power fails everywhere.
        17 => nodes.iter().for_each(|node| world.crash(*node)),
        18 | 22 | 23 if !*wiped && down == 0 && world.cut.is_empty() => {
            *wiped = true;
            if world.rng.chance(500_000) {
                nodes.iter().for_each(|node| world.crash(*node));
            }
            world.wipe(node);
            world.start(node);
        }
        19 => {
            let other = *world.rng.pick(&nodes);
            world.cut.insert((node, other));
        }
        20 if !*moved => {
            *moved = true;
            world.add(NodeId(6));
            let epoch = Epoch(world.topology.epoch.0 + 1);
            let leaving = if world.rng.chance(500_000) { vec![NodeId(1)] } else { vec![] };
            let next = world.topology.begin(epoch, &[member(6)], &leaving).unwrap();
            world.publish(next);
        }
        24..=26 if down == 0 && !nodes.iter().any(|node| world.is_paused(*node)) => world.pause(node),
        27..=34 => world.resume(node),
        21 => world.sync_max = world.rng.between(2, 200) * MS,
        _ => {}
    }
}

impl Truth {
    fn judge(&mut self, done: Doing, reply: Option<Reply>, verdict: &mut Verdict) {
        let acked = matches!(reply, Some(Reply::Written(_)));
        let refused = matches!(reply, Some(Reply::Refused(_)));
        self.n_acked += usize::from(acked);
        match done {
            Doing::Write(name, wrote) => {
                let register = self.registers.entry(name).or_default();
                if acked {
                    register.acked = wrote;
                    if self.strict {
                        register.open.clear();
                    }
                } else if !refused {
                    register.open.insert(wrote);
                }
            }
            Doing::Read(name) => {
                if let Some(Reply::Found(_)) = &reply {
                    let shown = reply.as_ref().and_then(value);
                    let register = self.registers.entry(name.clone()).or_default();
                    if shown != register.acked && !register.open.contains(&shown) {
                        let acked = &register.acked;
                        verdict.violations.push(format!("stale: {name} shows {shown:?}, not {acked:?}"));
                    }
                }
            }
            Doing::Count(name, amount) => {
                let (least, most) = self.counters.entry(name).or_default();
                *least += if acked { amount } else { 0 };
                *most += if refused { 0 } else { amount };
            }
            Doing::Insert(name, element) => {
                let (must, may) = self.sets.entry(name).or_default();
                if acked {
                    must.insert(element);
                } else if !refused {
                    may.insert(element);
                }
            }
        }
    }

    fn judge_the_end(&self, world: &mut World, verdict: &mut Verdict) {
        let mut complain = |complaint: String| verdict.violations.push(complaint);
        if world.topology.is_moving() {
            let left = Partition::all().filter(|p| world.topology.phase(*p) != MovePhase::Moved).count();
            complain(format!("the move did not end: {left} partitions are left"));
        }
        let differences = world.differences();
        if !differences.is_empty() {
            complain(format!("{} replicas differ, such as {:?}", differences.len(), differences[0]));
        }
        let node = world.topology.members()[0].node.0;
        for (name, register) in &self.registers {
            let shown = value(&world.call(node, read(name)));
            if shown != register.acked && !register.open.contains(&shown) {
                complain(format!("lost: {name} shows {shown:?}, not {:?}", register.acked));
            }
        }
        for (name, (least, most)) in &self.counters {
            let Reply::Found(found) = world.call(node, read(name)) else {
                complain(format!("{name} cannot be read"));
                continue;
            };
            let count = found.map_or(0, |record| counter_value(&record));
            if count < *least || count > *most {
                complain(format!("counted: {name} is {count}, not within {least}..={most}"));
            }
        }
        for (name, (must, may)) in &self.sets {
            let Reply::Found(found) = world.call(node, Request::Read { key: key(name), r: None }) else {
                complain(format!("{name} cannot be read"));
                continue;
            };
            let elements: BTreeSet<Bytes> = match found.map(|record| record.body) {
                Some(Body::Set(set)) => set.elements().cloned().collect(),
                _ => BTreeSet::new(),
            };
            let lacking = must.difference(&elements).count();
            let foreign =
                elements.iter().filter(|element| !must.contains(*element) && !may.contains(*element));
            let foreign = foreign.count();
            if lacking + foreign > 0 {
                complain(format!("set: {name} lacks {lacking} and has {foreign} that no client put there"));
            }
        }
    }
}
