//! `/v1/crdt/{type}:{key}/{operation}`: operations on values that merge.
//! The path names the type, the key and the operation, the body its argument; the answer is the value afterwards, as
//! the replica that took the operation has it.

use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, parse_json};
use super::value::{self, text_of};
use super::write::{decimal_of, perform, plain, put_of};
use super::{Rest, bounded, clock, collection_ops, collections, data, json, read_result};
use axum::response::Response;
use base::Code;
use mesh::{Body, Decimal, Key, Kind, Op, Record};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub const POST_PARAMS: [&str; 4] = ["w", "sloppy", "timeout_ms", "type"];
pub const GET_PARAMS: [&str; 11] = [
    "r",
    "timeout_ms",
    "contains",
    "element",
    "type",
    "limit",
    "page",
    "rank",
    "min_score",
    "max_score",
    "reverse",
];

/// Types by the names that paths use.
const TYPES: [(&str, Kind); 17] = [
    ("counter", Kind::Counter),
    ("pncounter", Kind::Counter),
    ("gcounter", Kind::GrowingCounter),
    ("bounded_counter", Kind::BoundedCounter),
    ("set", Kind::Set),
    ("orset", Kind::Set),
    ("register", Kind::Register),
    ("lww_register", Kind::Register),
    ("delta_numeric", Kind::Numeric),
    ("numeric", Kind::Numeric),
    ("siblings", Kind::Siblings),
    ("bigset", Kind::BigSet),
    ("map", Kind::Map),
    ("sorted_set", Kind::SortedSet),
    ("list", Kind::List),
    ("flag", Kind::Flag),
    ("hyperloglog", Kind::HyperLogLog),
];

/// `counter:visits` names a type and a key. Where the query names the type, the whole of it is the key.
pub fn parse_name<'a>(name: &'a str, named: Option<&'a str>) -> Result<(Kind, &'a str), Refusal> {
    let apart = named.map(|kind| (kind, name)).or_else(|| name.split_once(':'));
    let (kind, key) = apart.ok_or_else(|| {
        let right = "TYPE:KEY, as counter:visits, set:tags or delta_numeric:account, or KEY with ?type=TYPE";
        Refusal::bad(format!("`{name}` must be {right}"))
    })?;
    let known = TYPES.iter().find(|(known, _)| *known == kind).map(|(_, kind)| *kind);
    let kind = known.ok_or_else(|| {
        let names = TYPES.map(|(name, _)| name).join(", ");
        Refusal::bad(format!("`{kind}` is no type that merges; there are {names}"))
    })?;
    Ok((kind, key))
}

