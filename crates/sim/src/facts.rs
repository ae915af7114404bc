//! What the answers of a history tell about single keys: sightings of versions, and writes that were
//! acknowledged. The search asks whether an operation of unknown fate, put at some revision, agrees with
//! them. Every rule here follows from the answers alone, so it never forbids a lawful placement; it only
//! spares the search from finding out much later.

use crate::history::{ModelRequest, Operation};
use crate::model::{Keys, State};
use base::Revision;
use bytes::Bytes;
use coord::reply::{Body, KeyValue, Reply};
use coord::request::Request;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Facts {
    keys: BTreeMap<Bytes, KeyFacts>,
    /// (key, value) → the revision that wrote it, where a client saw it.
    origins: BTreeMap<(Bytes, Bytes), Revision>,
}

#[derive(Default)]
struct KeyFacts {
    /// In order of the revision of the state in which they were made.
    sightings: Vec<Sighting>,
    /// Revisions of acknowledged puts, in order.
    writes: Vec<Revision>,
}

struct Sighting {
    state: Revision,
    kv: KeyValue,
    value_shown: bool,
}

/// Unknown writes that a key must still receive, up to and with a revision.
struct Demand {
    until: Revision,
    writes: i64,
}

impl Facts {
    pub fn gather(history: &[Operation]) -> Facts {
        let mut facts = Facts::default();
        for operation in history {
            if let (Some(reply), ModelRequest::Kv(request)) = (operation.reply(), &operation.request) {
                let made = operation.made_revision().is_some();
                facts.learn(request, &reply.body, reply, made);
            }
        }
        for key in facts.keys.values_mut() {
            key.sightings.sort_by_key(|sighting| sighting.state);
            key.writes.sort();
        }
        facts
    }

    fn learn(&mut self, request: &Request, body: &Body, reply: &Reply, made: bool) {
        let before = Revision(reply.revision.0 - i64::from(made));
        match (request, body) {
            (Request::Range(range), Body::Range(seen)) => {
                for kv in &seen.kvs {
                    // Inside a transaction a range sees the state before, and the transaction's own puts.
                    let current = if kv.mod_revision > before { reply.revision } else { before };
                    let state = if range.revision > Revision::ZERO { range.revision } else { current };
                    self.see(state, kv, !range.keys_only);
                }
            }
            (Request::Put(put), Body::Put(done)) => {
                self.keys.entry(put.key.clone()).or_default().writes.push(reply.revision);
                if let Some(prev) = &done.prev_kv {
                    self.see(before, prev, true);
                }
            }
            (Request::Delete(_), Body::Delete(done)) => {
                done.prev_kvs.iter().for_each(|kv| self.see(before, kv, true));
            }
            (Request::Txn(txn), Body::Txn(done)) => {
                let requests = if done.succeeded { &txn.success } else { &txn.failure };
                for (request, body) in requests.iter().zip(&done.bodies) {
                    self.learn(request, body, reply, made);
                }
            }
            // An answer of the wrong kind: the model will say so.
            _ => {}
        }
    }

    fn see(&mut self, state: Revision, kv: &KeyValue, value_shown: bool) {
        let sighting = Sighting { state, kv: kv.clone(), value_shown };
        self.keys.entry(kv.key.clone()).or_default().sightings.push(sighting);
        if value_shown {
            // A put that keeps the value shows it again at a later revision.
            let origin = self.origins.entry((kv.key.clone(), kv.value.clone())).or_insert(kv.mod_revision);
            *origin = kv.mod_revision.min(*origin);
        }
    }

    /// The revision at which a request's puts were seen to land, if any of them was ever seen.
    pub fn landed(&self, asked: &ModelRequest) -> Option<Revision> {
        match asked {
            ModelRequest::Kv(request) => self.put_landed(request),
            ModelRequest::EndLease(_) => None,
        }
    }

    fn put_landed(&self, request: &Request) -> Option<Revision> {
        match request {
            Request::Put(put) => self.origins.get(&(put.key.clone(), put.value.clone()?)).copied(),
            Request::Txn(txn) => {
                txn.success.iter().chain(&txn.failure).find_map(|request| self.put_landed(request))
            }
            Request::Range(_) | Request::Delete(_) => None,
        }
    }

    /// Whether a state agrees with what is seen of each key next. `gaps` counts the revisions in a
    /// half-open interval `(after, until]` that only operations of unknown fate can have made.
    pub fn agree(&self, state: &State, gaps: impl Fn(Revision, Revision) -> i64) -> bool {
        self.keys.iter().all(|(key, facts)| match facts.demand(key, state.keys(), state.revision()) {
            Err(Contradiction) => false,
            Ok(None) => true,
            Ok(Some(demand)) => demand.writes <= gaps(state.revision(), demand.until),
        })
    }
}

/// The state cannot lie on the way to what was seen.
struct Contradiction;

impl KeyFacts {
    fn demand(&self, key: &Bytes, keys: &Keys, now: Revision) -> Result<Option<Demand>, Contradiction> {
        let next = self.sightings.partition_point(|sighting| sighting.state < now);
        let Some(sighting) = self.sightings.get(next) else { return Ok(None) };
        let current = keys.get(key);
        let seen = &sighting.kv;
        if seen.mod_revision <= now {
            return if sighting.shows(current) { Ok(None) } else { Err(Contradiction) };
        }
        // Created by now and not deleted since, or created later: versions count the writes on the way.
        let (version, from) = if seen.create_revision <= now {
            let living = current.filter(|kv| kv.create_revision == seen.create_revision);
            (living.ok_or(Contradiction)?.version, now)
        } else {
            (0, Revision(seen.create_revision.0 - 1))
        };
        let missing = seen.version - version - self.writes_between(from, seen.mod_revision);
        if missing < 0 {
            Err(Contradiction)
        } else {
            Ok(Some(Demand { until: seen.mod_revision, writes: missing }))
        }
    }

    /// Acknowledged writes in `(after, until]`.
    fn writes_between(&self, after: Revision, until: Revision) -> i64 {
        let upto = |revision| self.writes.partition_point(|write| *write <= revision) as i64;
        (upto(until) - upto(after)).max(0)
    }
}

impl Sighting {
    fn shows(&self, current: Option<&KeyValue>) -> bool {
        current.is_some_and(|kv| {
            let same_value = !self.value_shown || kv.value == self.kv.value;
            same_value
                && kv.mod_revision == self.kv.mod_revision
                && kv.create_revision == self.kv.create_revision
                && kv.version == self.kv.version
        })
    }
}
