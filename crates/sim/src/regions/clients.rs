//! Clients that hop between regions, and what they know to be true. Each has a register of its own, which it reads with
//! its session and must never see older than it wrote or saw; all write the same registers blindly, count, and add and
//! remove elements. What was acknowledged is remembered with the dot that names it.

use base::Rng;
use bytes::Bytes;
use mesh::{
    Attributes, Body, Context, Dot, Get, Key, Kind, Level, Op, Record, RegionId, Reply, Request, Session,
    Write,
};
use std::collections::{BTreeMap, BTreeSet};

pub const CLIENTS: usize = 6;
pub const COUNT: &str = "count";
pub const SET: &str = "set";
const SHARED: u64 = 3;

#[derive(Default)]
struct Client {
    session: Session,
    /// What its own register shows: this or later, or what was left open.
    at_least: u64,
    open: BTreeSet<u64>,
    last: Option<usize>,
}

enum Doing {
    Own(u64),
    Look,
    Shared(Key),
    Count(i128),
    Add(Bytes),
    Remove(Bytes),
}

struct Operation {
    client: usize,
    /// Where it was asked.
    region: RegionId,
    doing: Doing,
    done: bool,
}

/// A register that several write: the dots of acknowledged writes, where they were asked for, and what each had seen.
pub struct SharedWrite {
    pub key: Key,
    pub region: RegionId,
    pub dot: Dot,
    pub context: Context,
}

/// What was added to the counter.
#[derive(Default)]
pub struct RegionCounter {
    /// What of it counts for sure, and what may.
    pub least: i128,
    pub most: i128,
    /// All that was taken away, and all that was added, acknowledged or not.
    pub taken: i128,
    pub added: i128,
}

impl RegionCounter {
    fn add(&mut self, amount: i128, is_sure: bool) {
        self.least += if is_sure { amount } else { amount.min(0) };
        self.most += if is_sure { amount } else { amount.max(0) };
        (self.taken, self.added) = (self.taken + amount.min(0), self.added + amount.max(0));
    }
}

#[derive(Default)]
pub struct Clients {
    clients: Vec<Client>,
    operations: Vec<Operation>,
    /// By the region that was asked.
    pub counted: BTreeMap<RegionId, RegionCounter>,
    pub shared: Vec<SharedWrite>,
    /// Elements that were added, acknowledged, by their dots.
    pub added: BTreeMap<Bytes, (RegionId, Dot)>,
    /// Elements whose removal has seen their dot.
    pub removed: BTreeMap<Bytes, RegionId>,
    pub maybe_removed: BTreeSet<Bytes>,
    /// Values that were written, each once.
    n: u64,
}

pub fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn write(name: &str, kind: Kind, op: Op, attributes: Attributes) -> Request {
    Request::write(Write { key: key(name), kind, op, attributes, expect: None, w: None, sloppy: false })
}

impl Clients {
    pub fn new() -> Clients {
        let mut clients = Clients::default();
        clients.clients.resize_with(CLIENTS, Client::default);
        clients
    }

    pub fn is_busy(&self, client: usize) -> bool {
        self.clients[client].last.is_some_and(|nth| !self.operations[nth].done)
    }

    /// What a client does next in a region, and its place in the history.
    pub fn next(&mut self, rng: &mut Rng, client: usize, region: RegionId) -> (usize, Request) {
        self.n += 1;
        let (n, session) = (self.n, self.clients[client].session.clone());
        let own = format!("own{client}");
        let plain = Attributes::default();
        let (request, doing) = match rng.between(0, 12) {
            0..=2 => {
                let attributes = Attributes { after: session.latest(), ..plain };
                (write(&own, Kind::Register, Op::Put(n.to_string().into()), attributes), Doing::Own(n))
            }
            3..=5 => {
                let (level, min) = (Level::LocalQuorum, Context::default());
                let get = Get { key: key(&own), r: None, level, session, min };
                (Request::Get(Box::new(get)), Doing::Look)
            }
            6 | 7 => {
                let name = format!("shared{}", rng.between(0, SHARED));
                let op = Op::Put(n.to_string().into());
                (write(&name, Kind::Register, op, plain), Doing::Shared(key(&name)))
            }
            8 | 9 => {
                let amount = i128::from(rng.between(0, 7)) - 2;
                (write(COUNT, Kind::Counter, Op::Add(amount), plain), Doing::Count(amount))
            }
            10 => {
                let element = Bytes::from(n.to_string());
                (write(SET, Kind::Set, Op::Insert(element.clone()), plain), Doing::Add(element))
            }
            _ => {
                let known: Vec<Bytes> = self.added.keys().cloned().collect();
                let element = if known.is_empty() { Bytes::new() } else { rng.pick(&known).clone() };
                (write(SET, Kind::Set, Op::Remove(element.clone()), plain), Doing::Remove(element))
            }
        };
        self.clients[client].last = Some(self.operations.len());
        self.operations.push(Operation { client, region, doing, done: false });
        (self.operations.len() - 1, request)
    }

