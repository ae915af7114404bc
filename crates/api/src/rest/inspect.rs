//! `/v1/clients`, `/v1/watches`, `/v1/leases` and `/v1/compaction`: what the InspectService tells, as JSON for people.
//! Keys that are text are shown as such, others in base64 with `"encoding": "base64"` beside them; times are RFC 3339.

use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::{Rest, date, json};
use crate::inspect::InspectCall;
use axum::response::Response;
use base::{Code, NodeId};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::althing::inspect::v1::watch::State;
use proto::althing::inspect::v1::{
    Client, ClientsRequest, CompactionRequest, CompactionResponse, Lease, LeasesRequest, Pin, Round, Watch,
    WatchPlace, WatchesRequest,
};
use serde_json::{Value, json as object};
use server::InspectionTrouble;

/// Of another node than this one, so many at most: its answer has to fit into a message between nodes.
const LIMIT_OF_OTHERS: i64 = 200;

pub async fn clients(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&["limit", "page", "filter", "node"])?;
    let (node, limit) = node_and_limit(&rest, &head)?;
    let after = match head.query.get("page") {
        None | Some("") => 0,
        Some(page) => page.parse().map_err(|_| bad_page())?,
    };
    let filter = head.query.get("filter").unwrap_or("").to_owned();
    let answer = ask(&rest, node, ClientsRequest { limit, after, filter }).await?;
    let clients: Vec<Value> = answer.clients.iter().map(show_client).collect();
    let next = answer.clients.last().filter(|_| answer.more).map(|client| client.id.to_string());
    Ok(json(&object!({ "clients": clients, "total": answer.total, "next_page": next })))
}

pub async fn watches(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&["limit", "client", "page", "filter", "node"])?;
    let (node, limit) = node_and_limit(&rest, &head)?;
    let client = number(&head, "client")? as u64;
    let after = match head.query.get("page") {
        None | Some("") => None,
        Some(page) => Some(place_of(page).ok_or_else(bad_page)?),
    };
    let filter = head.query.get("filter").unwrap_or("").to_owned();
    let answer = ask(&rest, node, WatchesRequest { limit, client, after, filter }).await?;
    let watches: Vec<Value> = answer.watches.iter().map(show_watch).collect();
    let next = answer.watches.last().filter(|_| answer.more);
    let next = next.map(|watch| format!("{}.{}", watch.stream, watch.id));
    Ok(json(&object!({ "watches": watches, "total": answer.total, "next_page": next })))
}

fn bad_page() -> Refusal {
    Refusal::bad("page must be the next_page of an earlier answer")
}

/// A stream and a watch of it.
fn place_of(page: &str) -> Option<WatchPlace> {
    let (stream, id) = page.split_once('.')?;
    Some(WatchPlace { stream: stream.parse().ok()?, id: id.parse().ok()? })
}

/// The node that is asked, and how much of it.
fn node_and_limit(rest: &Rest, head: &RequestHead) -> Result<(NodeId, i64), Refusal> {
    let here = rest.handle().identity().member;
    let node = head.query.get("node").map_or(Ok(here), |called| rest.node_called(called))?;
    let limit = number(head, "limit")?;
    let is_whole = node == here || (1..=LIMIT_OF_OTHERS).contains(&limit);
    Ok((node, if is_whole { limit } else { LIMIT_OF_OTHERS }))
}

async fn ask<C: InspectCall>(rest: &Rest, node: NodeId, call: C) -> Result<C::Answer, Refusal> {
    rest.inspector().ask(node, call).await.map_err(|trouble| match trouble {
        InspectionTrouble::Refused(code) => code.into(),
        InspectionTrouble::UnknownNode => {
            Refusal::new(Code::MemberNotFound, "no node of this cluster has this id")
        }
        InspectionTrouble::Unable => {
            let message = "the node does not tell others of its clients: its release does not know the question, or auth \
                           is on and the members do not authenticate to each other (`althing cluster secure`); ask \
                           it at its own address";
            Refusal::new(Code::NoLeader, message)
        }
        InspectionTrouble::Unreachable(why) => Refusal::new(
            Code::NoLeader,
            format!("the node did not answer: {why}; ask it at its own address"),
        ),
    })
}

pub async fn leases(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&["limit", "after"])?;
    let limit = number(&head, "limit")?;
    let after = match head.query.get("after") {
        None | Some("") => 0,
        Some(id) => u64::from_str_radix(id, 16)
            .map_err(|_| Refusal::bad("after= is the id of a lease, in hexadecimal"))?
            as i64,
    };
    let answer = rest.inspector().leases(LeasesRequest { limit, after }).await?;
    let leases: Vec<Value> = answer.leases.iter().map(show_lease).collect();
    Ok(json(&object!({ "leases": leases, "more": answer.more })))
}

