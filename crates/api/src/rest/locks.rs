//! Locks over REST, for people to look at: holders, tokens, queues; a holder's metadata, and the removal of one client's
//! place. The list is of locks that clients of the lock API hold or wait for; any other lock is found by its name.

use super::query::Query;
use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use crate::audit;
use crate::grpc::lock_view::{self, TimeLeft};
use axum::extract::RawQuery;
use axum::response::Response;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::call::FenceOutcome;
use coord::lock_queue;
use coord::request::{Compare, Delete, Relation, Request, Target, Txn};
use proto::lock::{Lock, Waiter};
use serde::Deserialize;
use serde_json::{Value, json as object};
use server::Handle;
use std::collections::BTreeSet;

const LIMIT_MAX: u64 = 200;
const LIMIT_DEFAULT: u64 = 50;
/// Places that are looked through for the names of a page.
const PLACES_MAX: usize = 200_000;
/// Of those, so many at once: the apply thread does nothing else meanwhile.
const PLACES_AT_ONCE: usize = 10_000;

/// Which locks, in the order of their names.
pub struct LockQuery<'a> {
    pub prefix: &'a str,
    /// Only names with this text in them.
    pub filter: &'a str,
    /// Only names behind this one.
    pub page: &'a str,
    pub limit: usize,
    pub time_left: TimeLeft,
}

/// `GET /v1/locks`.
pub async fn list(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&["prefix", "filter", "limit", "page"])?;
    let limit = query.number("limit", 1, LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT) as usize;
    let [prefix, filter, page] = ["prefix", "filter", "page"].map(|name| query.get(name).unwrap_or(""));
    let asked = LockQuery { prefix, filter, page, limit, time_left: TimeLeft::Asked };
    Ok(json(&listed(&rest, &asked).await?))
}

/// The locks of one page, the next of which begins behind the last name of this.
pub async fn listed(rest: &Rest, asked: &LockQuery<'_>) -> Result<Value, Refusal> {
    let handle = rest.coord().await?;
    let (names, is_complete) = names_of(&handle, asked.prefix, asked.filter).await?;
    let count = names.len();
    let is_behind = |name: &Bytes| asked.page.is_empty() || name[..] > *asked.page.as_bytes();
    let mut behind = names.into_iter().filter(is_behind);
    let names: Vec<Bytes> = behind.by_ref().take(asked.limit).collect();
    let next = names.last().filter(|_| behind.next().is_some());
    let next = next.map(|last| String::from_utf8_lossy(last).into_owned());
    let (found, hidden) = inspected(&handle, &names, asked.time_left).await?;
    Ok(object!({
        "locks": found.iter().map(|lock| shown(lock, asked.time_left)).collect::<Vec<_>>(),
        "count": count,
        "waiters": found.iter().map(|lock| lock.queue.len()).sum::<usize>(),
        "hidden": hidden,
        "complete": is_complete,
        "next_page": next,
    }))
}

/// Names of locks that clients of the lock API hold or wait for, and whether these are all.
async fn names_of(handle: &Handle, prefix: &str, filter: &str) -> Result<(BTreeSet<Bytes>, bool), Code> {
    let is_wanted = |name: &Bytes| filter.is_empty() || String::from_utf8_lossy(name).contains(filter);
    let mut names = BTreeSet::new();
    let mut after = Bytes::new();
    for _ in 0..PLACES_MAX / PLACES_AT_ONCE {
        let prefix = Bytes::from(prefix.to_owned());
        let places = handle.locks().places(prefix, after, PLACES_AT_ONCE).await?;
        names.extend(places.iter().filter_map(lock_queue::lock_of).filter(is_wanted));
        match places.last() {
            Some(last) if places.len() == PLACES_AT_ONCE => after = last.clone(),
            _ => return Ok((names, true)),
        }
    }
    Ok((names, false))
}

/// Those that the caller may see and that are still held, and how many it may not see.
async fn inspected(
    handle: &Handle,
    names: &[Bytes],
    time_left: TimeLeft,
) -> Result<(Vec<Lock>, usize), Code> {
    match lock_view::inspect_all(handle, names, time_left).await {
        Ok(locks) => return Ok((locks.into_iter().flatten().collect(), 0)),
        Err(Code::PermissionDenied) => {}
        Err(code) => return Err(code),
    }
    // Which of them are the caller's?
    let (mut locks, mut hidden) = (Vec::new(), 0);
    for name in names {
        match lock_view::inspect_all(handle, std::slice::from_ref(name), time_left).await {
            Ok(found) => locks.extend(found.into_iter().flatten()),
            Err(Code::PermissionDenied) => hidden += 1,
            Err(code) => return Err(code),
        }
    }
    Ok((locks, hidden))
}

/// What is left of the holder's time is left out where it was not asked for: it changes with every look.
fn shown(lock: &Lock, time_left: TimeLeft) -> Value {
    let mut shown = render(lock);
    if let (TimeLeft::LeftOut, Some(shown)) = (time_left, shown.as_object_mut()) {
        shown.remove("remaining_ttl_ms");
    }
    shown
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateBody {
    metadata: String,
}

/// `PUT /v1/lock`: replaces the metadata of the holder that has this token.
pub async fn update(
    rest: Rest,
    RawQuery(query): RawQuery,
    WholeBody(body): WholeBody,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&["name", "token"])?;
    let name = name_of(&query)?;
    let token = query.number("token", 1, i64::MAX as u64)?;
    let token = token.ok_or_else(|| Refusal::bad("name the holder by its ?token=, as /v1/lock shows it"))?;
    let UpdateBody { metadata } = parse_json(&body, r#"{"metadata": "text"}"#)?;
    let handle = rest.coord().await?;
    let updated = lock_view::update(&handle, name.clone(), Revision(token as i64), metadata.into()).await?;
    match updated.body {
        FenceOutcome::Passed(()) => {
            Ok(json(&object!({ "status": "ok", "name": String::from_utf8_lossy(&name) })))
        }
        FenceOutcome::Refused(refusal) => {
            let message = match refusal.last {
                Revision::ZERO => format!("token {token} does not hold the lock: it is free"),
                last => format!("token {token} does not hold the lock: token {last} does"),
            };
            Err(Refusal::new(Code::Fenced, message))
        }
    }
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

/// A key that is no entry of the lock has no holder.
fn render(lock: &Lock) -> Value {
    object!({
        "name": lock.name,
        "key": lock.key,
        "holder": (!lock.is_foreign).then_some(&lock.holder_id),
        "blocked_by": lock.is_foreign.then_some(&lock.key),
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
        "client": (!waiter.is_foreign).then_some(&waiter.client_id),
        "lease": format!("{:x}", waiter.lease_id),
        "token": waiter.create_revision,
        "since_ms": (waiter.since_unix_ms > 0).then_some(waiter.since_unix_ms),
    })
}