    /// The client waits for it no longer. True if it was still open.
    pub fn give_up(&mut self, nth: usize) -> bool {
        let under_way = !std::mem::replace(&mut self.operations[nth].done, true);
        if under_way {
            self.leave_open(nth);
        }
        under_way
    }

    /// It may have taken effect, or do so at any time.
    fn leave_open(&mut self, nth: usize) {
        let Operation { client, region, doing, .. } = &self.operations[nth];
        match doing {
            Doing::Own(n) => drop(self.clients[*client].open.insert(*n)),
            Doing::Count(amount) => self.counted.entry(*region).or_default().add(*amount, false),
            Doing::Remove(element) => drop(self.maybe_removed.insert(element.clone())),
            Doing::Look | Doing::Shared(_) | Doing::Add(_) => {}
        }
    }

    /// What a client was told; what is wrong with it, if anything is. True for an answer that says something.
    pub fn hear(&mut self, nth: usize, reply: &Reply) -> Result<bool, String> {
        if std::mem::replace(&mut self.operations[nth].done, true) {
            return Ok(false);
        }
        match reply {
            Reply::Written(record) => self.written(nth, record),
            Reply::Got(got) => return self.shown(nth, got.record.as_deref()).map(|()| true),
            _ => {
                self.leave_open(nth);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn written(&mut self, nth: usize, record: &Record) {
        let Operation { client, region, doing, .. } = &self.operations[nth];
        let (region, dot) = (*region, record.header.dot);
        match doing {
            Doing::Own(n) => {
                let client = &mut self.clients[*client];
                client.session.observe(record);
                client.at_least = *n;
            }
            Doing::Shared(key) => {
                let context = record.context.clone();
                self.shared.push(SharedWrite { key: key.clone(), region, dot, context });
            }
            Doing::Count(amount) => self.counted.entry(region).or_default().add(*amount, true),
            Doing::Add(element) => drop(self.added.insert(element.clone(), (region, dot))),
            Doing::Remove(element) => {
                let seen = |(_, dot): &(RegionId, Dot)| record.context.covers(*dot);
                if self.added.get(element).is_some_and(seen) {
                    self.removed.insert(element.clone(), region);
                } else {
                    self.maybe_removed.insert(element.clone());
                }
            }
            Doing::Look => {}
        }
    }

    fn shown(&mut self, nth: usize, record: Option<&Record>) -> Result<(), String> {
        let name = self.operations[nth].client;
        let client = &mut self.clients[name];
        let shown = record.and_then(number).unwrap_or(0);
        if shown < client.at_least && !client.open.contains(&shown) {
            return Err(format!("session: client {name} was shown {shown}, not {}", client.at_least));
        }
        record.into_iter().for_each(|record| client.session.observe(record));
        Ok(())
    }

    /// A region is gone for good, with what only it had: all clients begin new sessions.
    pub fn begin_new_sessions(&mut self) {
        for client in &mut self.clients {
            client.session = Session::default();
            client.open.extend(0..=self.n);
            client.at_least = 0;
        }
        for operation in &mut self.operations {
            operation.done |= matches!(operation.doing, Doing::Look);
        }
    }
}

fn number(record: &Record) -> Option<u64> {
    match &record.body {
        Body::Register(value) => std::str::from_utf8(value).ok()?.parse().ok(),
        _ => None,
    }
}