#[derive(Debug, PartialEq, Eq)]
enum CrdtOperation {
    Change(Op),
    Contains(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueArgument<'a> {
    amount: Option<i64>,
    element: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
}

fn parse_operation(kind: Kind, word: &str, body: &[u8]) -> Result<CrdtOperation, Refusal> {
    if kind == Kind::BoundedCounter
        && let Some(op) = bounded::parse(word, body)?
    {
        return Ok(CrdtOperation::Change(op));
    }
    let right = match (kind, word) {
        (Kind::Counter | Kind::GrowingCounter, _) => r#"{"amount": 5}, or nothing for 1"#,
        (Kind::Set, _) => r#"{"element": "item-xyz"}"#,
        (Kind::Numeric, "add" | "subtract") => r#"{"delta": "12.50"}"#,
        _ => r#"{"value": …}"#,
    };
    let argument: ValueArgument<'_> =
        if body.is_empty() { ValueArgument::default() } else { parse_json(body, right)? };
    let missing = || Refusal::bad(format!("the operation `{word}` needs an argument; right is {right}"));
    let op = match (kind, word) {
        (Kind::Counter | Kind::GrowingCounter, "increment" | "decrement") => {
            let amount = i128::from(argument.amount.unwrap_or(1));
            if amount < 0 {
                return Err(Refusal::bad("amount must not be negative; use the opposite operation"));
            }
            Op::Add(if word == "increment" { amount } else { -amount })
        }
        (Kind::Set, "add") => Op::Insert(element(argument).ok_or_else(missing)?.into()),
        (Kind::Set, "remove") => Op::Remove(element(argument).ok_or_else(missing)?.into()),
        (Kind::Set, "contains") => {
            return Ok(CrdtOperation::Contains(element(argument).ok_or_else(missing)?));
        }
        (Kind::Register | Kind::Siblings, "set") => put_of(argument.value.ok_or_else(missing)?)?,
        (Kind::Numeric, "set") => Op::Assign(decimal_of(argument.value.ok_or_else(missing)?)?.0),
        (Kind::Numeric, "add" | "subtract") => {
            let delta = decimal_of(argument.delta.or(argument.value).ok_or_else(missing)?)?.0;
            Op::Add(if word == "add" { delta } else { delta.checked_neg().unwrap_or(i128::MAX) })
        }
        (_, "delete") => Op::Delete,
        (kind, word) => return Err(unknown(kind, word)),
    };
    Ok(CrdtOperation::Change(op))
}

/// An operation that changes the value.
pub fn parse_change(kind: Kind, word: &str, body: &[u8]) -> Result<Op, Refusal> {
    if kind.collection().is_some() {
        return collection_ops::parse_change(kind, word, body);
    }
    match parse_operation(kind, word, body)? {
        CrdtOperation::Change(op) => Ok(op),
        CrdtOperation::Contains(_) => Err(Refusal::bad(format!("`{word}` changes nothing; read the key"))),
    }
}

fn element(argument: ValueArgument<'_>) -> Option<String> {
    argument.element
}

fn unknown(kind: Kind, word: &str) -> Refusal {
    let words = match kind {
        Kind::Counter => "increment, decrement and delete",
        Kind::GrowingCounter => "increment and delete",
        Kind::BoundedCounter => bounded::WORDS,
        Kind::Set => "add, remove, contains and delete",
        Kind::Register | Kind::Siblings | Kind::Custom => "set and delete",
        Kind::Numeric => "add, subtract, set and delete",
        Kind::Flag | Kind::Map | Kind::SortedSet | Kind::List | Kind::HyperLogLog | Kind::BigSet => {
            collection_ops::words(kind)
        }
    };
    Refusal::bad(format!("a {} has no operation `{word}`; it has {words}", value::kind_name(kind)))
}

/// The path behind `/v1/crdt/` ends with the operation; the key may have slashes in it.
pub async fn post(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&POST_PARAMS)?;
    let path = head.key_text()?;
    let (name, word) = path.rsplit_once('/').ok_or_else(|| {
        Refusal::bad("an operation is POST /v1/crdt/TYPE:KEY/OPERATION, as /v1/crdt/counter:visits/increment")
    })?;
    let (kind, text) = parse_name(name, head.query.get("type"))?;
    let key = head.key_of(text)?;
    if kind.collection().is_some() {
        return collections::post(&rest, &head, key, (kind, word), &body).await;
    }
    let op = match parse_operation(kind, word, &body)? {
        CrdtOperation::Change(op) => op,
        CrdtOperation::Contains(element) => return contains(&rest, &head, key, &element).await,
    };
    change(&rest, &head, key, kind, op).await
}

pub async fn delete(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&POST_PARAMS)?;
    let (kind, text) = parse_name(head.key_text()?, head.query.get("type"))?;
    let key = head.key_of(text)?;
    if kind.collection().is_some() {
        return collections::delete(&rest, &head, key, kind).await;
    }
    change(&rest, &head, key, kind, Op::Delete).await
}

async fn change(rest: &Rest, head: &RequestHead, key: Key, kind: Kind, op: Op) -> Result<Response, Refusal> {
    let write = plain(rest, head, key, (kind, op), None)?;
    let record = perform(rest, head, write).await?;
    let mut response = json(&render(rest, &record));
    data::head_of_write(rest, head, &record, &mut response).await?;
    Ok(response)
}

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&GET_PARAMS)?;
    let (kind, text) = parse_name(head.key_text()?, head.query.get("type"))?;
    let key = head.key_of(text)?;
    if kind.collection().is_some() {
        return collections::get(&rest, &head, key, kind).await;
    }
    if let Some(element) = head.query.get("contains") {
        return contains(&rest, &head, key, element).await;
    }
    let result = read_result::read(&rest, &head, key).await?;
    let record = result.live(&rest, &head)?;
    check_kind(&record, kind)?;
    let mut response = json(&render(&rest, &record));
    result.head(&rest, &head, &mut response)?;
    Ok(response)
}

fn check_kind(record: &Record, kind: Kind) -> Result<(), Refusal> {
    if record.kind == kind {
        Ok(())
    } else {
        Err(Refusal::new(
            Code::WrongType,
            format!("the key holds a {}, not a {}", value::kind_name(record.kind), value::kind_name(kind)),
        ))
    }
}

