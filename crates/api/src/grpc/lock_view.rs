//! Locks for people to look at: who holds one, since when and for how much longer, and who waits behind.
//! The keys of a queue are read as of one revision; what else is known of their clients is what this member knows a
//! moment later, and a place that went meanwhile is shown without it.

use crate::grpc::lock::{now_unix_ms, text};
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::call::FenceOutcome;
use coord::reply::{Body, KeyValue, RangeReply, Reply};
use coord::request::{Bounds, Compare, Put, Range, Relation, Request, Target, Txn};
use coord::{FencingToken, LockClaim, lock_queue};
use proto::lock::{Lock, Waiter};
use server::Handle;
use std::collections::BTreeSet;

pub async fn inspect(handle: &Handle, name: Bytes) -> Result<(Revision, Option<Lock>), Code> {
    let (revision, places) = places_in(handle, lock_queue::keys_of(&name)).await?;
    if places.is_empty() {
        Ok((revision, None))
    } else {
        Ok((revision, Some(describe(handle, &name, places).await?)))
    }
}

/// Whether the time that is left of each holder's lease is asked for; it takes a question to the leader for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLeft {
    Asked,
    LeftOut,
}

/// The locks of these names as of one revision, read and described together; none where no client holds one.
pub async fn inspect_all(
    handle: &Handle,
    names: &[Bytes],
    time_left: TimeLeft,
) -> Result<Vec<Option<Lock>>, Code> {
    let read = |name: &Bytes| Request::Range(Range::of(lock_queue::keys_of(name)));
    let reads = Txn { compares: vec![], success: names.iter().map(read).collect(), failure: vec![] };
    let found = handle.kv().submit(reads).await?.body.bodies.into_iter().map(|body| match body {
        Body::Range(RangeReply { kvs, .. }) => Ok(kvs),
        _ => Err(Code::Corrupt),
    });
    let mut places: Vec<Vec<KeyValue>> = found.collect::<Result<_, _>>()?;
    places.iter_mut().for_each(|places| places.sort_by_key(|place| place.create_revision));
    let keys = places.iter().flatten().map(|place| place.key.clone()).collect();
    let mut claims = handle.locks().claims(keys).await?.into_iter();
    let mut locks = Vec::new();
    for (name, places) in names.iter().zip(&places) {
        let claims: Vec<Option<LockClaim>> = claims.by_ref().take(places.len()).collect();
        locks.push(match places.as_slice() {
            [] => None,
            places => {
                let left = match time_left {
                    TimeLeft::Asked => left_ms(handle, places[0].lease).await,
                    TimeLeft::LeftOut => 0,
                };
                Some(render(name, places, &claims, left))
            }
        });
    }
    Ok(locks)
}

/// The locks whose names begin so. A lock is seen by a key that is spelt after its lease.
pub async fn list(handle: &Handle, prefix: Bytes) -> Result<(Revision, Vec<Lock>), Code> {
    let end = base::key_range::prefix_end(&prefix);
    let start = if prefix.is_empty() { Bytes::from_static(b"\0") } else { prefix };
    let (revision, places) = places_in(handle, KeyRange::from_wire(start, end)).await?;
    let name_of = |kv: &KeyValue| lock_queue::lock_of(&kv.key).filter(|name| is_place_of(name, kv));
    let names: BTreeSet<Bytes> = places.iter().filter_map(name_of).collect();
    let mut locks = Vec::new();
    for name in names {
        // Also what is no entry, as `inspect` shows it.
        let keys = lock_queue::keys_of(&name);
        let first = places.partition_point(|kv| kv.key < keys.start);
        let below = places[first..].iter().take_while(|kv| kv.key.starts_with(&keys.start)).cloned();
        locks.push(describe(handle, &name, below.collect()).await?);
    }
    Ok((revision, locks))
}

