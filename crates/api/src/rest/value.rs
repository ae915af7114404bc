//! Values as clients write and read them: JSON, or bytes of any other kind with their content type.
//! JSON is kept as its text, so that what is read is what was written, digit for digit; bytes are kept as they are,
//! and their content type lies in the record's metadata under a name that clients cannot use for themselves.

use super::json_text;
use super::refusal::Refusal;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mesh::{Body, Decimal, Kind, Record, RegionId, Sibling};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The metadata in which the content type of bytes lies.
pub const CONTENT_TYPE_NAME: &[u8] = b"content-type";
const CONTENT_TYPE_BYTES_MAX: usize = 128;

/// How a request's body is to be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    Json,
    /// The bytes themselves, of this type.
    Raw(String),
}

impl Content {
    /// `curl -d` calls everything a form; no client means one here.
    pub fn of(headers: &HeaderMap) -> Result<Content, Refusal> {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Content::Json) };
        let text = value.to_str().map_err(|_| bad_content_type())?;
        check_content_type(text)?;
        let essence = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        Ok(match essence.as_str() {
            "" | "application/json" | "text/json" | "application/x-www-form-urlencoded" => Content::Json,
            json if json.ends_with("+json") => Content::Json,
            _ => Content::Raw(text.to_owned()),
        })
    }
}

/// Refuses what could not be a header of an answer.
pub fn check_content_type(text: &str) -> Result<(), Refusal> {
    let is_plain = HeaderValue::try_from(text).is_ok_and(|value| value.to_str().is_ok());
    if is_plain && text.len() <= CONTENT_TYPE_BYTES_MAX { Ok(()) } else { Err(bad_content_type()) }
}

fn bad_content_type() -> Refusal {
    Refusal::bad(format!("Content-Type must be plain text of at most {CONTENT_TYPE_BYTES_MAX} bytes"))
}

/// The type of what is stored; none for JSON.
pub fn content_type(record: &Record) -> Option<&str> {
    let metadata = &record.header.rare.as_ref()?.metadata;
    let (_, kind) = metadata.iter().find(|(name, _)| name == CONTENT_TYPE_NAME)?;
    std::str::from_utf8(kind).ok()
}

/// Types of which no browser runs anything, whatever the bytes are.
const INERT_TYPES: [&str; 13] = [
    "application/json",
    "application/octet-stream",
    "application/cbor",
    "application/msgpack",
    "application/x-protobuf",
    "application/gzip",
    "application/zip",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "text/plain",
    "text/csv",
];

/// The type under which stored bytes are answered: their own if it is inert, else that of any bytes.
pub fn inert_type(stored: &str) -> HeaderValue {
    let essence = stored.split(';').next().unwrap_or_default().trim();
    let is_inert = INERT_TYPES.iter().any(|inert| inert.eq_ignore_ascii_case(essence));
    let own = is_inert.then(|| HeaderValue::try_from(stored).ok()).flatten();
    own.unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// Whether the client wants the bytes alone: it asks for bytes, or for the very type that is stored.
pub fn wants_raw(headers: &HeaderMap, stored: Option<&str>) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.starts_with("application/octet-stream") || stored.is_some_and(|stored| accept == stored)
}

/// What metadata a record has beside the content type.
pub fn metadata(record: &Record) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
    let rare = record.header.rare.as_deref();
    let pairs = rare.map_or(&[][..], |rare| &rare.metadata);
    let pairs = pairs.iter().filter(|(name, _)| name != CONTENT_TYPE_NAME);
    pairs.map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value))).collect()
}

/// A value as JSON.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ShownValue<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
    Whole(i64),
    /// A number that needs more than 64 bits, as its digits.
    Large(Box<RawValue>),
    Elements(Vec<Cow<'a, str>>),
    Nothing,
}

/// What a record holds. The second is `base64` if bytes had to be written so.
pub fn show(record: &Record) -> (ShownValue<'_>, Option<&'static str>) {
    match &record.body {
        _ if record.is_tombstone() => (ShownValue::Nothing, None),
        Body::Register(bytes) => show_bytes(bytes, content_type(record)),
        Body::Counter(tally) if record.kind == Kind::Numeric => {
            (ShownValue::Text(Decimal(tally.value()).to_string().into()), None)
        }
        Body::Counter(tally) => (show_whole(tally.value()), None),
        Body::Set(set) => (ShownValue::Elements(set.elements().map(|one| text_of(one)).collect()), None),
        Body::Bounded(counter) => (show_whole(counter.value()), None),
        // Its elements are read page by page.
        Body::Collection(_) => (ShownValue::Nothing, None),
        Body::Siblings(siblings) => match newest(siblings.values()) {
            Some(sibling) => show_bytes(&sibling.value, content_type(record)),
            None => (ShownValue::Nothing, None),
        },
    }
}

/// Values side by side, oldest first; none of a value that stands alone.
pub fn show_all(record: &Record) -> Vec<ShownValue<'_>> {
    let Body::Siblings(siblings) = &record.body else { return Vec::new() };
    let mut values: Vec<&Sibling> = siblings.values().iter().collect();
    values.sort_by_key(|sibling| (sibling.stamp, sibling.dot));
    let shown = values.into_iter().map(|sibling| show_bytes(&sibling.value, content_type(record)).0);
    if siblings.values().len() > 1 { shown.collect() } else { Vec::new() }
}

fn show_whole<'a>(value: i128) -> ShownValue<'a> {
    if let Ok(value) = i64::try_from(value) {
        return ShownValue::Whole(value);
    }
    let digits = value.to_string();
    RawValue::from_string(digits.clone()).map_or(ShownValue::Text(digits.into()), ShownValue::Large)
}