/// A set that is not there contains nothing.
async fn contains(rest: &Rest, head: &RequestHead, key: Key, element: &str) -> Result<Response, Refusal> {
    let result = read_result::read(rest, head, key).await?;
    let record = result.record.as_ref().filter(|record| record.is_live(super::request_head::now_ms()));
    let contains = match record {
        None => false,
        Some(record) => {
            check_kind(record, Kind::Set)?;
            matches!(&record.body, Body::Set(set) if set.contains(element.as_bytes()))
        }
    };
    let mut response = json(&serde_json::json!({ "element": element, "contains": contains }));
    result.head(rest, head, &mut response)?;
    Ok(response)
}

pub fn render(rest: &Rest, record: &Record) -> Map<String, Value> {
    if let Some(counter) = record.bounded() {
        return bounded::show(counter, |region| rest.region_name(region));
    }
    let mut said = Map::new();
    let mut add = |name: &str, value: Value| said.insert(name.to_owned(), value);
    match &record.body {
        Body::Set(set) => {
            let elements: Vec<Value> = set.elements().map(|element| text_of(element).into()).collect();
            add("size", elements.len().into());
            add("elements", elements.into());
        }
        Body::Counter(tally) => {
            let number = |units: i128| {
                if record.kind == Kind::Numeric {
                    Value::from(Decimal(units).to_string())
                } else {
                    whole(units)
                }
            };
            let parts = value::parts_by_region(record, |region| rest.region_name(region));
            add("value", number(tally.value()));
            add("state", parts.into_iter().map(|(region, part)| (region, number(part))).collect());
        }
        // Deleted.
        Body::Bounded(_) => {
            add("value", Value::Null);
        }
        Body::Collection(_) => {
            add("size", collections::size_of(record));
        }
        Body::Register(_) | Body::Siblings(_) => {
            let shown = serde_json::to_value(value::show(record).0).unwrap_or(Value::Null);
            add("value", shown);
            add("vector_clock", {
                let counts = clock::by_region(&record.context, |region| rest.region_name(region));
                counts.into_iter().map(|(region, count)| (region, Value::from(count))).collect()
            });
        }
    }
    said
}

/// A number that is too large for JSON is text.
pub fn whole(units: i128) -> Value {
    i64::try_from(units).map_or_else(|_| Value::from(units.to_string()), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: Kind, word: &str, body: &str) -> Option<CrdtOperation> {
        parse_operation(kind, word, body.as_bytes()).ok()
    }

    #[test]
    fn paths_name_a_type_and_a_key() {
        assert_eq!(parse_name("counter:a:b/c", None).unwrap(), (Kind::Counter, "a:b/c"));
        assert_eq!(parse_name("a:b/c", Some("set")).unwrap(), (Kind::Set, "a:b/c"));
        assert!(parse_name("counter", None).is_err() && parse_name("heap:a", None).is_err());
        assert!(parse_name("a", Some("heap")).is_err());
    }

    #[test]
    fn operations_are_those_of_their_type() {
        let add = |amount| Some(CrdtOperation::Change(Op::Add(amount)));
        assert_eq!(operation(Kind::Counter, "increment", r#"{"amount": 5}"#), add(5));
        assert_eq!(operation(Kind::Counter, "decrement", ""), add(-1));
        assert_eq!(operation(Kind::Numeric, "add", r#"{"delta": "-0.5"}"#), add(-500_000_000_000_000_000));
        let insert = Some(CrdtOperation::Change(Op::Insert("x".into())));
        assert_eq!(operation(Kind::Set, "add", r#"{"element": "x"}"#), insert);
        assert_eq!(
            operation(Kind::Set, "contains", r#"{"element": "x"}"#),
            Some(CrdtOperation::Contains("x".into()))
        );
        for (kind, word, body) in [
            (Kind::Counter, "add", ""),
            (Kind::Counter, "increment", r#"{"amount": -5}"#),
            (Kind::Counter, "increment", r#"{"amount": 1.5}"#),
            (Kind::Counter, "increment", r#"{"amount": 99999999999999999999}"#),
            (Kind::Counter, "increment", "[]"),
            (Kind::Set, "add", ""),
            (Kind::Set, "add", r#"{"element": 3}"#),
            (Kind::Set, "add", r#"{"elephant": "x"}"#),
            (Kind::Register, "set", "{}"),
            (Kind::Numeric, "set", r#"{"value": "much"}"#),
        ] {
            assert_eq!(operation(kind, word, body), None, "{kind:?} {word} {body}");
        }
    }
}
