//! `/v1/data/{key}`: reads and writes with a choice of consistency, versions that clients send back, and conflicts
//! that are resolved as the writer wishes.
//! Every answer carries the exact version in `X-Vector-Clock` and, for people, a count per region in its body. While
//! there is one region, a global quorum is a local one.

use super::asked::{Asked, Whole};
use super::explain::Explaining;
use super::refusal::Refusal;
use super::store::raw;
use super::value::{self, Shown};
use super::{Rest, clock, date, explain, json, session, sight, write};
use axum::http::HeaderValue;
use axum::response::Response;
use mesh::Op;
use mesh::record::{Body, Kind, Record};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub const GET_PARAMS: [&str; 4] = ["r", "timeout_ms", "explain", "raw"];
pub const PUT_PARAMS: [&str; 5] = ["w", "sloppy", "timeout_ms", "explain", "ttl"];
pub const DELETE_PARAMS: [&str; 4] = ["w", "sloppy", "timeout_ms", "explain"];

#[derive(Serialize)]
struct Found<'a> {
    key: &'a str,
    #[serde(flatten)]
    shown: Said<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Value>,
}

/// What a record says.
#[derive(Serialize)]
struct Said<'a> {
    value: Shown<'a>,
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
    siblings: Option<Vec<Shown<'a>>>,
}

impl<'a> Said<'a> {
    fn of(rest: &Rest, record: &'a Record) -> Said<'a> {
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
        Said {
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
    let mut said = match serde_json::to_value(Said::of(rest, record)) {
        Ok(Value::Object(said)) => said,
        _ => Map::new(),
    };
    said.insert("x_vector_clock".to_owned(), clock::word_of(&record.context).into());
    said
}

pub async fn get(rest: Rest, asked: Asked) -> Result<Response, Refusal> {
    asked.query.only(&GET_PARAMS)?;
    let explaining = Explaining::begin(&asked)?;
    let key = asked.key()?;
    let sight = sight::look(&rest, &asked, key.clone()).await?;
    let record = sight.live(&rest, &asked)?;
    let content_type = value::content_type(&record);
    let mut response = if asked.query.flag("raw")? || value::wants_raw(&asked.headers, content_type) {
        raw(&record)
    } else {
        let explain = explain::ended(explaining, &rest, &asked, &key, &record).await;
        json(&Found { key: asked.key_text()?, shown: Said::of(&rest, &record), explain })
    };
    sight.head(&rest, &asked, &mut response)?;
    Ok(response)
}

#[derive(Serialize)]
struct Committed {
    status: &'static str,
    vector_clock: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Value>,
}

pub async fn put(rest: Rest, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    asked.query.only(&PUT_PARAMS)?;
    let write = write::of_body(&rest, &asked, asked.key()?, &body)?;
    commit(&rest, &asked, write, "committed").await
}

pub async fn delete(rest: Rest, asked: Asked) -> Result<Response, Refusal> {
    asked.query.only(&DELETE_PARAMS)?;
    let write = write::plain(&rest, &asked, asked.key()?, (Kind::Register, Op::Delete), None)?;
    commit(&rest, &asked, write, "deleted").await
}

async fn commit(
    rest: &Rest,
    asked: &Asked,
    write: mesh::request::Write,
    status: &'static str,
) -> Result<Response, Refusal> {
    let explaining = Explaining::begin(asked)?;
    let key = write.key.clone();
    let record = write::perform(rest, asked, write).await?;
    let vector_clock = clock::by_region(&record.context, |region| rest.region_name(region));
    let explain = explain::ended(explaining, rest, asked, &key, &record).await;
    let mut response = json(&Committed { status, vector_clock, explain });
    head_of_write(rest, asked, &record, &mut response).await?;
    Ok(response)
}

/// What every write is answered with.
pub async fn head_of_write(
    rest: &Rest,
    asked: &Asked,
    record: &Record,
    response: &mut Response,
) -> Result<(), Refusal> {
    let headers = response.headers_mut();
    headers.insert("x-vector-clock", clock::header_of(&record.context));
    headers.insert("x-served-from", rest.served_from().clone());
    if let Some(regions) = replicated_to(rest, asked, record).await? {
        let word = serde_json::to_string(&regions).expect("names can be written as JSON");
        headers
            .insert("x-replicated-to", HeaderValue::try_from(word).unwrap_or(HeaderValue::from_static("[]")));
    }
    if let Some(token) = session::token(asked, std::iter::once(record))? {
        headers.insert(session::HEADER, token);
    }
    Ok(())
}

/// The other regions that are known to have a write when it is answered. Only the coordinator of the write
/// knows; it tells a node that has forwarded the write to it.
async fn replicated_to(rest: &Rest, asked: &Asked, record: &Record) -> Result<Option<Vec<String>>, Refusal> {
    if !asked.level()?.is_abroad() {
        return Ok(Some(Vec::new()));
    }
    let (_, others) = rest.mesh().regions();
    if others.len() <= 1 {
        return Ok(Some(others.into_iter().map(|abroad| abroad.region.name).collect()));
    }
    let reached = rest.mesh().reached(record.header.dot).await?;
    Ok((!reached.is_empty()).then(|| reached.into_iter().map(|region| rest.region_name(region)).collect()))
}
