//! `/api/v1/store/range`: the keys from one name to another, in order or against it, with their values or without, a page at a
//! time; how many there are; and to delete them all. The start is included, the end is not. Keys lie all over the
//! ring, so a page says how much of the ring has answered: 206 when something may be missing, 503 when no partition
//! answered; never a silent hole.

use super::pages::Pages;
use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::value::{self, ShownValue};
use super::write;
use super::{Rest, json};
use axum::http::StatusCode;
use axum::response::Response;
use base::key_range::prefix_end;
use base::limits::MESH_PAGE_KEYS_MAX;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use mesh::{Key, Kind, Level, Op, Record, Scan, ScanPage, ScanView};
use serde::Serialize;
use std::time::{Duration, Instant};

pub const PARAMS: [&str; 10] =
    ["start", "end", "prefix", "limit", "page", "r", "timeout_ms", "keys_only", "reverse", "count"];
pub const DELETE_PARAMS: [&str; 7] = ["start", "end", "prefix", "page", "r", "w", "timeout_ms"];
/// How long one request counts or deletes; the answer says where the next one goes on.
const BUDGET: Duration = Duration::from_secs(3);

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
    #[serde(flatten)]
    value: Option<EntryValue<'a>>,
}

#[derive(Serialize)]
struct EntryValue<'a> {
    value: ShownValue<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    timestamp: u64,
}

/// What counting and deleting come to.
#[derive(Default, Serialize)]
struct RangeTotal {
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<u64>,
    /// Keys whose deletion too few replicas acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u64>,
    next_page: Option<String>,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_partitions: Option<u16>,
}

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&PARAMS)?;
    let scan = scan_of(&rest, &head)?;
    if head.query.flag("count")? {
        return count(&rest, &head, scan).await;
    }
    let mut pages = Pages::of(scan, head.timeout()?);
    Ok(render(&pages.next(&rest).await?.unwrap_or_default()))
}

async fn count(rest: &Rest, head: &RequestHead, scan: Scan) -> Result<Response, Refusal> {
    let view = ScanView { keys_only: true, ..scan.view };
    let scan = Scan { view, limit: MESH_PAGE_KEYS_MAX, ..scan };
    let (total, ..) = over_pages(rest, head, scan, PageAction::Count).await?;
    Ok(totalled(RangeTotal { deleted: None, failed: None, ..total }))
}

/// `DELETE`: what is there when its page is read. Only for ranges that are named, as all keys go.
pub async fn delete(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&DELETE_PARAMS)?;
    let is_named = ["prefix", "start", "end"]
        .iter()
        .any(|name| head.query.get(name).is_some_and(|text| !text.is_empty()));
    if !is_named {
        return Err(Refusal::bad("name what is to be deleted: prefix=, or start= and end="));
    }
    let scan = Scan { view: ScanView { keys_only: true, reverse: false }, ..scan_of(&rest, &head)? };
    rest.permit_deletion(&scan)?;
    let (total, failed) = over_pages(&rest, &head, scan, PageAction::Delete).await?;
    let deleted = total.count.map(|count| count - failed);
    let complete = total.complete && failed == 0;
    Ok(totalled(RangeTotal { count: None, deleted, failed: Some(failed), complete, ..total }))
}

/// How many keys were written about, and of how many of them the write failed.
pub async fn delete_page(rest: &Rest, head: &RequestHead, page: &ScanPage) -> Result<(u64, u64), Refusal> {
    if page.names.is_empty() {
        return Ok((0, 0));
    }
    let deletion = |key: &Key| write::plain(rest, head, key.clone(), (Kind::Register, Op::Delete), None);
    let writes = page.names.iter().map(deletion).collect::<Result<Vec<_>, _>>()?;
    let replies = rest.get(writes, head.timeout()?).await?;
    let failed = replies.iter().filter(|reply| reply.is_err()).count();
    Ok((page.names.len() as u64, failed as u64))
}

