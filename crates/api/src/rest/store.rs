//! `/api/v1/store`: put, get and delete of single keys, as the first design of the store had them.
//! A key that was never written is answered with 404, one that was deleted with 410.

use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, now_ms, parse_json};
use super::value::{self, ShownValue};
use super::write::{self, ValueBody};
use super::{Rest, clock, data, date, json, read_result};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base::Code;
use mesh::{Body, Kind, Op, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

pub const PUT_PARAMS: [&str; 5] = ["w", "sloppy", "timeout_ms", "explain", "ttl"];
pub const GET_PARAMS: [&str; 5] = ["r", "timeout_ms", "explain", "raw", "key"];
pub const DELETE_PARAMS: [&str; 5] = ["w", "sloppy", "timeout_ms", "explain", "key"];
pub const RIGHT: &str = r#"{"key": "user_1", "value": "Alice"}; ttl, metadata and type may be added"#;

/// A key with its value, as a body holds them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreEntry<'a> {
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
    ttl: Option<u64>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    schema_version: Option<u32>,
    home_region: Option<String>,
    handler: Option<String>,
}

impl<'a> StoreEntry<'a> {
    pub fn given(self) -> (Cow<'a, str>, ValueBody<'a>) {
        let StoreEntry { key, value, ttl, metadata, kind, schema_version, home_region, handler } = self;
        (key, ValueBody { value, ttl, metadata, kind, schema_version, home_region, handler })
    }
}

#[derive(Serialize)]
struct StoreWriteBody<'a> {
    status: &'static str,
    key: &'a str,
    /// When it was written, in milliseconds; what was written later wins.
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Value>,
}

/// `POST /keys` and `PUT /key`: the key is in the body.
pub async fn post(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&PUT_PARAMS)?;
    let (key, given) = parse_json::<StoreEntry<'_>>(&body, RIGHT)?.given();
    let write = write::of_given(&rest, &head, head.key_of(&key)?, given, None)?;
    done(&rest, &head, &key, write, "ok").await
}

/// `PUT /keys/{key}`: the body is a value, in JSON or as bytes.
pub async fn put(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&PUT_PARAMS)?;
    let write = write::of_body(&rest, &head, head.key()?, &body)?;
    done(&rest, &head, head.key_text()?, write, "ok").await
}

/// A tombstone is written whether or not the key is there: it may be on its way.
pub async fn delete(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&DELETE_PARAMS)?;
    let write = write::plain(&rest, &head, head.key()?, (Kind::Register, Op::Delete), None)?;
    done(&rest, &head, head.key_text()?, write, "deleted").await
}

async fn done(
    rest: &Rest,
    head: &RequestHead,
    key: &str,
    write: mesh::Write,
    status: &'static str,
) -> Result<Response, Refusal> {
    data::write_and_show(rest, head, write, |record, explain| {
        json(&StoreWriteBody { status, key, timestamp: record.updated_ms(), explain })
    })
    .await
}

#[derive(Serialize)]
struct StoreReadBody<'a> {
    key: &'a str,
    value: ShownValue<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Value>,
}

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&GET_PARAMS)?;
    read_result::read_and_show(&rest, &head, show).await
}

pub fn show(key: &str, record: &Record, explain: Option<Value>) -> Response {
    let (value, encoding) = value::show(record);
    let (content_type, timestamp) = (value::content_type(record), record.updated_ms());
    json(&StoreReadBody { key, value, encoding, content_type, timestamp, explain })
}

/// The record if it is live; otherwise the refusal for a key that does not exist.
pub fn live(rest: &Rest, record: Option<Box<Record>>) -> Result<Box<Record>, Refusal> {
    let Some(record) = record else {
        return Err(Refusal::new(Code::KeyAbsent, "this key was never written, or was deleted long ago"));
    };
    let gone = |how: &str, at_ms: u64| {
        let message = format!("the key {how} at {}", date::rfc3339(at_ms));
        let refusal = Refusal::new(Code::KeyDeleted, message);
        let counts = clock::by_region(&record.context, |region| rest.region_name(region));
        let counts = serde_json::to_value(counts).expect("counts can be written as JSON");
        refusal.with("vector_clock", counts).with("x_vector_clock", clock::code_name(&record.context))
    };
    match record.header.expires_ms {
        _ if record.is_tombstone() => Err(gone("was deleted", record.updated_ms())),
        Some(at_ms) if at_ms <= now_ms() => Err(gone("expired", at_ms)),
        _ => Ok(record),
    }
}

/// The bytes alone, to be saved and never shown: their writer must not speak for this server in a browser.
pub fn raw(record: &Record) -> Response {
    let json_type = HeaderValue::from_static("application/json");
    let (bytes, content_type) = match &record.body {
        Body::Register(bytes) => {
            (bytes.to_vec(), value::content_type(record).map_or(json_type, value::inert_type))
        }
        _ => (serde_json::to_vec(&value::show(record).0).expect("values can be written as JSON"), json_type),
    };
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response
}
