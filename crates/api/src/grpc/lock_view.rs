//! Locks for people to look at: who holds one, since when and for how much longer, and who waits behind.
//! The keys of a queue are read as of one revision; what else is known of their clients is what this member knows a
//! moment later, and a place that went meanwhile is shown without it.

use crate::grpc::lock::{now_unix_ms, text};
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::reply::KeyValue;
use coord::request::Range;
use coord::{LockClaim, lock_queue};
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
    let now = now_unix_ms();
    let mut queue = Vec::new();
    for (pair, claim) in places.windows(2).zip(&claims[1..]) {
        queue.push(describe_waiter(&pair[0], &pair[1], claim.as_ref(), now));
    }
    let (holder, claim) = (&places[0], claims[0].as_ref());
    let is_foreign = !is_place_of(name, holder);
    let remaining = match holder.lease {
        LeaseId::NONE => 0,
        lease => handle.leases().time_to_live(lease).await.map_or(0, |reply| reply.body.ttl.max(0)),
    };
    Ok(Lock {
        name: text(name),
        key: text(&holder.key),
        holder_id: if is_foreign { String::new() } else { holder_id(&holder.key, claim) },
        lease_id: holder.lease.0,
        fencing_token: holder.create_revision.0,
        create_revision: holder.create_revision.0,
        mod_revision: holder.mod_revision.0,
        version: holder.version,
        metadata: holder.value.clone(),
        remaining_ttl_ms: remaining * 1_000,
        since_unix_ms: claim.map_or(0, |claim| claim.since),
        queue,
        is_foreign,
    })
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
    }
}

/// What a client calls itself, or else how its key ends.
pub fn holder_id(key: &Bytes, claim: Option<&LockClaim>) -> String {
    match claim {
        Some(claim) if !claim.holder.is_empty() => text(&claim.holder),
        _ => text(key.rsplit(|byte| *byte == b'/').next().unwrap_or_default()),
    }
}
