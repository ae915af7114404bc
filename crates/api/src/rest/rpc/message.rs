//! Records and refusals as messages.

use crate::rest::refusal::Refusal;
use crate::rest::value::{self, ShownValue};
use crate::rest::{Rest, clock};
use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mesh::{Body, Record};
use prost::Message;
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::value::Kind;
use serde_json::Value as Json;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The trailers of a refusal.
const ERROR: &str = "althing-error";
const REFUSAL: &str = "althing-refusal-bin";
const SESSION: &str = "althing-session";

pub fn entry(rest: &Rest, key: String, record: &Record) -> wire::Entry {
    let rare = record.header.rare.as_deref();
    let content_type = value::content_type(record);
    let siblings = match &record.body {
        Body::Siblings(siblings) => {
            siblings.values().iter().map(|one| of_bytes(&one.value, content_type)).collect()
        }
        _ => Vec::new(),
    };
    let metadata = value::metadata(record);
    wire::Entry {
        version: clock::code_name(&record.context),
        vector_clock: counts(rest, record),
        created_ms: record.created_ms,
        metadata: metadata.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect(),
        schema_version: rare.map_or(0, |rare| rare.schema),
        home_region: rare.and_then(|rare| rare.home).map_or(String::new(), |home| rest.region_name(home)),
        siblings,
        ..listed(key, record)
    }
}

/// What a page of a scan says of a record.
pub fn listed(key: String, record: &Record) -> wire::Entry {
    wire::Entry {
        key,
        value: Some(value_of(record)),
        r#type: value::kind_name(record.kind).to_owned(),
        modified_ms: record.updated_ms(),
        expires_ms: record.header.expires_ms.unwrap_or(0),
        ..wire::Entry::default()
    }
}

pub fn write_response(rest: &Rest, record: &Record) -> wire::WriteResponse {
    wire::WriteResponse {
        version: clock::code_name(&record.context),
        vector_clock: counts(rest, record),
        modified_ms: record.updated_ms(),
        session: String::new(),
    }
}

fn counts(rest: &Rest, record: &Record) -> std::collections::HashMap<String, u64> {
    clock::by_region(&record.context, |region| rest.region_name(region)).into_iter().collect()
}

fn value_of(record: &Record) -> wire::Value {
    if let Body::Register(bytes) = &record.body {
        return of_bytes(bytes, value::content_type(record));
    }
    let kind = match value::show(record) {
        (ShownValue::Json(text), _) => Kind::Json(Bytes::copy_from_slice(text.get().as_bytes())),
        (ShownValue::Text(text), Some(_)) => {
            let data = STANDARD.decode(text.as_bytes()).unwrap_or_default().into();
            Kind::Blob(wire::Blob { data, content_type: String::new() })
        }
        (ShownValue::Text(text), None) => Kind::Decimal(text.into_owned()),
        (ShownValue::Whole(number), _) => Kind::Integer(number),
        (ShownValue::Large(digits), _) => Kind::Decimal(digits.get().to_owned()),
        (ShownValue::Elements(elements), _) => {
            let elements = elements.into_iter().map(|element| element.into_owned()).collect();
            Kind::Elements(wire::Elements { elements })
        }
        (ShownValue::Nothing, _) => Kind::Json(Bytes::from_static(b"null")),
    };
    wire::Value { kind: Some(kind) }
}

/// Bytes as they are, and JSON without a copy.
fn of_bytes(bytes: &Bytes, content_type: Option<&str>) -> wire::Value {
    let kind = match content_type {
        None if value::is_json(bytes) => Kind::Json(bytes.clone()),
        content_type => {
            let content_type = content_type.unwrap_or("application/octet-stream").to_owned();
            Kind::Blob(wire::Blob { data: bytes.clone(), content_type })
        }
    };
    wire::Value { kind: Some(kind) }
}

pub fn session(token: Option<HeaderValue>) -> String {
    token.and_then(|token| token.to_str().ok().map(str::to_owned)).unwrap_or_default()
}

pub fn refusal(refusal: Refusal) -> wire::Refusal {
    let grpc_code = refusal.code.grpc() as i32;
    let mut details = refusal.body();
    let mut text = |name: &str| match details.remove(name) {
        Some(Json::String(text)) => text,
        _ => String::new(),
    };
    let (error, message) = (text("error"), text("message"));
    let details = if details.is_empty() { Bytes::new() } else { Json::Object(details).to_string().into() };
    wire::Refusal { error, grpc_code, message, details }
}

pub fn status(refused: Refusal) -> Status {
    let session = session(refused.session().cloned());
    let said = refusal(refused);
    let mut trailers = MetadataMap::new();
    if let Ok(error) = said.error.parse() {
        trailers.insert(ERROR, error);
    }
    if !session.is_empty()
        && let Ok(session) = session.parse()
    {
        trailers.insert(SESSION, session);
    }
    let code = tonic::Code::from_i32(said.grpc_code);
    let message = said.message.clone();
    trailers.insert_bin(REFUSAL, MetadataValue::from_bytes(&trimmed(said).encode_to_vec()));
    Status::with_metadata(code, message, trailers)
}

/// Trailers are small: both sides of a conflict may be large values.
const DETAILS_BYTES_MAX: usize = 4 * 1024;

fn trimmed(mut said: wire::Refusal) -> wire::Refusal {
    if said.details.len() > DETAILS_BYTES_MAX {
        let details =
            serde_json::from_slice::<serde_json::Map<String, Json>>(&said.details).unwrap_or_default();
        let small =
            details.into_iter().filter(|(_, value)| !value.is_null() && value.to_string().len() < 1_024);
        let small: serde_json::Map<String, Json> = small.collect();
        said.details = Json::Object(small).to_string().into();
    }
    said
}
