//! What etcd's key-value store means, said as plainly as possible: a map, a revision, and one function.
//! A state and a request go in; the next state and the answer, or a refusal that changes nothing, come out.
//! It is written from the wire contract and must never borrow from the store that it judges. States are
//! persistent: cloning one is cheap, and every state remembers the ones before it.

use crate::history::ModelRequest;
use base::checksum::hash64;
use base::rng::mix;
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::reply::{Body, DeleteReply, KeyValue, PutReply, RangeReply, Reply, TxnReply};
use coord::request::{
    Bounds, Compare, Delete, Order, Put, Range, Relation, Request, Sort, SortTarget, Target, Txn,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub type Keys = BTreeMap<Bytes, KeyValue>;

/// The store at one revision, and through it at all earlier ones.
#[derive(Clone, Debug)]
pub struct State(Arc<Moment>);

#[derive(Debug)]
struct Moment {
    revision: Revision,
    keys: Keys,
    hash: u64,
    past: Option<State>,
    leases: Arc<BTreeSet<LeaseId>>,
    /// The oldest revision that can be read; zero before the first compaction.
    floor: Revision,
}

impl State {
    /// A store to which nothing was ever written.
    pub fn empty() -> State {
        State::with_leases(BTreeSet::new())
    }

    /// The same, with these leases granted.
    pub fn with_leases(leases: BTreeSet<LeaseId>) -> State {
        State(Arc::new(Moment {
            revision: Revision::EMPTY_STORE,
            keys: Keys::new(),
            hash: 0,
            past: None,
            leases: Arc::new(leases),
            floor: Revision::ZERO,
        }))
    }

    /// The same revision with something changed that has none.
    fn beside(&self, leases: Arc<BTreeSet<LeaseId>>, floor: Revision, hash: u64) -> State {
        let Moment { revision, keys, past, .. } = &*self.0;
        let (revision, keys, past) = (*revision, keys.clone(), past.clone());
        State(Arc::new(Moment { revision, keys, hash, past, leases, floor }))
    }

    pub fn has_lease(&self, id: LeaseId) -> bool {
        self.0.leases.contains(&id)
    }

    pub fn grant(&self, id: LeaseId) -> State {
        let mut leases = (*self.0.leases).clone();
        leases.insert(id);
        self.beside(Arc::new(leases), self.0.floor, self.0.hash)
    }

    /// From now on nothing below this revision can be read.
    pub fn compact(&self, floor: Revision) -> State {
        self.beside(self.0.leases.clone(), floor, self.0.hash)
    }

    pub fn floor(&self) -> Revision {
        self.0.floor
    }

    /// A lease ends with all of its keys, in one revision if there are any.
    pub fn end(&self, id: LeaseId) -> State {
        let mut leases = (*self.0.leases).clone();
        leases.remove(&id);
        let mut draft = Draft::on(self);
        draft.hash = mix(draft.hash ^ id.0 as u64);
        let doomed: Vec<Bytes> =
            self.keys().values().filter(|kv| kv.lease == id).map(|kv| kv.key.clone()).collect();
        doomed.iter().for_each(|key| draft.write(key, None));
        let hash = draft.hash;
        draft.finish().beside(Arc::new(leases), self.0.floor, hash)
    }

    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// Covers every change since the empty store: states of equal hash answer every request alike.
    pub fn hash(&self) -> u64 {
        self.0.hash
    }

    /// The state before the last change.
    pub fn past(&self) -> Option<&State> {
        self.0.past.as_ref()
    }

    /// The state at a revision, if it lies in this one's past or present.
    pub fn at(&self, revision: Revision) -> Option<&State> {
        let mut state = self;
        while state.revision() > revision {
            state = state.0.past.as_ref()?;
        }
        (state.revision() == revision).then_some(state)
    }
}

impl Drop for Moment {
    /// Link by link: a long past would otherwise be dropped by recursion as deep as it is long.
    fn drop(&mut self) {
        let mut past = self.past.take();
        while let Some(State(moment)) = past {
            past = Arc::into_inner(moment).and_then(|mut moment| moment.past.take());
        }
    }
}

/// Carries out whatever an operation asked for.
pub fn carry_out(state: &State, asked: &ModelRequest) -> Result<(State, Reply), Code> {
    match asked {
        ModelRequest::Kv(request) => step(state, request),
        ModelRequest::EndLease(id) if state.has_lease(*id) => {
            let after = state.end(*id);
            let revision = after.revision();
            Ok((after, Reply { revision, body: Body::LeaseRevoked }))
        }
        ModelRequest::EndLease(_) => Err(Code::LeaseNotFound),
    }
}

/// Carries out one request.
pub fn step(state: &State, request: &Request) -> Result<(State, Reply), Code> {
    if let Request::Put(put) = request {
        // Inside a transaction the key is looked for first.
        check_lease(state, put)?;
    }
    check(state, request)?;
    let mut draft = Draft::on(state);
    let body = draft.run(request);
    let after = draft.finish();
    let revision = after.revision();
    Ok((after, Reply { revision, body }))
}

/// Refuses what cannot be done. A transaction is refused as a whole, on the state before any of its writes.
fn check(state: &State, request: &Request) -> Result<(), Code> {
    match request {
        Request::Range(range) if range.revision > state.revision() => Err(Code::FutureRevision),
        Request::Range(range) if range.revision > Revision::ZERO && range.revision < state.0.floor => {
            Err(Code::Compacted)
        }
        Request::Range(_) | Request::Delete(_) => Ok(()),
        Request::Put(put) => check_put(state, put),
        Request::Txn(txn) => branch(state, txn).1.iter().try_for_each(|request| check(state, request)),
    }
}

fn check_put(state: &State, put: &Put) -> Result<(), Code> {
    check_lease(state, put)?;
    let keeps_something = put.value.is_none() || put.lease.is_none();
    if keeps_something && !state.keys().contains_key(&put.key) {
        return Err(Code::KeyNotFound);
    }
    Ok(())
}

fn check_lease(state: &State, put: &Put) -> Result<(), Code> {
    match put.lease {
        None | Some(LeaseId::NONE) => Ok(()),
        Some(id) if state.has_lease(id) => Ok(()),
        Some(_) => Err(Code::LeaseNotFound),
    }
}

/// Which way a transaction goes, and what it does there.
fn branch<'a>(state: &State, txn: &'a Txn) -> (bool, &'a [Request]) {
    let succeeded = txn.compares.iter().all(|compare| holds(state, compare));
    (succeeded, if succeeded { &txn.success } else { &txn.failure })
}