/// Replaces the metadata of the holder. The token is checked when the change is applied, and so is that it is the holder's
/// key that is changed.
pub async fn update(
    handle: &Handle,
    name: Bytes,
    token: Revision,
    metadata: Bytes,
) -> Result<Reply<FenceOutcome<()>>, Code> {
    let bounds = Bounds { min: token, max: token };
    let created_then = Range { create_revisions: bounds, ..Range::of(lock_queue::keys_of(&name)) };
    // Also what no place can have is looked for: callers without permission hear of that first.
    let found = handle.kv().submit(created_then).await?.body.kvs;
    if token <= Revision::ZERO {
        return Err(Code::NotLockHolder);
    }
    let place = found.into_iter().find(|kv| is_place_of(&name, kv)).map(|kv| kv.key);
    // Without a place the change is refused all the same: first for want of permission, then by the fence.
    let key = place.unwrap_or_else(|| lock_queue::key_of(&name, LeaseId::NONE));
    let keys = KeyRange::single(key.clone());
    let is_same = Compare { keys, relation: Relation::Equal, target: Target::Create(token) };
    let put = Request::Put(Put { key, value: Some(metadata), lease: None, prev_kv: false });
    let change = Txn { compares: vec![is_same], success: vec![put], failure: vec![] };
    let reply = handle.kv().submit_fenced(FencingToken { lock: name, token }, change).await?;
    let body = match reply.body {
        FenceOutcome::Refused(refusal) => FenceOutcome::Refused(refusal),
        FenceOutcome::Passed(txn) if txn.succeeded => FenceOutcome::Passed(()),
        FenceOutcome::Passed(_) => return Err(Code::NotLockHolder),
    };
    Ok(Reply { revision: reply.revision, body })
}

/// An entry of a lock is spelt after its lease.
fn is_place_of(name: &[u8], kv: &KeyValue) -> bool {
    kv.lease != LeaseId::NONE && lock_queue::key_of(name, kv.lease) == kv.key
}

async fn places_in(handle: &Handle, keys: KeyRange) -> Result<(Revision, Vec<KeyValue>), Code> {
    let reply = handle.kv().submit(Range::of(keys)).await?;
    Ok((reply.revision, reply.body.kvs))
}

async fn describe(handle: &Handle, name: &Bytes, mut places: Vec<KeyValue>) -> Result<Lock, Code> {
    places.sort_by_key(|place| place.create_revision);
    let claims = handle.locks().claims(places.iter().map(|place| place.key.clone()).collect()).await?;
    let left = left_ms(handle, places[0].lease).await;
    Ok(render(name, &places, &claims, left))
}

async fn left_ms(handle: &Handle, lease: LeaseId) -> i64 {
    match lease {
        LeaseId::NONE => 0,
        lease => handle.leases().left_ms(lease).await.ok().flatten().unwrap_or(0),
    }
}

/// The places of a lock in the order of its queue, with what is known of their owners.
fn render(name: &Bytes, places: &[KeyValue], claims: &[Option<LockClaim>], left_ms: i64) -> Lock {
    let now = now_unix_ms();
    let mut queue = Vec::new();
    for (pair, claim) in places.windows(2).zip(&claims[1..]) {
        let is_foreign = !is_place_of(name, &pair[1]);
        let waiter = describe_waiter(&pair[0], &pair[1], claim.as_ref(), now);
        queue.push(if is_foreign {
            Waiter { client_id: String::new(), is_foreign, ..waiter }
        } else {
            waiter
        });
    }
    let (holder, claim) = (&places[0], claims[0].as_ref());
    let is_foreign = !is_place_of(name, holder);
    Lock {
        name: text(name),
        key: text(&holder.key),
        holder_id: if is_foreign { String::new() } else { holder_id(&holder.key, claim) },
        lease_id: holder.lease.0,
        fencing_token: holder.create_revision.0,
        create_revision: holder.create_revision.0,
        mod_revision: holder.mod_revision.0,
        version: holder.version,
        metadata: holder.value.clone(),
        remaining_ttl_ms: left_ms,
        since_unix_ms: claim.map_or(0, |claim| claim.since),
        queue,
        is_foreign,
    }
}

fn describe_waiter(before: &KeyValue, waiter: &KeyValue, claim: Option<&LockClaim>, now: i64) -> Waiter {
    let since_unix_ms = claim.map_or(0, |claim| claim.since);
    Waiter {
        waiter_key: text(&waiter.key),
        client_id: holder_id(&waiter.key, claim),
        lease_id: waiter.lease.0,
        create_revision: waiter.create_revision.0,
        predecessor_key: text(&before.key),
        since_unix_ms,
        waiting_ms: claim.map_or(0, |_| (now - since_unix_ms).max(0)),
        metadata: waiter.value.clone(),
        is_foreign: false,
    }
}

/// What a client calls itself, or else how its key ends.
pub fn holder_id(key: &Bytes, claim: Option<&LockClaim>) -> String {
    match claim {
        Some(claim) if !claim.holder.is_empty() => text(&claim.holder),
        _ => text(key.rsplit(|byte| *byte == b'/').next().unwrap_or_default()),
    }
}
