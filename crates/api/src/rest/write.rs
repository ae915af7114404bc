//! One write into the mesh: its value, its attributes, and its answer.
//! A request's head and the value that its body holds go in; the record as it is now comes out, or a refusal. A
//! write that was conditional and came too late is answered with both sides.

use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::value::{self, CONTENT_TYPE_NAME, Content};
use super::{Rest, clock, handlers, json_text};
use base::{Code, FormatLevel};
use bytes::Bytes;
use mesh::{
    Context, Decimal, Key, Kind, METADATA_MAX, NotDone, Op, Record, RegionId, Write, namespaces::Policy,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of a metadata's name or value.
const METADATA_BYTES_MAX: usize = 1_024;
const HANDLER_BYTES_MAX: usize = 128;

/// The fields of a JSON body about a value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueBody<'a> {
    #[serde(borrow)]
    pub value: &'a RawValue,
    /// In seconds.
    pub ttl: Option<u64>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub schema_version: Option<u32>,
    pub home_region: Option<String>,
    /// How a custom value merges.
    pub handler: Option<String>,
}

pub const RIGHT: &str =
    r#"{"value": …, "ttl": seconds, "metadata": {"name": "text"}}, all but value optional"#;

/// How a conflict with the overwritten value is resolved.
pub fn policy(head: &RequestHead) -> Result<Policy, Refusal> {
    match head.header("x-conflict-resolution") {
        None => Ok(head.space.wants.policy),
        Some(word) => policy_named(&String::from_utf8_lossy(word)),
    }
}

pub const POLICIES: [(&str, Policy); 3] =
    [("LWW", Policy::LastWriteWins), ("CRDT", Policy::Merge), ("FAIL", Policy::Fail)];

pub fn policy_named(word: &str) -> Result<Policy, Refusal> {
    POLICIES
        .iter()
        .find(|(known, _)| *known == word)
        .map(|(_, policy)| *policy)
        .ok_or_else(|| Refusal::bad(format!("conflicts are resolved by LWW, CRDT or FAIL, not by `{word}`")))
}

/// The context that the key's value must have; none for a write without a condition.
pub fn expectation(head: &RequestHead) -> Result<Option<Context>, Refusal> {
    let seen = head.clock("X-If-Vector-Clock")?;
    Ok(match policy(head)? {
        Policy::Fail => Some(seen.unwrap_or_default()),
        Policy::LastWriteWins | Policy::Merge => seen,
    })
}

/// A write with this operation and no attributes yet.
pub fn plain(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    (kind, op): (Kind, Op),
    part: Option<usize>,
) -> Result<Write, Refusal> {
    if kind.collection().is_some() || kind == Kind::BoundedCounter {
        // Nodes of 0.1.0 cannot read them.
        rest.handle().formats().require(FormatLevel(1))?;
    }
    Ok(Write {
        attributes: head.attributes(rest, &key, part)?,
        key,
        kind,
        op,
        expect: expectation(head)?,
        w: head.w(rest)?,
        sloppy: head.query.flag("sloppy")?,
    })
}

/// A body of the type that its head says, as a write of the key.
pub fn of_body(rest: &Rest, head: &RequestHead, key: Key, body: &Bytes) -> Result<Write, Refusal> {
    match Content::of(&head.headers)? {
        Content::Json => of_given(rest, head, key, super::request_head::parse_json(body, RIGHT)?, None),
        Content::Raw(_) if head.header("x-conflict-resolution") == Some(b"CRDT") => Err(Refusal::bad(
            "bytes are kept as a register, of which the last write wins; send JSON to merge",
        )),
        Content::Raw(content_type) => {
            let ttl = head.query.number("ttl", 0, u64::MAX)?;
            let body = RawBody { data: body.clone(), content_type, ttl, metadata: BTreeMap::new() };
            of_bytes(rest, head, key, body)
        }
    }
}

/// A value that is bytes.
pub struct RawBody {
    pub data: Bytes,
    pub content_type: String,
    pub ttl: Option<u64>,
    pub metadata: BTreeMap<String, String>,
}

pub fn of_bytes(rest: &Rest, head: &RequestHead, key: Key, body: RawBody) -> Result<Write, Refusal> {
    let RawBody { data, content_type, ttl, metadata } = body;
    check_size(rest, data.len())?;
    value::check_content_type(&content_type)?;
    let mut write = plain(rest, head, key, (Kind::Register, Op::Put(data)), None)?;
    write.attributes.expires_ms = super::request_head::expiry(ttl)?;
    write.attributes.metadata = metadata_of(metadata)?;
    write.attributes.metadata.push((CONTENT_TYPE_NAME.into(), content_type.into()));
    Ok(write)
}

