//! `GET /v1/data`: records by what they are instead of by their names: of a type, with a home region, written since a
//! moment; a page at a time. As with ranges, a page says how much of the ring has answered.

use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::value::kind_named;
use super::{Rest, data, date, json};
use axum::http::StatusCode;
use axum::response::Response;
use base::Code;
use base::limits::MESH_PAGE_KEYS_MAX;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mesh::{Key, PARTITIONS, Query, Record, RegionId, ScanPage, Stamp};
use serde_json::{Value, json as object};

pub const PARAMS: [&str; 7] = ["type", "home_region", "since", "until", "limit", "page", "timeout_ms"];
const LIMIT_DEFAULT: u64 = 100;
/// Moments are milliseconds that fit into a stamp.
const SINCE_MS_MAX: u64 = (1 << 47) - 1;

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&PARAMS)?;
    let query = query_of(&head)?;
    render(&rest, &rest.get(query, head.timeout()?).await?)
}

fn query_of(head: &RequestHead) -> Result<Query, Refusal> {
    let query = &head.query;
    let page = |token: &str| URL_SAFE_NO_PAD.decode(token).ok().map(Into::into);
    let after = match query.get("page") {
        None => None,
        Some(token) => Some(page(token).ok_or_else(|| {
            Refusal::bad("page must be the next_page of an earlier answer to the same question")
        })?),
    };
    Ok(Query {
        namespace_id: head.space.id,
        kind: query.get("type").map(kind_named).transpose()?,
        home: query.get("home_region").map(RegionId::of),
        since: query.get("since").map(|text| moment("since", text)).transpose()?,
        until: query.get("until").map(|text| moment("until", text)).transpose()?.map(Stamp::end_of_ms),
        after,
        limit: query.number("limit", 1, MESH_PAGE_KEYS_MAX as u64)?.unwrap_or(LIMIT_DEFAULT) as u16,
    })
}

/// Milliseconds, or a moment as records show theirs.
fn moment(name: &str, text: &str) -> Result<Stamp, Refusal> {
    let ms = text.parse().ok().or_else(|| date::parse(text)).filter(|ms| *ms <= SINCE_MS_MAX);
    ms.map(Stamp::at_ms).ok_or_else(|| {
        let right = "milliseconds since 1970, or a moment as 2025-01-22T10:30:00Z";
        Refusal::bad(format!("{name}={text} must be {right}"))
    })
}

fn render(rest: &Rest, scanned: &ScanPage) -> Result<Response, Refusal> {
    if usize::from(scanned.n_missing) >= PARTITIONS {
        let refusal =
            Refusal::new(Code::TooFewReplicas, "no partition had enough replicas that answered; try again");
        return Err(refusal.with("status", "unavailable").with("missing_partitions", scanned.n_missing));
    }
    let entry = |(key, record): &(Key, Record)| {
        let mut said = data::part(rest, record);
        said.insert("key".to_owned(), String::from_utf8_lossy(&key.name()).into());
        Value::Object(said)
    };
    let complete = scanned.n_missing == 0;
    let mut response = json(&object!({
        "entries": scanned.records.iter().map(entry).collect::<Vec<_>>(),
        "next_page": scanned.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next)),
        "complete": complete,
        "missing_partitions": scanned.n_missing,
    }));
    if !complete {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}
