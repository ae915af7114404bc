//! `/api/v1/store/range`: the keys from one name to another, in order, a page at a time.
//! The start is included, the end is not. Keys lie all over the ring, so a page says how much of the ring has
//! answered: 206 when something may be missing, 503 when no partition answered; never a silent hole.

use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::value::{self, ShownValue};
use super::{Rest, json};
use axum::http::StatusCode;
use axum::response::Response;
use base::Code;
use base::key_range::prefix_end;
use base::limits::MESH_PAGE_KEYS_MAX;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use mesh::{Key, Level, PARTITIONS, Record, Reply, Request, Scan, ScanPage};
use serde::Serialize;

pub const PARAMS: [&str; 7] = ["start", "end", "prefix", "limit", "page", "r", "timeout_ms"];

#[derive(Serialize)]
struct RangePage<'a> {
    entries: Vec<RangeEntry<'a>>,
    /// Where to continue, for `page=`; null at the end.
    next_page: Option<String>,
    /// Whether every partition answered.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_partitions: Option<u16>,
}

#[derive(Serialize)]
struct RangeEntry<'a> {
    key: String,
    value: ShownValue<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    timestamp: u64,
}

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&PARAMS)?;
    let scan = scan_of(&head)?;
    match rest.ask(Request::Scan(scan), head.timeout()?).await? {
        Reply::Scanned(scanned) => render(&scanned),
        reply @ Reply::Unavailable { .. } => Err(rest.short(reply)),
        other => unreachable!("a scan is not answered by {other:?}"),
    }
}

fn scan_of(head: &RequestHead) -> Result<Scan, Refusal> {
    if head.level()? == Level::Linearizable {
        return Err(Refusal::bad(
            "X-Consistency-Level LINEARIZABLE is for single keys; a range is read by quorums",
        ));
    }
    let query = &head.query;
    let name = |name: &str| query.get(name).map(|text| Bytes::copy_from_slice(text.as_bytes()));
    let (start, end) = match name("prefix") {
        None => (name("start").unwrap_or_default(), name("end").filter(|end| !end.is_empty())),
        Some(_) if query.get("start").or(query.get("end")).is_some() => {
            return Err(Refusal::bad("give either prefix or start and end"));
        }
        Some(prefix) if prefix.is_empty() => (prefix, None),
        Some(prefix) => (prefix.clone(), end_of(&prefix)),
    };
    if end.as_ref().is_some_and(|end| start > *end) {
        return Err(Refusal::bad("start must not come behind end; start is included, end is not"));
    }
    let start = match query.get("page") {
        None => start,
        Some(token) => decode_token(token).filter(|from| *from >= start).ok_or_else(|| {
            Refusal::bad("page must be the next_page of an earlier answer with the same start and end")
        })?,
    };
    let limit = query.number("limit", 1, MESH_PAGE_KEYS_MAX as u64)?.unwrap_or(MESH_PAGE_KEYS_MAX as u64);
    Ok(Scan { namespace_id: head.space.id, start, end, limit: limit as usize, r: head.r()? })
}

/// The first name behind those that begin so; none if there is no such.
fn end_of(prefix: &Bytes) -> Option<Bytes> {
    let end = prefix_end(prefix);
    (end.as_ref() != b"\0").then(|| Bytes::copy_from_slice(&end))
}

fn decode_token(token: &str) -> Option<Bytes> {
    URL_SAFE_NO_PAD.decode(token).ok().map(Bytes::from)
}

fn render(scanned: &ScanPage) -> Result<Response, Refusal> {
    if usize::from(scanned.n_missing) >= PARTITIONS {
        let message = "no partition had enough replicas that answered; try again, or ask for fewer with r=";
        let refusal = Refusal::new(Code::TooFewReplicas, message).with("status", "unavailable");
        return Err(refusal.with("missing_partitions", scanned.n_missing));
    }
    let entries = scanned.records.iter().map(|(key, record)| shown(key, record)).collect();
    let complete = scanned.n_missing == 0;
    let mut response = json(&RangePage {
        entries,
        next_page: scanned.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next)),
        complete,
        missing_partitions: (!complete).then_some(scanned.n_missing),
    });
    if !complete {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

fn shown<'a>(key: &Key, record: &'a Record) -> RangeEntry<'a> {
    let (value, encoding) = value::show(record);
    let kind = (!record.kind.is_last_write_wins()).then(|| value::kind_name(record.kind));
    let key = String::from_utf8_lossy(&key.name()).into_owned();
    RangeEntry { key, value, encoding, kind, timestamp: record.updated_ms() }
}
