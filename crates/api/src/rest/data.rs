//! `/v1/data/{key}`: reads and writes with a choice of consistency, versions that clients send back, and conflicts
//! that are resolved as the writer wishes.
//! Every answer carries the exact version in `X-Vector-Clock` and, for people, a count per region in its body. While
//! there is one region, a global quorum is a local one.

use super::explain::PendingExplanation;
use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody};
use super::value::{self, ShownValue};
use super::{Rest, clock, date, explain, json, read_result, session, write};
use axum::http::HeaderValue;
use axum::response::Response;
use mesh::{Body, Kind, Op, Record};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub const GET_PARAMS: [&str; 4] = ["r", "timeout_ms", "explain", "raw"];
pub const PUT_PARAMS: [&str; 5] = ["w", "sloppy", "timeout_ms", "explain", "ttl"];
pub const DELETE_PARAMS: [&str; 4] = ["w", "sloppy", "timeout_ms", "explain"];

#[derive(Serialize)]
struct DataReadBody<'a> {
    key: &'a str,
    #[serde(flatten)]
    shown: RecordBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Value>,
}

/// What a record says.
#[derive(Serialize)]
struct RecordBody<'a> {
    value: ShownValue<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    vector_clock: BTreeMap<String, u64>,
    created_at: String,
    last_modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    home_region: Option<String>,
    /// Every value that no other write has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    siblings: Option<Vec<ShownValue<'a>>>,
}

impl<'a> RecordBody<'a> {
    fn of(rest: &Rest, record: &'a Record) -> RecordBody<'a> {
        let (value, encoding) = value::show(record);
        let rare = record.header.rare.as_deref();
        let content_type = value::content_type(record);
        let siblings = match &record.body {
            Body::Siblings(siblings) => {
                let each = siblings.values().iter();
                Some(each.map(|sibling| value::show_bytes(&sibling.value, content_type).0).collect())
            }
            _ => None,
        };
        RecordBody {
            value,
            encoding,
            content_type,
            kind: value::kind_name(record.kind),
            vector_clock: clock::by_region(&record.context, |region| rest.region_name(region)),
            created_at: date::rfc3339(record.created_ms),
            last_modified: date::rfc3339(record.updated_ms()),
            expires_at: record.header.expires_ms.map(date::rfc3339),
            metadata: value::metadata(record),
            schema_version: rare.map(|rare| rare.schema).filter(|schema| *schema != 0),
            home_region: rare.and_then(|rare| rare.home).map(|home| rest.region_name(home)),
            siblings,
        }
    }
}

/// What a batch says of a record.
pub fn part(rest: &Rest, record: &Record) -> Map<String, Value> {
    // Every value that `show` gives can be one; should it not, its key is still there.
    let mut said = match serde_json::to_value(RecordBody::of(rest, record)) {
        Ok(Value::Object(said)) => said,
        _ => Map::new(),
    };
    said.insert("x_vector_clock".to_owned(), clock::code_name(&record.context).into());
    said
}

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&GET_PARAMS)?;
    read_result::read_and_show(&rest, &head, |key, record, explain| show(&rest, key, record, explain)).await
}

pub fn show(rest: &Rest, key: &str, record: &Record, explain: Option<Value>) -> Response {
    json(&DataReadBody { key, shown: RecordBody::of(rest, record), explain })
}

#[derive(Serialize)]
struct DataWriteBody {
    status: &'static str,
    vector_clock: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Value>,
}

pub async fn put(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&PUT_PARAMS)?;
    let write = write::of_body(&rest, &head, head.key()?, &body)?;
    commit(&rest, &head, write, "committed").await
}

pub async fn delete(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&DELETE_PARAMS)?;
    let write = write::plain(&rest, &head, head.key()?, (Kind::Register, Op::Delete), None)?;
    commit(&rest, &head, write, "deleted").await
}

async fn commit(
    rest: &Rest,
    head: &RequestHead,
    write: mesh::Write,
    status: &'static str,
) -> Result<Response, Refusal> {
    write_and_show(rest, head, write, |record, explain| {
        let vector_clock = clock::by_region(&record.context, |region| rest.region_name(region));
        json(&DataWriteBody { status, vector_clock, explain })
    })
    .await
}

/// Answers a write of one key with what `show` makes of the record and the explanation.
pub async fn write_and_show(
    rest: &Rest,
    head: &RequestHead,
    write: mesh::Write,
    show: impl FnOnce(&Record, Option<Value>) -> Response,
) -> Result<Response, Refusal> {
    let explaining = PendingExplanation::begin(head)?;
    let key = write.key.clone();
    let record = write::perform(rest, head, write).await?;
    let explain = explain::ended(explaining, rest, head, &key, &record).await;
    let mut response = show(&record, explain);
    head_of_write(rest, head, &record, &mut response).await?;
    Ok(response)
}

/// What every write is answered with.
pub async fn head_of_write(
    rest: &Rest,
    head: &RequestHead,
    record: &Record,
    response: &mut Response,
) -> Result<(), Refusal> {
    let headers = response.headers_mut();
    headers.insert("x-vector-clock", clock::header_of(&record.context));
    headers.insert("x-served-from", rest.served_from().clone());
    if let Some(regions) = replicated_to(rest, head, record).await? {
        let word = serde_json::to_string(&regions).expect("names can be written as JSON");
        headers
            .insert("x-replicated-to", HeaderValue::try_from(word).unwrap_or(HeaderValue::from_static("[]")));
    }
    if let Some(token) = session::token(head, std::iter::once(record))? {
        headers.insert(session::HEADER, token);
    }
    Ok(())
}

/// The other regions that are known to have a write when it is answered. Only the coordinator of the write
/// knows; it tells a node that has forwarded the write to it.
async fn replicated_to(
    rest: &Rest,
    head: &RequestHead,
    record: &Record,
) -> Result<Option<Vec<String>>, Refusal> {
    if !head.level()?.spans_regions() {
        return Ok(Some(Vec::new()));
    }
    let (_, others) = rest.mesh().regions();
    if others.len() <= 1 {
        return Ok(Some(others.into_iter().map(|remote| remote.region.name).collect()));
    }
    let reached = rest.mesh().reached(record.header.dot).await?;
    Ok((!reached.is_empty()).then(|| reached.into_iter().map(|region| rest.region_name(region)).collect()))
}
