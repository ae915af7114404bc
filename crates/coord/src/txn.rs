//! Carrying out requests: puts, deletes, ranges and transactions of them.
//! A request and a draft go in; the body of the answer comes out and the draft holds the writes. The first
//! refusal ends everything, and the caller drops the draft: a transaction has all of its effects or none.

use crate::alarms;
use crate::change::{ChangeKind, Record};
use crate::command::Command;
use crate::compaction;
use crate::compare;
use crate::draft::{Draft, Effect, ReadAt};
use crate::idempotent;
use crate::lease_command;
use crate::lock_command;
use crate::mutant::Mutant;
use crate::range;
use crate::reply::{Body, DeleteReply, KeyValue, PutReply, TxnReply};
use crate::request::{Delete, Put, Request, Txn};
use base::mutant::planted;
use base::{Code, FormatLevel, LeaseId, Position, Revision};
use bytes::Bytes;

/// `at` is the place of the command in the log.
pub fn run_command(draft: &mut Draft<'_>, at: Position, command: &Command) -> Result<Body, Code> {
    match command {
        Command::Put(put) => run_lone_put(draft, put),
        Command::Delete(delete) => run_delete(draft, delete).map(Body::Delete),
        Command::Txn(txn) => run_txn(draft, txn).map(Body::Txn),
        Command::LeaseGrant(grant) => lease_command::run_grant(draft, *grant),
        Command::LeaseRevoke(revoke) => lease_command::run_revoke(draft, at, *revoke),
        Command::LeaseCheckpoint(checkpoints) => Ok(lease_command::run_checkpoints(draft, checkpoints)),
        Command::Compact(compact) => compaction::run(draft, *compact),
        Command::TimeMark { millis } => {
            draft.add_effect(Effect::TimeMark { millis: *millis });
            Ok(Body::Noted)
        }
        Command::Quota(bytes) => {
            draft.add_effect(Effect::Quota(*bytes));
            Ok(Body::Noted)
        }
        Command::Alarm(alarm) => Ok(alarms::run(draft, *alarm)),
        Command::LockAcquire(acquire) => lock_command::run_acquire(draft, acquire),
        Command::LockRelease(release) => lock_command::run_release(draft, release),
        Command::LockLeave(leave) => lock_command::run_leave(draft, leave),
        Command::FenceCheck(check) => lock_command::run_check(draft, check),
        Command::Fenced(fenced) => match lock_command::fence_refusal(draft, &fenced.fence) {
            Some(refusal) => Ok(refusal),
            None => run_request(draft, &fenced.request),
        },
        Command::Members(_) | Command::Document(_) | Command::Auth(_) => {
            unreachable!("they are no part of a draft")
        }
        Command::Authed(_) => unreachable!("who asked was settled before"),
        Command::Idempotent(once) => idempotent::run(draft, at, once),
    }
}

fn run_request(draft: &mut Draft<'_>, request: &Request) -> Result<Body, Code> {
    match request {
        Request::Range(range) => range::answer(draft, range).map(Body::Range),
        Request::Put(put) => run_lone_put(draft, put),
        Request::Delete(delete) => run_delete(draft, delete).map(Body::Delete),
        Request::Txn(txn) => run_txn(draft, txn).map(Body::Txn),
    }
}

/// At every format level, a put on its own is refused for its lease before it is refused for its key.
fn run_lone_put(draft: &mut Draft<'_>, put: &Put) -> Result<Body, Code> {
    check_lease(draft, put)?;
    run_put(draft, put).map(Body::Put)
}

/// Every compare, also of nested transactions, is decided before the first write.
pub fn run_txn(draft: &mut Draft<'_>, txn: &Txn) -> Result<TxnReply, Code> {
    let mut path = Vec::new();
    decide(draft, txn, &mut path);
    run_branch(draft, txn, &mut path.into_iter())
}

/// The branches that will be taken, in the order in which `run_branch` meets the transactions.
fn decide(draft: &Draft<'_>, txn: &Txn, path: &mut Vec<bool>) {
    let succeeded = txn.compares.iter().all(|compare| compare::holds(draft, compare));
    path.push(succeeded);
    for request in branch(txn, succeeded) {
        if let Request::Txn(nested) = request {
            decide(draft, nested, path);
        }
    }
}

