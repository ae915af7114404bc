//! Random histories against a model too simple to be wrong: it keeps every state there ever was, whole.

use crate::generate;
use crate::world::{World, everything};
use base::{Code, Index, LeaseId, Position, Revision, Rng, Table, Term};
use bytes::Bytes;
use coord::reply::{Body, DeleteReply, KeyValue, PutReply, RangeReply, Reply, TxnReply};
use coord::request::{Compare, Delete, Order, Put, Range, Relation, Request, SortTarget, Target, Txn};
use coord::{Change, ChangeKind, Command, Compact, Grant, Guard, Limits, Revoke, rows};
use std::cmp::Ordering;
use std::collections::BTreeMap;

type Keys = BTreeMap<Bytes, KeyValue>;

struct Model {
    /// The state at revision 1, 2, 3 …
    states: Vec<Keys>,
    leases: BTreeMap<LeaseId, Leased>,
    compacted: i64,
}

struct Leased {
    ttl: i64,
    granted: Index,
}

impl Model {
    fn new() -> Model {
        Model { states: vec![Keys::new()], leases: BTreeMap::new(), compacted: 0 }
    }

    fn command(&mut self, at: Position, command: &Command) -> Result<Reply, Code> {
        let body = match command {
            Command::LeaseGrant(Grant { id, .. }) if self.leases.contains_key(id) => {
                return Err(Code::LeaseExists);
            }
            Command::LeaseGrant(Grant { id, ttl }) => {
                self.leases.insert(*id, Leased { ttl: *ttl, granted: at.index });
                Body::LeaseGranted { id: *id, ttl: *ttl }
            }
            Command::LeaseRevoke(Revoke { id, guard }) => self.revoke(at, *id, *guard)?,
            Command::LeaseCheckpoint(_) => Body::LeaseCheckpointed,
            Command::Compact(Compact { revision, .. }) => match revision.0 {
                revision if revision <= self.compacted => return Err(Code::Compacted),
                revision if revision > self.revision() => return Err(Code::FutureRevision),
                revision => {
                    self.compacted = revision;
                    Body::Compacted
                }
            },
            other => panic!("{other:?} is a request"),
        };
        Ok(Reply { revision: Revision(self.revision()), body })
    }

    fn revoke(&mut self, at: Position, id: LeaseId, guard: Option<Guard>) -> Result<Body, Code> {
        let lease = self.leases.get(&id).ok_or(Code::LeaseNotFound)?;
        if guard.is_some_and(|guard| guard.term != at.term || guard.granted != lease.granted) {
            return Err(Code::LeaseNotFound);
        }
        self.leases.remove(&id);
        let mut after = self.newest().clone();
        after.retain(|_, kv| kv.lease != id);
        if after.len() < self.newest().len() {
            self.states.push(after);
        }
        Ok(Body::LeaseRevoked)
    }

    fn revision(&self) -> i64 {
        self.states.len() as i64
    }

    fn newest(&self) -> &Keys {
        self.states.last().expect("revision 1 is there from the start")
    }

    fn run(&mut self, request: &Request) -> Result<Reply, Code> {
        let before = self.newest().clone();
        let mut after = before.clone();
        let body = self.operate(&before, &mut after, request)?;
        let wrote =
            after.values().any(|kv| kv.mod_revision.0 > self.revision()) || after.len() < before.len();
        if wrote {
            self.states.push(after);
        }
        Ok(Reply { revision: Revision(self.revision()), body })
    }

    fn operate(&self, before: &Keys, now: &mut Keys, request: &Request) -> Result<Body, Code> {
        Ok(match request {
            Request::Range(range) => Body::Range(self.range(now, range)?),
            Request::Put(put) => Body::Put(self.put(now, put)?),
            Request::Delete(delete) => Body::Delete(remove(now, delete)),
            Request::Txn(txn) => Body::Txn(self.txn(before, now, txn)?),
        })
    }