/// What is done with the keys of a page.
#[derive(Clone, Copy)]
enum PageAction {
    Count,
    Delete,
}

/// Goes over pages until the end, or until time is up: how many keys there were, and of how many the write failed.
async fn over_pages(
    rest: &Rest,
    head: &RequestHead,
    scan: Scan,
    action: PageAction,
) -> Result<(RangeTotal, u64), Refusal> {
    let begun = Instant::now();
    let mut pages = Pages::of(scan, head.timeout()?);
    let (mut seen, mut failed, mut n_missing, mut next_page) = (0, 0, 0, None);
    while let Some(page) = pages.next(rest).await? {
        let (of_page, failed_of_page) = match action {
            PageAction::Count => (page.len() as u64, 0),
            PageAction::Delete => delete_page(rest, head, &page).await?,
        };
        (seen, failed, n_missing) = (seen + of_page, failed + failed_of_page, n_missing.max(page.n_missing));
        if begun.elapsed() > BUDGET {
            next_page = page.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next));
            break;
        }
    }
    let total = RangeTotal {
        count: Some(seen),
        complete: n_missing == 0 && next_page.is_none(),
        next_page,
        missing_partitions: (n_missing > 0).then_some(n_missing),
        ..RangeTotal::default()
    };
    Ok((total, failed))
}

fn totalled(total: RangeTotal) -> Response {
    let complete = total.complete;
    with_status(json(&total), complete)
}

fn with_status(mut response: Response, complete: bool) -> Response {
    if !complete {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

pub fn scan_of(rest: &Rest, head: &RequestHead) -> Result<Scan, Refusal> {
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
    let view = ScanView { keys_only: query.flag("keys_only")?, reverse: query.flag("reverse")? };
    let place = match query.get("page") {
        None => None,
        Some(token) => Some(
            decode_token(token).filter(|place| is_within(place, &start, end.as_ref())).ok_or_else(|| {
                Refusal::bad("page must be the next_page of an earlier answer with the same start and end")
            })?,
        ),
    };
    let (start, end) = match place {
        None => (start, end),
        Some(place) if view.reverse => (start, Some(place)),
        Some(place) => (place, end),
    };
    let limit = query.number("limit", 1, MESH_PAGE_KEYS_MAX as u64)?.unwrap_or(MESH_PAGE_KEYS_MAX as u64);
    Ok(Scan { namespace_id: head.space.id, start, end, limit: limit as usize, r: head.r(rest)?, view })
}

/// The first name behind all names with this prefix; none if there is none.
fn end_of(prefix: &Bytes) -> Option<Bytes> {
    let end = prefix_end(prefix);
    (end.as_ref() != b"\0").then(|| Bytes::copy_from_slice(&end))
}

/// The place behind the last key may be the end itself.
fn is_within(place: &Bytes, start: &Bytes, end: Option<&Bytes>) -> bool {
    place >= start && end.is_none_or(|end| place <= end)
}

fn decode_token(token: &str) -> Option<Bytes> {
    URL_SAFE_NO_PAD.decode(token).ok().map(Bytes::from)
}

fn render(scanned: &ScanPage) -> Response {
    let name = |key: &Key| String::from_utf8_lossy(key.name_slice()).into_owned();
    let named = scanned.names.iter().map(|key| RangeEntry { key: name(key), value: None });
    let found =
        scanned.records.iter().map(|(key, record)| RangeEntry { key: name(key), value: Some(shown(record)) });
    let complete = scanned.n_missing == 0;
    let page = RangePage {
        entries: found.chain(named).collect(),
        next_page: scanned.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next)),
        complete,
        missing_partitions: (!complete).then_some(scanned.n_missing),
    };
    with_status(json(&page), complete)
}

fn shown(record: &Record) -> EntryValue<'_> {
    let (value, encoding) = value::show(record);
    let kind = (!record.kind.is_last_write_wins()).then(|| value::kind_name(record.kind));
    EntryValue { value, encoding, kind, timestamp: record.updated_ms() }
}