pub async fn compaction(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&["node"])?;
    let (node, _) = node_and_limit(&rest, &head)?;
    Ok(json(&show_compaction(&ask(&rest, node, CompactionRequest {}).await?)))
}

/// Zero when it is not given.
fn number(head: &RequestHead, name: &str) -> Result<i64, Refusal> {
    match head.query.get(name) {
        None => Ok(0),
        Some(text) => {
            let number = text.parse().ok().filter(|number| *number >= 0);
            number.ok_or_else(|| Refusal::bad(format!("{name}= is a number from 0 on")))
        }
    }
}

fn show_client(client: &Client) -> Value {
    let leases: Vec<String> = client.leases.iter().map(|id| hex(*id)).collect();
    object!({
        "id": client.id, "user": text_or_null(&client.user), "address": client.address,
        "connected_at": time(client.connected_ms), "streams": client.streams, "watches": client.watches,
        "requests": client.requests, "agent": text_or_null(&client.agent), "leases": leases,
    })
}

fn show_watch(watch: &Watch) -> Value {
    let (key, key_encoding) = key_text(&watch.key);
    let (range_end, end_encoding) = key_text(&watch.range_end);
    let state = match watch.state() {
        State::Live => "live",
        State::Behind => "behind",
        State::Paused => "paused",
        State::Future => "future",
    };
    let mut filters = Vec::new();
    filters.extend(watch.no_put.then_some("no_put"));
    filters.extend(watch.no_delete.then_some("no_delete"));
    object!({
        "id": watch.id, "stream": watch.stream, "client": id_or_null(watch.client),
        "user": text_or_null(&watch.user), "key": key, "range_end": range_end,
        "encoding": key_encoding.or(end_encoding), "start_revision": watch.start_revision,
        "next_revision": watch.next_revision, "lag": watch.lag, "state": state, "filters": filters,
        "prev_kv": watch.prev_kv,
    })
}

fn show_lease(lease: &Lease) -> Value {
    let all_text = lease.keys.iter().all(|key| std::str::from_utf8(key).is_ok());
    let show = |key: &bytes::Bytes| {
        if all_text { String::from_utf8_lossy(key).into_owned() } else { STANDARD.encode(key) }
    };
    let keys: Vec<String> = lease.keys.iter().map(show).collect();
    object!({
        "id": hex(lease.id), "granted_ttl": lease.granted_ttl, "granted_at": time(lease.granted_ms),
        "left_ms": lease.left_ms, "expires_at": time(lease.expires_ms), "keys": keys,
        "encoding": if all_text { Value::Null } else { "base64".into() },
        "key_count": lease.key_count, "client": id_or_null(lease.client), "user": text_or_null(&lease.user),
    })
}

fn show_compaction(compaction: &CompactionResponse) -> Value {
    let pins: Vec<Value> = compaction.pins.iter().map(show_pin).collect();
    object!({
        "revision": compaction.header.as_ref().map_or(0, |header| header.revision),
        "compact_revision": compaction.compact_revision,
        "retention_revision": compaction.retention_revision,
        "needed_revision": compaction.needed_revision,
        "lag_bound_revision": compaction.lag_bound_revision,
        "sweeping": compaction.is_sweeping,
        "pins": pins,
        "last_round": compaction.last_round.as_ref().map(show_round),
    })
}

fn show_pin(pin: &Pin) -> Value {
    object!({
        "reason": pin.reason, "revision": pin.revision, "given_up": pin.is_given_up,
        "stream": id_or_null(pin.stream), "watch": pin.watch, "client": id_or_null(pin.client),
    })
}

fn show_round(round: &Round) -> Value {
    let needs = round.needs.iter();
    let needs: Vec<Value> =
        needs.map(|need| object!({ "member": hex(need.member as i64), "revision": need.revision })).collect();
    let silent: Vec<String> = round.silent.iter().map(|member| hex(*member as i64)).collect();
    object!({
        "goal_revision": round.goal_revision, "agreed_revision": round.agreed_revision,
        "outcome": round.outcome, "needs": needs, "silent": silent,
    })
}

fn key_text(key: &[u8]) -> (String, Option<&'static str>) {
    match std::str::from_utf8(key) {
        Ok(text) if text != "\0" => (text.to_owned(), None),
        _ => (STANDARD.encode(key), Some("base64")),
    }
}

fn hex(id: i64) -> String {
    format!("{id:x}")
}

fn time(millis: i64) -> Value {
    match u64::try_from(millis) {
        Ok(0) | Err(_) => Value::Null,
        Ok(millis) => date::rfc3339(millis).into(),
    }
}

fn id_or_null(id: u64) -> Value {
    if id == 0 { Value::Null } else { id.into() }
}

fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}