    fn txn(&self, before: &Keys, now: &mut Keys, txn: &Txn) -> Result<TxnReply, Code> {
        let succeeded = txn.compares.iter().all(|compare| compare_holds(before, compare));
        let branch = if succeeded { &txn.success } else { &txn.failure };
        let bodies =
            branch.iter().map(|op| self.operate(before, now, op)).collect::<Result<Vec<Body>, Code>>()?;
        Ok(TxnReply { succeeded, bodies })
    }

    fn put(&self, now: &mut Keys, put: &Put) -> Result<PutReply, Code> {
        let prev = now.get(&put.key).cloned();
        self.check_lease(put)?;
        if (put.value.is_none() || put.lease.is_none()) && prev.is_none() {
            return Err(Code::KeyNotFound);
        }
        let next = Revision(self.revision() + 1);
        let mut kv = prev.clone().unwrap_or(KeyValue {
            key: put.key.clone(),
            create_revision: next,
            mod_revision: next,
            version: 0,
            lease: LeaseId::NONE,
            value: Bytes::new(),
        });
        kv.mod_revision = next;
        kv.version += 1;
        kv.lease = put.lease.unwrap_or(kv.lease);
        kv.value = put.value.clone().unwrap_or(kv.value);
        now.insert(put.key.clone(), kv);
        Ok(PutReply { prev_kv: prev.filter(|_| put.prev_kv) })
    }

    fn check_lease(&self, put: &Put) -> Result<(), Code> {
        match put.lease {
            None | Some(LeaseId::NONE) => Ok(()),
            Some(lease) if self.leases.contains_key(&lease) => Ok(()),
            Some(_) => Err(Code::LeaseNotFound),
        }
    }

    fn range(&self, now: &Keys, range: &Range) -> Result<RangeReply, Code> {
        let floor = if self.compacted == 0 { -1 } else { self.compacted };
        let state = match range.revision.0 {
            0 => now,
            revision if revision < floor => return Err(Code::Compacted),
            ..0 => now,
            revision if revision > self.revision() => return Err(Code::FutureRevision),
            revision => &self.states[revision as usize - 1],
        };
        let mut kvs: Vec<KeyValue> =
            state.values().filter(|kv| range.keys.contains(&kv.key)).cloned().collect();
        let count = kvs.len() as u64;
        if range.count_only {
            return Ok(RangeReply { kvs: Vec::new(), more: false, count });
        }
        let outside = |revision: Revision, min: Revision, max: Revision| {
            (min.0 != 0 && revision < min) || (max.0 != 0 && revision > max)
        };
        kvs.retain(|kv| {
            !outside(kv.mod_revision, range.mod_revisions.min, range.mod_revisions.max)
                && !outside(kv.create_revision, range.create_revisions.min, range.create_revisions.max)
        });
        let more = range.limit > 0 && kvs.len() as u64 > range.limit;
        if more && !range.is_filtered() && range.sort.is_some_and(|sort| sort.order == Order::Unspecified) {
            kvs.truncate(range.limit as usize + 1);
        }
        if let Some(sort) = range.sort {
            kvs.sort_by(|a, b| {
                let rising = match sort.target {
                    SortTarget::Key => a.key.cmp(&b.key),
                    SortTarget::Version => a.version.cmp(&b.version),
                    SortTarget::Create => a.create_revision.cmp(&b.create_revision),
                    SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
                    SortTarget::Value => a.value.cmp(&b.value),
                };
                if sort.order == Order::Descending { rising.reverse() } else { rising }
            });
        }
        if more {
            kvs.truncate(range.limit as usize);
        }
        if range.keys_only {
            kvs.iter_mut().for_each(|kv| {
                kv.value = Bytes::new();
                // Sorting by value reads whole versions, as in etcd.
                if !range.sort.is_some_and(|sort| sort.target == SortTarget::Value) {
                    kv.lease = LeaseId::NONE;
                }
            });
        }
        Ok(RangeReply { kvs, more, count })
    }
}