fn holds(state: &State, compare: &Compare) -> bool {
    let mut found = inside(state.keys(), &compare.keys).peekable();
    if found.peek().is_none() { holds_for_nothing(compare) } else { found.all(|kv| holds_for(kv, compare)) }
}

/// A key that is not there compares as zeros, but has no value that could be compared.
fn holds_for_nothing(compare: &Compare) -> bool {
    let zero = KeyValue {
        key: Bytes::new(),
        create_revision: Revision::ZERO,
        mod_revision: Revision::ZERO,
        version: 0,
        lease: LeaseId::NONE,
        value: Bytes::new(),
    };
    !matches!(compare.target, Target::Value(_)) && holds_for(&zero, compare)
}

fn holds_for(kv: &KeyValue, compare: &Compare) -> bool {
    let order = match &compare.target {
        Target::Version(version) => kv.version.cmp(version),
        Target::Create(revision) => kv.create_revision.cmp(revision),
        Target::Mod(revision) => kv.mod_revision.cmp(revision),
        Target::Value(value) => kv.value.cmp(value),
        Target::Lease(lease) => kv.lease.cmp(lease),
    };
    match compare.relation {
        Relation::Equal => order == Ordering::Equal,
        Relation::NotEqual => order != Ordering::Equal,
        Relation::Greater => order == Ordering::Greater,
        Relation::Less => order == Ordering::Less,
    }
}

/// Looks at every key, which is slow and cannot be wrong.
fn inside<'a>(keys: &'a Keys, range: &'a KeyRange) -> impl Iterator<Item = &'a KeyValue> {
    keys.values().filter(|kv| range.contains(&kv.key))
}

/// One request under way: the state before it, and the keys as it has left them so far.
struct Draft<'a> {
    before: &'a State,
    changed: Option<Keys>,
    hash: u64,
}

