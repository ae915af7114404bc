//! Tempests: clients that hop between three regions write, count, add, remove and read while regions are cut apart for
//! long, nodes crash and lose disks, and clocks disagree; then it is calm and judgement is passed. All replicas of all
//! regions hold the same, counters are exact, no removed element is back, every write that lost against one that had
//! not seen it is in the log of conflicts, and no session was ever shown less than it had seen.

use super::world::{MS, World};
use super::{SECOND, counter_value, key, put, read, write};
use crate::actor::Dot;
use crate::context::Context;
use crate::key::Key;
use crate::mesh::Request;
use crate::op::{Attributes, Op};
use crate::record::{Body, Kind, Record};
use crate::request::{Get, Level, Reply, Write};
use crate::session::Session;
use base::{NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: usize = 5;
const TEMPEST: u64 = 16 * SECOND;
const CALM: u64 = 25 * SECOND;

#[derive(Default)]
struct Client {
    session: Session,
    /// What the client's own register may show: this or later, or what was left open.
    at_least: u64,
    open: BTreeSet<u64>,
    doing: Option<(ReplyToken, Doing)>,
}

enum Doing {
    Own(u64),
    Look,
    Shared,
    Count(i128),
    Add(Bytes),
    Remove(Bytes),
}

#[derive(Default)]
pub struct Verdict {
    pub violations: Vec<String>,
    pub n_acked: usize,
    pub n_lagging: usize,
    pub n_losers: usize,
}

#[derive(Default)]
struct Truth {
    least: i128,
    most: i128,
    /// Shared writes that were acknowledged, with what they are called.
    shared: Vec<Dot>,
    /// Elements that were added, acknowledged, by their dots.
    added: BTreeMap<Bytes, Dot>,
    /// Elements whose removal has seen their dot.
    removed: BTreeSet<Bytes>,
    maybe_removed: BTreeSet<Bytes>,
}

pub fn tempest(seed: u64) -> Verdict {
    let mut world = World::of_regions(seed, 3);
    let mut tempest =
        Tempest { clients: Vec::new(), truth: Truth::default(), verdict: Verdict::default(), n: 0 };
    tempest.clients.resize_with(CLIENTS, Client::default);
    for host in world.hosts.values_mut() {
        host.skew_ms = world.rng.between(0, 2_000) as i64 - 1_000;
    }
    world.loss_per_million = world.rng.between(0, 20_000);
    let end = world.now + TEMPEST;
    let mut wiped = false;
    while world.now < end {
        nemesis(&mut world, &mut wiped);
        (0..CLIENTS).for_each(|nth| tempest.begin(&mut world, nth));
        let step = world.rng.between(1, 40 * MS);
        world.run(step);
        (0..CLIENTS).for_each(|nth| tempest.end(&mut world, nth, false));
    }
    (0..CLIENTS).for_each(|nth| tempest.end(&mut world, nth, true));
    world.heal();
    world.run(CALM);
    tempest.judge(&mut world);
    tempest.verdict
}

fn nemesis(world: &mut World, wiped: &mut bool) {
    let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
    let node = *world.rng.pick(&nodes);
    let region = world.hosts[&node].region;
    let down = world.nodes_of(region).iter().filter(|node| world.hosts[node].mesh.is_none()).count();
    match world.rng.between(0, 200) {
        0..=2 if down == 0 => world.crash(node),
        3..=9 if world.hosts[&node].mesh.is_none() => world.start(node),
        // A region is cut off, and stays so for long.
        10..=12 => {
            let name = *world.rng.pick(&["here", "r1", "r2"]);
            world.cut_region(name);
        }
        13 => world.cut.clear(),
        14 => world.isolate(node),
        15 if !*wiped && down == 0 => {
            *wiped = true;
            world.wipe(node);
            world.start(node);
        }
        16 => world.sync_max = world.rng.between(2, 100) * MS,
        _ => {}
    }
}

struct Tempest {
    clients: Vec<Client>,
    truth: Truth,
    verdict: Verdict,
    n: u64,
}

impl Tempest {
    fn begin(&mut self, world: &mut World, nth: usize) {
        if self.clients[nth].doing.is_some() {
            return;
        }
        self.n += 1;
        let (n, client) = (self.n, &self.clients[nth]);
        let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
        let node = *world.rng.pick(&nodes);
        let own = format!("own{nth}");
        let in_session = |write: Write| {
            let attributes = Attributes { after: client.session.latest(), ..Attributes::default() };
            Request::write(Write { attributes, ..write })
        };
        let (request, doing) = match world.rng.between(0, 12) {
            0..=2 => (in_session(put(&own, &n.to_string())), Doing::Own(n)),
            3..=5 => {
                let (session, min) = (client.session.clone(), Context::default());
                let get = Get { key: key(&own), r: None, level: Level::LocalQuorum, session, min };
                (Request::Get(Box::new(get)), Doing::Look)
            }
            6 | 7 => (Request::write(put(&format!("shared{}", n % 3), &n.to_string())), Doing::Shared),
            8 | 9 => (
                Request::write(write("count", Kind::Counter, Op::Add(n as i128 % 7 - 2))),
                Doing::Count(n as i128 % 7 - 2),
            ),
            10 => {
                let element = Bytes::from(n.to_string());
                (Request::write(write("set", Kind::Set, Op::Insert(element.clone()))), Doing::Add(element))
            }
            _ => {
                let known: Vec<Bytes> = self.truth.added.keys().cloned().collect();
                let element =
                    if known.is_empty() { Bytes::from_static(b"0") } else { world.rng.pick(&known).clone() };
                (Request::write(write("set", Kind::Set, Op::Remove(element.clone()))), Doing::Remove(element))
            }
        };
        self.clients[nth].doing = Some((world.ask(node, request), doing));
    }

    fn end(&mut self, world: &mut World, nth: usize, at_once: bool) {
        let Some((token, _)) = &self.clients[nth].doing else { return };
        let reply = world.replies.remove(token);
        let abandoned = world.asked_at.get(token).is_some_and(|at| world.now > at + SECOND);
        if reply.is_none() && !abandoned && !at_once {
            return;
        }
        if let Some((_, doing)) = self.clients[nth].doing.take() {
            self.took(nth, doing, reply);
        }
    }

    fn took(&mut self, nth: usize, doing: Doing, reply: Option<Reply>) {
        let client = &mut self.clients[nth];
        let refused = matches!(reply, Some(Reply::Refused(_)));
        let written = match &reply {
            Some(Reply::Written(record)) => Some((**record).clone()),
            _ => None,
        };
        self.verdict.n_acked += usize::from(written.is_some());
        self.verdict.n_lagging += usize::from(matches!(reply, Some(Reply::Lagging { .. })));
        match doing {
            Doing::Own(n) => match written {
                Some(record) => {
                    client.session.observe(&record);
                    client.at_least = n;
                }
                None if !refused => drop(client.open.insert(n)),
                None => {}
            },
            Doing::Look => {
                let Some(Reply::Got(finish_session_read)) = reply else { return };
                let shown = finish_session_read.record.as_deref().and_then(number).unwrap_or(0);
                if shown < client.at_least && !client.open.contains(&shown) {
                    let at_least = client.at_least;
                    self.verdict.violations.push(format!("session {nth} was shown {shown}, not {at_least}"));
                }
                finish_session_read.record.iter().for_each(|record| client.session.observe(record));
            }
            Doing::Shared => self.truth.shared.extend(written.map(|record| record.header.dot)),
            Doing::Count(amount) => {
                let sure = written.is_some();
                let (low, high) = (amount.min(0), amount.max(0));
                self.truth.least += if sure {
                    amount
                } else if refused {
                    0
                } else {
                    low
                };
                self.truth.most += if sure {
                    amount
                } else if refused {
                    0
                } else {
                    high
                };
            }
            Doing::Add(element) => {
                if let Some(record) = written {
                    self.truth.added.insert(element, record.header.dot);
                }
            }
            Doing::Remove(element) => {
                let seen = |record: &Record| {
                    self.truth.added.get(&element).is_some_and(|dot| record.context.covers(*dot))
                };
                match written {
                    Some(record) if seen(&record) => drop(self.truth.removed.insert(element)),
                    _ => drop(self.truth.maybe_removed.insert(element)),
                }
            }
        }
    }

    fn judge(&mut self, world: &mut World) {
        let mut complain = |complaint: String| self.verdict.violations.push(complaint);
        let differences = world.differences();
        if !differences.is_empty() {
            complain(format!("{} replicas differ, such as {:?}", differences.len(), differences[0]));
        }
        for node in [1, 12, 23] {
            let count = match world.call(node, read("count")) {
                Reply::Found(record) => record.map_or(0, |record| counter_value(&record)),
                other => return complain(format!("{other:?}")),
            };
            if count < self.truth.least || count > self.truth.most {
                complain(format!(
                    "{count} is counted at {node}, not {}..={}",
                    self.truth.least, self.truth.most
                ));
            }
        }
        if let Reply::Found(Some(record)) = world.call(21, read("set"))
            && let Body::Set(set) = &record.body
        {
            let back = self.truth.removed.iter().filter(|element| set.contains(element)).count();
            let maybe = |element: &Bytes| {
                self.truth.removed.contains(element) || self.truth.maybe_removed.contains(element)
            };
            let lost =
                self.truth.added.keys().filter(|element| !set.contains(element) && !maybe(element)).count();
            if back + lost > 0 {
                complain(format!("{back} removed elements are back and {lost} are lost"));
            }
        }
        let silent = self.truth.shared.iter().filter(|dot| !accounted(world, **dot)).count();
        if silent > 0 {
            complain(format!("{silent} of {} shared writes are lost in silence", self.truth.shared.len()));
        }
        if world.strange_rows() > 0 {
            complain("rows of an unknown kind are left".into());
        }
        let entries = world.leftovers(5);
        if entries > 0 {
            complain(format!("{entries} entries stay in the logs"));
        }
        self.verdict.n_losers = world.losers.len();
    }
}

fn number(record: &Record) -> Option<u64> {
    match &record.body {
        Body::Register(value) => std::str::from_utf8(value).ok()?.parse().ok(),
        _ => None,
    }
}

/// It shows, or was overwritten by one that had seen it, or is in the log of conflicts.
fn accounted(world: &World, dot: Dot) -> bool {
    let Some((key, _)) = world.births.get(&dot) else { return false };
    let seen = |(other, (same, context)): (&Dot, &(Key, Context))| {
        *other != dot && same == key && context.covers(dot)
    };
    let shows = || {
        let records = world.records(NodeId(1), key.partition());
        let record = records.get(key).cloned().and_then(Record::decode);
        record.is_some_and(|record| record.header.dot == dot)
    };
    world.losers.contains(&dot) || world.births.iter().any(seen) || shows()
}