fn remove(now: &mut Keys, delete: &Delete) -> DeleteReply {
    let gone: Vec<KeyValue> = now.values().filter(|kv| delete.keys.contains(&kv.key)).cloned().collect();
    now.retain(|key, _| !delete.keys.contains(key));
    DeleteReply { deleted: gone.len() as u64, prev_kvs: if delete.prev_kv { gone } else { Vec::new() } }
}

fn compare_holds(before: &Keys, compare: &Compare) -> bool {
    let of = |kv: &KeyValue| match &compare.target {
        Target::Version(version) => kv.version.cmp(version),
        Target::Create(revision) => kv.create_revision.cmp(revision),
        Target::Mod(revision) => kv.mod_revision.cmp(revision),
        Target::Lease(lease) => kv.lease.cmp(lease),
        Target::Value(value) => kv.value.cmp(value),
    };
    let fits = |ordering: Ordering| match compare.relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::NotEqual => ordering != Ordering::Equal,
        Relation::Greater => ordering == Ordering::Greater,
        Relation::Less => ordering == Ordering::Less,
    };
    let inside: Vec<&KeyValue> = before.values().filter(|kv| compare.keys.contains(&kv.key)).collect();
    if inside.is_empty() {
        let zero = KeyValue {
            key: Bytes::new(),
            create_revision: Revision(0),
            mod_revision: Revision(0),
            version: 0,
            lease: LeaseId(0),
            value: Bytes::new(),
        };
        return !matches!(compare.target, Target::Value(_)) && fits(of(&zero));
    }
    inside.into_iter().all(|kv| fits(of(kv)))
}

/// The changes must be exactly the difference of two states of the model.
fn check_changes(changes: &[Change], before: &Keys, after: &Keys, revision: i64) {
    let mut expected = before.clone();
    for (sub, change) in changes.iter().enumerate() {
        assert_eq!((change.revision.0, change.sub), (revision, sub as u32));
        let prev = match &change.kind {
            ChangeKind::Delete => expected.remove(&change.key),
            ChangeKind::Put(record) => {
                let kv = KeyValue {
                    key: change.key.clone(),
                    create_revision: record.create,
                    mod_revision: change.revision,
                    version: record.version,
                    lease: record.lease,
                    value: record.value.clone(),
                };
                expected.insert(change.key.clone(), kv)
            }
        };
        assert_eq!(change.prev, prev.map_or(Revision::ZERO, |kv| kv.mod_revision));
    }
    assert_eq!(&expected, after);
}

#[derive(Default)]
struct Tally {
    writes: u64,
    commands: u64,
    reads: u64,
    refusals: u64,
    invalid: u64,
}

fn run_history(seed: u64, steps: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let mut world = World::new();
    // Most reloads find the index behind the log.
    world.index_every = 1 + seed as usize % 4;
    let mut model = Model::new();
    for step in 0..steps {
        world.sweep(rng.between(0, 4) as usize);
        if rng.chance(120_000) {
            run_command(&mut rng, &mut world, &mut model, tally);
        }
        let request = generate::request(&mut rng, model.revision());
        if request.validate(&Limits::default()).is_err() {
            tally.invalid += 1;
            continue;
        }
        let context = || format!("seed {seed} step {step}: {request:?}");
        let before = model.newest().clone();
        let expected = model.run(&request);
        let answer = if request.is_read_only() {
            world.state.read(&world.store, &request)
        } else {
            let (reply, changes) = world.propose(request.clone());
            check_changes(&changes, &before, model.newest(), model.revision());
            reply
        };
        assert_eq!(answer, expected, "{}", context());
        assert_eq!(world.revision(), model.revision(), "{}", context());
        match (&answer, request.is_read_only()) {
            (Err(_), _) => tally.refusals += 1,
            (Ok(_), true) => tally.reads += 1,
            (Ok(_), false) => tally.writes += 1,
        }
        if rng.chance(30_000) && world.applied.index.0 > 0 {
            world.reload();
        }
    }
    check_every_revision(&world, &model);
    check_swept(&mut world, &model);
    check_every_revision(&world, &model);
    check_leases(&world, &model);
}