pub fn of_given(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    given: ValueBody<'_>,
    part: Option<usize>,
) -> Result<Write, Refusal> {
    let kind = kind_of(head, given.kind.as_deref())?;
    check_size(rest, given.value.get().len())?;
    let op = op_of(kind, given.value)?;
    let mut write = plain(rest, head, key, (kind, op), part)?;
    write.attributes.expires_ms = super::request_head::expiry(given.ttl)?;
    write.attributes.metadata = metadata_of(given.metadata)?;
    write.attributes.schema = given.schema_version.unwrap_or(0);
    write.attributes.handler = handler_of(kind, given.handler)?;
    let home = given.home_region.map(|name| RegionId::of(&name));
    write.attributes.home = home.or(write.attributes.home);
    Ok(write)
}

/// Only custom values have one; a value that is there already keeps its own.
fn handler_of(kind: Kind, named: Option<String>) -> Result<Option<Bytes>, Refusal> {
    match named {
        Some(_) if kind != Kind::Custom => Err(Refusal::bad("a handler goes with \"type\": \"custom\"")),
        Some(name) if !(1..=HANDLER_BYTES_MAX).contains(&name.len()) => {
            Err(Refusal::bad(format!("a handler's name has 1 to {HANDLER_BYTES_MAX} bytes")))
        }
        named => Ok(named.map(Bytes::from)),
    }
}

/// A client that wants to merge without naming a type keeps values side by side. The type decides how replicas resolve a
/// conflict, so a header that says otherwise is refused.
fn kind_of(head: &RequestHead, named: Option<&str>) -> Result<Kind, Refusal> {
    let policy = policy(head)?;
    let kind = match named {
        Some(name) => value::kind_named(name)?,
        None if policy == Policy::Merge && head.space.wants.kind.is_last_write_wins() => Kind::Siblings,
        None => head.space.wants.kind,
    };
    let asked_for = head.header("x-conflict-resolution");
    let suits = match (asked_for.is_some(), policy) {
        (false, _) | (true, Policy::Fail) => true,
        (true, Policy::LastWriteWins) => kind.is_last_write_wins(),
        (true, Policy::Merge) => !kind.is_last_write_wins(),
    };
    suits.then_some(kind).ok_or_else(|| {
        let (word, name) = (String::from_utf8_lossy(asked_for.unwrap_or_default()), value::kind_name(kind));
        Refusal::bad(format!(
            "X-Conflict-Resolution `{word}` is not how a {name} resolves; name another type, or FAIL"
        ))
    })
}

/// A value is kept as the text that it came as, if every reader can take it.
pub fn put_of(given: &RawValue) -> Result<Op, Refusal> {
    let text = given.get().as_bytes();
    json_text::check(text).map_err(|what| {
        Refusal::bad(format!("the value cannot be kept as JSON: {what}; send it as text or bytes"))
    })?;
    Ok(Op::Put(Bytes::copy_from_slice(text)))
}

fn op_of(kind: Kind, given: &RawValue) -> Result<Op, Refusal> {
    match kind {
        Kind::Register | Kind::Siblings | Kind::Custom => put_of(given),
        Kind::Numeric => Ok(Op::Assign(decimal_of(given)?.0)),
        Kind::GrowingCounter | Kind::Counter | Kind::BoundedCounter => Err(Refusal::bad(format!(
            "a {} is not put; POST /v1/crdt/{0}:KEY/increment {{\"amount\": 1}}",
            value::kind_name(kind)
        ))),
        Kind::Flag | Kind::Map | Kind::SortedSet | Kind::List | Kind::HyperLogLog | Kind::BigSet => {
            let name = value::kind_name(kind);
            let words = super::collection_ops::words(kind);
            Err(Refusal::bad(format!(
                "a {name} is not put; POST /v1/crdt/{name}:KEY/OPERATION, which is {words}"
            )))
        }
        Kind::Set => Err(Refusal::bad(
            "an orset is not put; POST /v1/crdt/set:KEY/add {\"element\": \"text\"}".to_owned(),
        )),
    }
}

/// A number, or text that is one: exact to eighteen digits behind the point.
pub fn decimal_of(given: &RawValue) -> Result<Decimal, Refusal> {
    let text = serde_json::from_str::<String>(given.get()).unwrap_or_else(|_| given.get().to_owned());
    Decimal::parse(&text).ok_or_else(|| {
        let right = "\"12.50\" or 12.5, with at most eighteen digits behind the point and no exponent";
        Refusal::bad(format!("`{text}` is no decimal; right is {right}"))
    })
}

