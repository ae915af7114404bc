//! Locks over REST, for people to look at: holders, tokens, queues; and the removal of one client's place.
//! Without a prefix the list is of clients of the lock API; below a prefix, of every key that is spelt as a place.

use super::query::Query;
use super::refusal::Refusal;
use super::{Rest, json};
use crate::audit;
use crate::grpc::lock_view;
use axum::extract::RawQuery;
use axum::response::Response;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::lock_queue;
use coord::request::{Compare, Delete, Relation, Request, Target, Txn};
use proto::lock::{Lock, Waiter};
use serde_json::{Value, json as object};
use server::Handle;
use std::collections::BTreeSet;

const LIMIT_MAX: u64 = 200;
const LIMIT_DEFAULT: u64 = 50;
/// Places that are looked through for the names of a page.
const PLACES_MAX: usize = 10_000;

/// `GET /v1/locks`.
pub async fn list(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&["prefix", "limit", "page"])?;
    let limit = query.number("limit", 1, LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT) as usize;
    let prefix = query.get("prefix").unwrap_or("");
    Ok(json(&listed(&rest, prefix, query.get("page").unwrap_or(""), limit).await?))
}

/// The locks of one page, the next of which begins behind the last name of this.
pub async fn listed(rest: &Rest, prefix: &str, page: &str, limit: usize) -> Result<Value, Refusal> {
    let handle = rest.coord().await?;
    let places = handle.locks().places(Bytes::from(prefix.to_owned()), PLACES_MAX).await?;
    let names: BTreeSet<Bytes> = places.iter().filter_map(lock_queue::lock_of).collect();
    let count = names.len();
    let (mut locks, mut hidden, mut waiters) = (Vec::new(), 0, 0);
    let mut last = None;
    let mut is_more = false;
    for name in names.into_iter().filter(|name| page.is_empty() || name[..] > *page.as_bytes()) {
        if locks.len() == limit {
            is_more = true;
            break;
        }
        last = Some(name.clone());
        match lock_view::inspect(&handle, name).await {
            Ok((_, Some(lock))) => {
                waiters += lock.queue.len();
                locks.push(render(&lock));
            }
            Ok((_, None)) => {}
            Err(Code::PermissionDenied) => hidden += 1,
            Err(code) => return Err(code.into()),
        }
    }
    Ok(object!({
        "locks": locks,
        "count": count,
        "waiters": waiters,
        "hidden": hidden,
        "next_page": last.filter(|_| is_more).map(|last| String::from_utf8_lossy(&last).into_owned()),
    }))
}

/// `GET /v1/lock`: one lock with its queue; without a holder if it is free.
pub async fn get(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&["name"])?;
    let name = name_of(&query)?;
    let handle = rest.coord().await?;
    let (_, lock) = lock_view::inspect(&handle, name.clone()).await?;
    let free =
        || object!({ "name": String::from_utf8_lossy(&name), "holder": null, "token": null, "queue": [] });
    Ok(json(&lock.as_ref().map_or_else(free, render)))
}

/// `DELETE /v1/lock`: takes one client's place away, if it is still the one with this token. Its holder's writes with that
/// token are refused as soon as another client has the lock.
pub async fn remove(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&["name", "key", "token"])?;
    let name = name_of(&query)?;
    let handle = rest.coord().await?;
    let key = Bytes::from(query.get("key").unwrap_or("").to_owned());
    let token = query.number("token", 1, i64::MAX as u64)?;
    let (Some(token), true) = (token, lock_queue::keys_of(&name).contains(&key)) else {
        return Err(Refusal::bad("name the place: ?key= as /v1/locks shows it, and its ?token="));
    };
    take_away(&handle, key, Revision(token as i64)).await?;
    Ok(json(&object!({ "status": "ok", "name": String::from_utf8_lossy(&name) })))
}

async fn take_away(handle: &Handle, key: Bytes, created: Revision) -> Result<(), Refusal> {
    let keys = KeyRange::single(key);
    let is_there = Compare { keys: keys.clone(), relation: Relation::Equal, target: Target::Create(created) };
    let delete = Request::Delete(Delete { keys, prev_kv: false });
    let txn = Txn { compares: vec![is_there], success: vec![delete], failure: vec![] };
    if handle.kv().submit(txn).await?.body.succeeded {
        Ok(())
    } else {
        Err(Refusal::new(Code::ConflictDetected, "this place has gone meanwhile; read the lock again"))
    }
}

fn name_of(query: &Query) -> Result<Bytes, Refusal> {
    let name = query.get("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Refusal::bad("name the lock as ?name="))?;
    audit::note_target("lock", name);
    Ok(Bytes::from(name.to_owned()))
}

fn render(lock: &Lock) -> Value {
    object!({
        "name": lock.name,
        "key": lock.key,
        "holder": lock.holder_id,
        "lease": format!("{:x}", lock.lease_id),
        "token": lock.fencing_token,
        "since_ms": (lock.since_unix_ms > 0).then_some(lock.since_unix_ms),
        "remaining_ttl_ms": lock.remaining_ttl_ms,
        "metadata": String::from_utf8_lossy(&lock.metadata),
        "queue": lock.queue.iter().map(waiter).collect::<Vec<_>>(),
    })
}

fn waiter(waiter: &Waiter) -> Value {
    object!({
        "key": waiter.waiter_key,
        "client": waiter.client_id,
        "lease": format!("{:x}", waiter.lease_id),
        "token": waiter.create_revision,
        "since_ms": (waiter.since_unix_ms > 0).then_some(waiter.since_unix_ms),
    })
}