fn run_branch(
    draft: &mut Draft<'_>,
    txn: &Txn,
    path: &mut std::vec::IntoIter<bool>,
) -> Result<TxnReply, Code> {
    let succeeded = path.next().expect("every transaction on the path was decided");
    let mut bodies = Vec::new();
    for request in branch(txn, succeeded) {
        bodies.push(match request {
            Request::Range(range) => Body::Range(range::answer(draft, range)?),
            Request::Put(put) => Body::Put(run_put(draft, put)?),
            Request::Delete(delete) => Body::Delete(run_delete(draft, delete)?),
            Request::Txn(nested) => Body::Txn(run_branch(draft, nested, path)?),
        });
    }
    Ok(TxnReply { succeeded, bodies })
}

fn branch(txn: &Txn, succeeded: bool) -> &[Request] {
    if succeeded { &txn.success } else { &txn.failure }
}

pub(crate) fn run_put(draft: &mut Draft<'_>, put: &Put) -> Result<PutReply, Code> {
    let before = draft.current(&put.key);
    // etcd 3.7 looks for the lease first, also in transactions. Refusals are kept for requests that may be repeated, so
    // members of all releases must tell the same one.
    if draft.level() > FormatLevel::OLDEST {
        check_lease(draft, put)?;
    }
    let keeps_something = put.value.is_none() || put.lease.is_none();
    if keeps_something && before.is_none() {
        return Err(Code::KeyNotFound);
    }
    check_lease(draft, put)?;
    let prev = before
        .filter(|_| put.prev_kv || put.value.is_none())
        .map(|before| stored(draft, put.key.clone(), before.modified));
    let kept_value = prev.as_ref().map(|prev| prev.value.clone());
    let record = Record {
        create: before.map_or(draft.next_revision(), |before| before.create),
        version: before.map_or_else(|| first_version(draft, &put.key), |before| before.version + 1),
        lease: put.lease.or(before.map(|before| before.lease)).unwrap_or(LeaseId::NONE),
        value: put.value.clone().or(kept_value).unwrap_or_default(),
    };
    let replaced = before.map_or(Revision::ZERO, |before| before.modified);
    draft.change(put.key.clone(), replaced, ChangeKind::Put(record))?;
    Ok(PutReply { prev_kv: prev.filter(|_| put.prev_kv) })
}

fn check_lease(draft: &Draft<'_>, put: &Put) -> Result<(), Code> {
    match put.lease {
        None | Some(LeaseId::NONE) => Ok(()),
        Some(lease) if draft.leases().get(lease).is_some() => Ok(()),
        Some(_) => Err(Code::LeaseNotFound),
    }
}

/// A key counts its versions from one in each generation.
fn first_version(draft: &Draft<'_>, key: &[u8]) -> i64 {
    if planted(Mutant::VersionNotReset) { draft.before().version_before_end(key) + 1 } else { 1 }
}

fn run_delete(draft: &mut Draft<'_>, delete: &Delete) -> Result<DeleteReply, Code> {
    let doomed: Vec<(Bytes, Revision)> = draft
        .versions(&delete.keys, ReadAt::Now)
        .map(|(key, version)| (Bytes::copy_from_slice(key), version.modified))
        .collect();
    let mut reply = DeleteReply { deleted: doomed.len() as u64, prev_kvs: Vec::new() };
    for (key, modified) in doomed {
        if delete.prev_kv {
            reply.prev_kvs.push(stored(draft, key.clone(), modified));
        }
        draft.change(key, modified, ChangeKind::Delete)?;
    }
    Ok(reply)
}

fn stored(draft: &Draft<'_>, key: Bytes, modified: Revision) -> KeyValue {
    let record = draft.record(&key, modified);
    KeyValue {
        key,
        create_revision: record.create,
        mod_revision: modified,
        version: record.version,
        lease: record.lease,
        value: record.value,
    }
}