fn metadata_of(given: BTreeMap<String, String>) -> Result<Vec<(Bytes, Bytes)>, Refusal> {
    let long = |text: &String| text.len() > METADATA_BYTES_MAX;
    if given.len() > METADATA_MAX || given.iter().any(|(name, value)| long(name) || long(value)) {
        let bounds = format!("{METADATA_MAX} pairs of at most {METADATA_BYTES_MAX} bytes each");
        return Err(Refusal::new(Code::RequestTooLarge, format!("metadata takes at most {bounds}")));
    }
    if given.keys().any(|name| name.as_bytes() == CONTENT_TYPE_NAME) {
        return Err(Refusal::bad("the metadata `content-type` is ours; send bytes with their Content-Type"));
    }
    Ok(given.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
}

fn check_size(rest: &Rest, len: usize) -> Result<(), Refusal> {
    let max = rest.value_bytes_max();
    if len > max {
        Err(Refusal::new(
            Code::RequestTooLarge,
            format!("a value takes at most {max} bytes, this one has {len}"),
        ))
    } else {
        Ok(())
    }
}

/// Sends the write to the mesh, and waits.
pub async fn perform(rest: &Rest, head: &RequestHead, write: Write) -> Result<Box<Record>, Refusal> {
    let wanted = WriteIntent::of(&write);
    let write = Arc::new(write);
    let reply = match rest.ask(write.clone(), head.timeout()?).await {
        Err(refusal) if refusal.code == Code::UnknownHandler => {
            handlers::perform_when_known(rest, &write, head.timeout()?).await
        }
        reply => reply,
    };
    wanted.settled(rest, reply?)
}

/// The record as the mesh has it now, or why it was not written.
pub type WriteReply = Result<Box<Record>, NotDone>;

/// The write's operation and condition, for the answer if a conflict prevents it.
pub struct WriteIntent {
    op: Op,
    expect: Option<Context>,
}

impl WriteIntent {
    pub fn of(write: &Write) -> WriteIntent {
        WriteIntent { op: write.op.clone(), expect: write.expect.clone() }
    }

    /// The outcome of the write.
    pub fn settled(&self, rest: &Rest, reply: WriteReply) -> Result<Box<Record>, Refusal> {
        match reply {
            Err(NotDone::Conflict(record)) => Err(conflict(rest, &record, &self.op, self.expect.as_ref())),
            reply => settled(rest, reply),
        }
    }
}

/// The outcome of a write without a condition.
pub fn settled(rest: &Rest, reply: WriteReply) -> Result<Box<Record>, Refusal> {
    reply.map_err(|not_done| match not_done {
        NotDone::Unavailable { acks, needed, missing } => rest.not_written(acks, needed, &missing),
        not_done => rest.refusal(not_done),
    })
}

/// Both sides: what is there, and what was to be written.
fn conflict(rest: &Rest, record: &Record, op: &Op, expect: Option<&Context>) -> Refusal {
    let (local, _) = value::show(record);
    let remote = match op {
        Op::Put(bytes) => serde_json::to_value(value::show_bytes(bytes, None).0).unwrap_or(Value::Null),
        Op::Assign(units) => Decimal(*units).to_string().into(),
        _ => Value::Null,
    };
    let clock = |context: &Context| {
        let counts = clock::by_region(context, |region| rest.region_name(region));
        serde_json::to_value(counts).expect("counts can be written as JSON")
    };
    let message =
        "the key holds what the writer has not seen; read it, and write again with X-If-Vector-Clock";
    Refusal::new(Code::ConflictDetected, message)
        .with("local_value", serde_json::to_value(local).unwrap_or(Value::Null))
        .with("local_clock", clock(&record.context))
        .with("local_vector_clock", clock::code_name(&record.context))
        .with("remote_value", remote)
        .with("remote_clock", expect.map_or_else(|| Value::Object(Default::default()), clock))
        .with("resolution_hint", "concurrent_writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for (text, right) in [("12.5", "12.5"), ("\"-0.10\"", "-0.1"), ("100", "100")] {
            assert_eq!(decimal_of(&raw(text)).unwrap().to_string(), right);
        }
        for text in ["1e3", "\"ten\"", "null", "[1]", "0.1234567890123456789"] {
            assert!(decimal_of(&raw(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn metadata_is_bounded_and_one_name_is_ours() {
        let pairs = |n: usize| (0..n).map(|i| (format!("{i:03}"), String::new())).collect();
        assert!(metadata_of(pairs(METADATA_MAX)).is_ok());
        assert!(metadata_of(pairs(METADATA_MAX + 1)).is_err());
        let long = BTreeMap::from([("a".to_owned(), "x".repeat(METADATA_BYTES_MAX + 1))]);
        assert!(metadata_of(long).is_err());
        assert!(metadata_of(BTreeMap::from([("content-type".to_owned(), String::new())])).is_err());
    }
}
