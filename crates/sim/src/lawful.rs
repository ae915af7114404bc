//! Random lawful histories: the model runs under a random interleaving of clients, and some of them never
//! learn what became of their requests, which may then happen much later or never.

use crate::builders::{bytes, compare, delete, one, put, range, span, txn};
use crate::history::{History, ModelRequest, Operation, Outcome, may_change};
use crate::model::{State, carry_out};
use crate::serializable::is_serializable;
use base::{LeaseId, Revision, Rng};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target};

pub struct Shape {
    pub operations: usize,
    pub clients: usize,
    pub keys: u64,
    /// Requests, in a million, whose answer is lost or that are given up.
    pub unknown: u64,
}

/// Each ends at most once.
const LEASES: i64 = 4;

enum Client {
    Idle,
    Waiting(usize),
    Answered(usize, Outcome),
}

pub fn history(seed: u64, shape: &Shape) -> History {
    let mut rng = Rng::new(seed);
    let mut history = History::new();
    let mut clients: Vec<Client> = (0..shape.clients).map(|_| Client::Idle).collect();
    let mut adrift: Vec<usize> = Vec::new();
    let mut state = State::with_leases((1..=LEASES).map(LeaseId).collect());
    let mut now = 0;
    let busy = |client: &Client| !matches!(client, Client::Idle);
    while history.len() < shape.operations || clients.iter().any(busy) {
        now += rng.between(1, 40);
        if !adrift.is_empty() && rng.chance(30_000) {
            let at = adrift.swap_remove(rng.between(0, adrift.len() as u64) as usize);
            perform(&mut state, &history[at].request, &mut rng);
        }
        let client = rng.between(0, shape.clients as u64) as usize;
        let next = match std::mem::replace(&mut clients[client], Client::Idle) {
            Client::Idle if history.len() == shape.operations => Client::Idle,
            Client::Idle => {
                let request =
                    Maker { rng: &mut rng, state: &state, keys: shape.keys, serial: history.len() }.request();
                let outcome = Outcome::Unknown;
                history.push(Operation {
                    client: client as u64,
                    invoked: now,
                    returned: None,
                    request,
                    outcome,
                });
                Client::Waiting(history.len() - 1)
            }
            Client::Waiting(at) if rng.chance(shape.unknown / 2) => {
                if may_change(&history[at].request) {
                    adrift.push(at);
                }
                Client::Idle
            }
            Client::Waiting(at) => Client::Answered(at, perform(&mut state, &history[at].request, &mut rng)),
            Client::Answered(at, outcome) => {
                if !rng.chance(shape.unknown / 2) {
                    history[at].returned = Some(now);
                    history[at].outcome = outcome;
                }
                Client::Idle
            }
        };
        clients[client] = next;
    }
    history
}

/// Carries a request out now, or, if it may be stale, on a state of the near past.
fn perform(state: &mut State, request: &ModelRequest, rng: &mut Rng) -> Outcome {
    let lag = if is_serializable(request) { rng.between(0, 6) as i64 } else { 0 };
    let member = state.at(Revision((state.revision().0 - lag).max(1))).expect("a past revision").clone();
    match carry_out(&member, request) {
        Err(code) => Outcome::Refused(code),
        Ok((after, reply)) => {
            if after.revision() > state.revision() || matches!(request, ModelRequest::EndLease(_)) {
                *state = after;
            }
            Outcome::Done(reply)
        }
    }
}

struct Maker<'a> {
    rng: &'a mut Rng,
    state: &'a State,
    keys: u64,
    serial: usize,
}

impl Maker<'_> {
    fn request(&mut self) -> ModelRequest {
        ModelRequest::Kv(match self.rng.between(0, 100) {
            0..35 => Request::Put(self.put()),
            35..65 => Request::Range(self.range()),
            65..75 => Request::Delete(self.delete()),
            75..79 => return ModelRequest::EndLease(self.lease()),
            _ => self.txn(1),
        })
    }

    fn lease(&mut self) -> LeaseId {
        LeaseId(self.rng.between(1, LEASES as u64 + 1) as i64)
    }

    fn key(&mut self) -> String {
        format!("k{}", self.rng.between(0, self.keys))
    }

    fn put(&mut self) -> Put {
        let key = self.key();
        let serial = self.serial;
        let mut put = Put { prev_kv: self.rng.chance(300_000), ..put(&key, &format!("v{serial}")) };
        if self.rng.chance(60_000) {
            put.value = None;
        }
        if self.rng.chance(300_000) {
            put.lease = Some(self.lease());
        }
        put
    }

    fn range(&mut self) -> Range {
        let keys = if self.rng.chance(600_000) { one(&self.key()) } else { span("k", "l") };
        let mut range = range(keys);
        match self.rng.between(0, 10) {
            0 => range.serializable = true,
            1 => range.count_only = true,
            2 => range.keys_only = true,
            3 => range.limit = self.rng.between(1, 4),
            4 => range.revision = Revision(self.rng.between(1, self.state.revision().0 as u64 + 3) as i64),
            _ => {}
        }
        range
    }

    fn delete(&mut self) -> Delete {
        let key = self.key();
        let keys = if self.rng.chance(800_000) { one(&key) } else { span(&key, "k3") };
        Delete { prev_kv: self.rng.chance(300_000), ..delete(keys) }
    }

    fn compare(&mut self) -> Compare {
        let key = self.key();
        let current = self.state.keys().get(&bytes(&key)).cloned();
        let near = |number: i64, rng: &mut Rng| number + rng.between(0, 2) as i64;
        let target = match self.rng.between(0, 4) {
            0 => Target::Version(near(current.map_or(0, |kv| kv.version), self.rng)),
            1 => Target::Create(current.map_or(Revision::ZERO, |kv| kv.create_revision)),
            2 => Target::Mod(current.map_or(Revision::ZERO, |kv| kv.mod_revision)),
            _ => Target::Value(current.map_or(bytes("none"), |kv| kv.value)),
        };
        let relation = *self.rng.pick(&[
            Relation::Equal,
            Relation::Equal,
            Relation::NotEqual,
            Relation::Greater,
            Relation::Less,
        ]);
        compare(&key, relation, target)
    }

    /// A put and a delete in one transaction must not meet, so the delete takes a key that no put has.
    fn txn(&mut self, depth: usize) -> Request {
        let compares = (0..self.rng.between(0, 3)).map(|_| self.compare()).collect();
        let success = self.rng.between(0, 3);
        let mut success: Vec<Request> = match success {
            0 => vec![Request::Put(self.put())],
            1 => vec![Request::Put(self.put()), Request::Range(range(span("k", "l")))],
            _ => vec![Request::Delete(self.delete())],
        };
        if depth > 0 && self.rng.chance(150_000) {
            success = vec![self.txn(depth - 1)];
        }
        let failure = if self.rng.chance(500_000) { vec![Request::Range(self.range())] } else { vec![] };
        txn(compares, success, failure)
    }
}