fn run_command(rng: &mut Rng, world: &mut World, model: &mut Model, tally: &mut Tally) {
    let command = generate::command(rng, model.revision());
    let before = model.newest().clone();
    let at = Position { index: world.applied.index.next(), term: Term(3) };
    let expected = model.command(at, &command);
    let (answer, changes) = world.command(command.clone());
    assert_eq!(answer, expected, "{command:?}");
    check_changes(&changes, &before, model.newest(), model.revision());
    check_leases(world, model);
    match answer {
        Ok(_) => tally.commands += 1,
        Err(_) => tally.refusals += 1,
    }
}

fn check_leases(world: &World, model: &Model) {
    let expected: Vec<(LeaseId, i64, Vec<&[u8]>)> = model
        .leases
        .iter()
        .map(|(id, lease)| {
            let attached = model.newest().values().filter(|kv| kv.lease == *id);
            (*id, lease.ttl, attached.map(|kv| kv.key.as_ref()).collect())
        })
        .collect();
    let found: Vec<(LeaseId, i64, Vec<&[u8]>)> =
        world.state.leases().map(|(id, lease)| (id, lease.ttl, lease.keys().collect())).collect();
    assert_eq!(found, expected);
}

/// When all is swept, the store holds what can still be read, and nothing else.
fn check_swept(world: &mut World, model: &Model) {
    while world.state.is_sweeping() {
        world.sweep(7);
    }
    let mut readable: Vec<(Bytes, i64)> = (model.compacted.max(1)..=model.revision())
        .flat_map(|revision| model.states[revision as usize - 1].values())
        .map(|kv| (kv.key.clone(), kv.mod_revision.0))
        .collect();
    readable.sort();
    readable.dedup();
    let mut kept: Vec<(Bytes, i64)> = world
        .store
        .tables
        .get(&Table::Versions)
        .into_iter()
        .flat_map(|rows| rows.keys())
        .map(|row| rows::parse_version_key(row).expect("whole"))
        .map(|(key, revision)| (Bytes::copy_from_slice(key), revision.0))
        .collect();
    kept.sort();
    assert_eq!(kept, readable);
    if world.applied.index.0 > 0 {
        world.reload();
    }
}

fn check_every_revision(world: &World, model: &Model) {
    for revision in 1..=model.revision() {
        let mut range = crate::world::all_of(everything());
        range.revision = Revision(revision);
        assert_eq!(world.range(&range), model.range(model.newest(), &range), "revision {revision}");
    }
}

#[test]
fn random_histories_answer_as_the_model_does_also_after_reloading() {
    let mut tally = Tally::default();
    for seed in 0..120 {
        run_history(seed, 250, &mut tally);
    }
    assert!(tally.writes > 5_000 && tally.commands > 1_000, "too few writes to prove anything");
    assert!(tally.reads > 2_000 && tally.refusals > 500 && tally.invalid > 500);
}

#[test]
fn two_members_that_apply_the_same_log_have_the_same_hash_and_rows() {
    let (mut left, mut right) = (World::new(), World::new());
    let mut rng = Rng::new(99);
    for step in 0..400 {
        let request = generate::request(&mut rng, left.revision());
        if matches!(request, Request::Range(_)) || request.validate(&Limits::default()).is_err() {
            continue;
        }
        left.propose(request.clone()).0.ok();
        right.propose(request).0.ok();
        if step % 50 == 0 {
            right.reload();
        }
        assert_eq!(left.state.hash(), right.state.hash(), "step {step}");
    }
    assert_eq!(left.store, right.store);
}