impl<'a> Draft<'a> {
    fn on(before: &'a State) -> Draft<'a> {
        Draft { before, changed: None, hash: before.hash() }
    }

    fn run(&mut self, request: &Request) -> Body {
        match request {
            Request::Range(range) => Body::Range(self.range(range)),
            Request::Put(put) => Body::Put(self.put(put)),
            Request::Delete(delete) => Body::Delete(self.delete(delete)),
            Request::Txn(txn) => Body::Txn(self.txn(txn)),
        }
    }

    /// An effect makes one new revision; no effect leaves the state as it was.
    fn finish(self) -> State {
        match self.changed {
            None => self.before.clone(),
            Some(keys) => State(Arc::new(Moment {
                revision: self.before.revision().next(),
                keys,
                hash: self.hash,
                past: Some(self.before.clone()),
                leases: self.before.0.leases.clone(),
                floor: self.before.0.floor,
            })),
        }
    }

    fn keys(&self) -> &Keys {
        self.changed.as_ref().unwrap_or(self.before.keys())
    }

    fn write(&mut self, key: &Bytes, kv: Option<KeyValue>) {
        let written = |kv: &KeyValue| hash64(&kv.value, self.hash) ^ mix(kv.lease.0 as u64);
        self.hash = mix(hash64(key, self.hash)) ^ kv.as_ref().map_or(0, written);
        let keys = self.changed.get_or_insert_with(|| self.before.keys().clone());
        match kv {
            Some(kv) => keys.insert(key.clone(), kv),
            None => keys.remove(key),
        };
    }

    fn range(&self, range: &Range) -> RangeReply {
        let keys = match range.revision {
            asked if asked <= Revision::ZERO => self.keys(),
            asked => self.before.at(asked).map(State::keys).expect("checked to be in the past"),
        };
        let mut kvs: Vec<KeyValue> = inside(keys, &range.keys).cloned().collect();
        let count = kvs.len() as u64;
        if range.count_only {
            return RangeReply { kvs: Vec::new(), more: false, count };
        }
        kvs.retain(|kv| within(kv.mod_revision, range.mod_revisions));
        kvs.retain(|kv| within(kv.create_revision, range.create_revisions));
        let more = range.limit > 0 && kvs.len() as u64 > range.limit;
        if more && !range.is_filtered() && range.sort.is_some_and(|sort| sort.order == Order::Unspecified) {
            kvs.truncate(range.limit as usize + 1);
        }
        if let Some(sort) = range.sort {
            kvs.sort_by(|left, right| sorted(sort, left, right));
        }
        if more {
            kvs.truncate(range.limit as usize);
        }
        if range.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
        }
        RangeReply { kvs, more, count }
    }

    fn put(&mut self, put: &Put) -> PutReply {
        let revision = self.before.revision().next();
        let old = self.keys().get(&put.key).cloned();
        let new = KeyValue {
            key: put.key.clone(),
            create_revision: old.as_ref().map_or(revision, |old| old.create_revision),
            mod_revision: revision,
            version: old.as_ref().map_or(0, |old| old.version) + 1,
            lease: put.lease.or(old.as_ref().map(|old| old.lease)).unwrap_or_default(),
            value: put.value.clone().or(old.as_ref().map(|old| old.value.clone())).unwrap_or_default(),
        };
        self.write(&put.key, Some(new));
        PutReply { prev_kv: old.filter(|_| put.prev_kv) }
    }

    fn delete(&mut self, delete: &Delete) -> DeleteReply {
        let gone: Vec<KeyValue> = inside(self.keys(), &delete.keys).cloned().collect();
        for kv in &gone {
            self.write(&kv.key, None);
        }
        DeleteReply { deleted: gone.len() as u64, prev_kvs: if delete.prev_kv { gone } else { Vec::new() } }
    }

    /// Compares, also those of nested transactions, look at the state before any write.
    fn txn(&mut self, txn: &Txn) -> TxnReply {
        let (succeeded, requests) = branch(self.before, txn);
        TxnReply { succeeded, bodies: requests.iter().map(|request| self.run(request)).collect() }
    }
}

fn within(revision: Revision, bounds: Bounds) -> bool {
    let above = bounds.min <= Revision::ZERO || revision >= bounds.min;
    let below = bounds.max <= Revision::ZERO || revision <= bounds.max;
    above && below
}

/// Equal ones stay in key order, in both directions; etcd promises nothing about them.
fn sorted(sort: Sort, left: &KeyValue, right: &KeyValue) -> Ordering {
    let order = match sort.target {
        SortTarget::Key => left.key.cmp(&right.key),
        SortTarget::Version => left.version.cmp(&right.version),
        SortTarget::Create => left.create_revision.cmp(&right.create_revision),
        SortTarget::Mod => left.mod_revision.cmp(&right.mod_revision),
        SortTarget::Value => left.value.cmp(&right.value),
    };
    if sort.order == Order::Descending { order.reverse() } else { order }
}

#[cfg(test)]
mod tests;