/// Bytes that are no JSON although nothing says so are shown all the same. So is JSON that no reader could read again: a node
/// of 0.1.0 took it.
pub fn show_bytes<'a>(
    bytes: &'a Bytes,
    content_type: Option<&str>,
) -> (ShownValue<'a>, Option<&'static str>) {
    let text = content_type.is_some_and(|kind| kind.starts_with("text/"));
    match std::str::from_utf8(bytes) {
        Ok(plain) if text => (ShownValue::Text(plain.into()), None),
        Ok(plain) if content_type.is_none() && is_json(bytes) => match serde_json::from_str(plain) {
            Ok(json) => (ShownValue::Json(json), None),
            Err(_) => (ShownValue::Text(STANDARD.encode(bytes).into()), Some("base64")),
        },
        _ => (ShownValue::Text(STANDARD.encode(bytes).into()), Some("base64")),
    }
}

pub fn is_json(bytes: &[u8]) -> bool {
    json_text::check(bytes).is_ok()
}

/// The sibling that was written last.
fn newest(siblings: &[Sibling]) -> Option<&Sibling> {
    siblings.iter().max_by_key(|sibling| (sibling.stamp, sibling.dot))
}

/// Elements of sets are text.
pub fn text_of(bytes: &Bytes) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The types of data by the names that clients use.
pub const KINDS: [(&str, Kind); 14] = [
    ("lww_register", Kind::Register),
    ("gcounter", Kind::GrowingCounter),
    ("pncounter", Kind::Counter),
    ("delta_numeric", Kind::Numeric),
    ("orset", Kind::Set),
    ("siblings", Kind::Siblings),
    ("custom", Kind::Custom),
    ("bigset", Kind::BigSet),
    ("map", Kind::Map),
    ("sorted_set", Kind::SortedSet),
    ("list", Kind::List),
    ("flag", Kind::Flag),
    ("hyperloglog", Kind::HyperLogLog),
    ("bounded_counter", Kind::BoundedCounter),
];

pub fn kind_name(kind: Kind) -> &'static str {
    KINDS.iter().find(|(_, other)| *other == kind).map_or("unknown", |(name, _)| name)
}

pub fn kind_named(name: &str) -> Result<Kind, Refusal> {
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).ok_or_else(|| {
        let names = KINDS.map(|(name, _)| name).join(", ");
        Refusal::bad(format!("`{name}` is no type of data; there are {names}"))
    })
}

/// What each region has contributed to a sum.
pub fn parts_by_region(record: &Record, name: impl Fn(RegionId) -> String) -> BTreeMap<String, i128> {
    let mut parts = BTreeMap::new();
    if let Body::Counter(tally) = &record.body {
        for (actor, part) in tally.parts() {
            *parts.entry(name(actor.region)).or_insert(0) += part;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: axum::http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn only_what_is_no_json_is_taken_as_bytes() {
        for json in
            ["application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded"]
        {
            assert_eq!(Content::of(&headers(CONTENT_TYPE, json)).unwrap(), Content::Json, "{json}");
        }
        assert_eq!(Content::of(&HeaderMap::new()).unwrap(), Content::Json);
        let raw = Content::of(&headers(CONTENT_TYPE, "image/png")).unwrap();
        assert_eq!(raw, Content::Raw("image/png".to_owned()));
    }

    #[test]
    fn values_are_shown_as_they_were_written() {
        let shown = |bytes: &'static [u8], kind| {
            let bytes = Bytes::from_static(bytes);
            let (shown, encoding) = show_bytes(&bytes, kind);
            (serde_json::to_string(&shown).unwrap(), encoding)
        };
        assert_eq!(shown(b"1.10", None), ("1.10".to_owned(), None));
        assert_eq!(shown(br#"{"b":1, "a":2}"#, None), (r#"{"b":1, "a":2}"#.to_owned(), None));
        assert_eq!(shown(b"plain", Some("text/plain")), (r#""plain""#.to_owned(), None));
        assert_eq!(shown(b"\xff\x00", Some("image/png")), (r#""/wA=""#.to_owned(), Some("base64")));
        assert_eq!(shown(b"{", None), (r#""ew==""#.to_owned(), Some("base64")));
        assert_eq!(shown(b"1e400", None), (r#""MWU0MDA=""#.to_owned(), Some("base64")));
    }

    #[test]
    fn numbers_of_any_size_can_be_part_of_a_list() {
        for value in [0, -1, i128::from(i64::MIN), i128::from(u64::MAX), 1 << 116, -(1 << 116)] {
            let shown = show_whole(value);
            assert_eq!(serde_json::to_string(&shown).unwrap(), value.to_string());
            assert!(serde_json::to_value(&shown).is_ok());
        }
    }

    #[test]
    fn no_stored_type_makes_a_page() {
        for kind in ["image/png", "text/plain; charset=utf-8", "Application/JSON", "application/octet-stream"]
        {
            assert_eq!(inert_type(kind), kind);
        }
        for kind in [
            "text/html",
            "image/svg+xml",
            "text/xml",
            "application/xhtml+xml",
            "text/javascript",
            "application/pdf",
            "",
            "text/html;text/plain",
        ] {
            assert_eq!(inert_type(kind), "application/octet-stream", "{kind}");
        }
    }

    #[test]
    fn bytes_are_returned_to_clients_that_accept_them() {
        assert!(wants_raw(&headers(ACCEPT, "application/octet-stream"), None));
        assert!(wants_raw(&headers(ACCEPT, "image/png"), Some("image/png")));
        assert!(!wants_raw(&headers(ACCEPT, "*/*"), Some("image/png")));
        assert!(!wants_raw(&HeaderMap::new(), None));
    }
}
