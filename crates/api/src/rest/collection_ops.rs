//! Operations on collections as requests name them: a type, a word and an argument in JSON go in; what is to be done comes out,
//! or what would have been right. The names of elements are text; those of the items of a list are their positions.

use super::refusal::Refusal;
use super::request_head::{expiry, parse_json};
use super::value;
use super::write::{decimal_of, put_of};
use base::Code;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use mesh::collection::{CollectionOp, InsertPosition};
use mesh::{Decimal, ELEMENTS_MAX, Kind, Op};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The end of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListEnd {
    First,
    #[default]
    Last,
}

#[derive(Debug, PartialEq)]
pub enum CollectionCall {
    Change(Vec<CollectionOp>),
    Delete,
    Contains(Vec<Bytes>),
    Get(Vec<Bytes>),
    /// So many items stand before the new ones.
    InsertAt(u64, Vec<Bytes>),
    Pop(ListEnd),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CollectionArgument<'a> {
    #[serde(alias = "field", alias = "member", alias = "position")]
    element: Option<String>,
    #[serde(alias = "members", alias = "positions")]
    elements: Vec<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    values: Vec<&'a RawValue>,
    #[serde(borrow)]
    fields: BTreeMap<String, &'a RawValue>,
    /// In seconds.
    ttl: Option<u64>,
    #[serde(borrow)]
    score: Option<&'a RawValue>,
    #[serde(borrow)]
    scores: BTreeMap<String, &'a RawValue>,
    #[serde(borrow)]
    by: Option<&'a RawValue>,
    end: ListEnd,
    index: Option<u64>,
    after: Option<String>,
    before: Option<String>,
}

/// What an operation takes.
fn right(kind: Kind, word: &str) -> &'static str {
    match (kind, word) {
        (Kind::Map, "set") => {
            r#"{"field": "name", "value": …}, or {"fields": {"name": …, "age": …}}, with "ttl": seconds if they expire"#
        }
        (Kind::Map, "increment") => r#"{"field": "visits", "by": "2.5"}, or without by for 1"#,
        (Kind::SortedSet, "set") => {
            r#"{"member": "ann", "score": "12.5"}, or {"scores": {"ann": 12.5, "bob": 7}}"#
        }
        (Kind::SortedSet, "increment") => r#"{"member": "ann", "by": "2.5"}, or without by for 1"#,
        (Kind::List, "push") => r#"{"value": …} or {"values": […]}, with "end": "first" or "last""#,
        (Kind::List, "insert") => {
            r#"{"value": …} or {"values": […]}, with one of "after": position, "before": position, "index": number"#
        }
        (Kind::List, "set") => r#"{"position": "…", "value": …}"#,
        (Kind::List, "pop") => r#"{"end": "first"}, or "last""#,
        (Kind::Map, _) => r#"{"field": "name"}, or {"elements": ["name", "age"]}"#,
        (Kind::SortedSet, _) => r#"{"member": "ann"}, or {"members": ["ann", "bob"]}"#,
        (Kind::List, _) => r#"{"position": "…"}, or {"positions": ["…", "…"]}"#,
        _ => r#"{"element": "item-xyz"}, or {"elements": ["item-1", "item-2"]}"#,
    }
}

/// The words of a type.
pub fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Map => "set, increment, remove, contains, get and delete",
        Kind::SortedSet => "set, increment, remove, contains, get and delete",
        Kind::List => "push, insert, set, remove, pop, get and delete",
        Kind::Flag => "enable, disable and delete",
        Kind::HyperLogLog => "observe and delete",
        _ => "add, remove, contains and delete",
    }
}

pub fn parse(kind: Kind, word: &str, body: &[u8]) -> Result<CollectionCall, Refusal> {
    let right = right(kind, word);
    let argument: CollectionArgument<'_> =
        if body.is_empty() { CollectionArgument::default() } else { parse_json(body, right)? };
    let missing = || Refusal::bad(format!("the operation `{word}` needs an argument; right is {right}"));
    let change = |op: CollectionOp| Ok(CollectionCall::Change(vec![op]));
    match (kind, word) {
        (_, "delete") => Ok(CollectionCall::Delete),
        (Kind::BigSet, "add") => change(CollectionOp::Add(argument.names(kind, &missing)?)),
        (Kind::HyperLogLog, "observe") => change(CollectionOp::Observe(argument.names(kind, &missing)?)),
        (Kind::Flag, "enable") => change(CollectionOp::Enable),
        (Kind::Flag, "disable") => change(CollectionOp::Disable),
        (Kind::BigSet | Kind::Map | Kind::SortedSet | Kind::List, "remove") => {
            change(CollectionOp::Remove(argument.names(kind, &missing)?))
        }
        (Kind::BigSet | Kind::Map | Kind::SortedSet, "contains") => {
            Ok(CollectionCall::Contains(argument.names(kind, &missing)?))
        }
        (Kind::Map | Kind::SortedSet | Kind::List, "get") => {
            Ok(CollectionCall::Get(argument.names(kind, &missing)?))
        }
        (Kind::Map, "set") => argument.set_fields(&missing),
        (Kind::SortedSet, "set") => argument.set_scores(&missing),
        (Kind::Map | Kind::SortedSet, "increment") => {
            let by = argument.by.map_or(Ok(Decimal::ONE), decimal_of)?;
            change(CollectionOp::Increment { name: argument.one(kind, &missing)?, by })
        }
        (Kind::List, "push") => {
            let place = match argument.end {
                ListEnd::First => InsertPosition::First,
                ListEnd::Last => InsertPosition::Last,
            };
            change(CollectionOp::Insert { place, values: argument.values(&missing)? })
        }
        (Kind::List, "insert") => {
            let values = argument.values(&missing)?;
            match (&argument.after, &argument.before, argument.index) {
                (Some(after), None, None) => {
                    change(CollectionOp::Insert { place: InsertPosition::After(position(after)?), values })
                }
                (None, Some(before), None) => {
                    change(CollectionOp::Insert { place: InsertPosition::Before(position(before)?), values })
                }
                (None, None, Some(index)) => Ok(CollectionCall::InsertAt(index, values)),
                _ => Err(missing()),
            }
        }
        (Kind::List, "set") => {
            let value = json_bytes(argument.value.ok_or_else(missing)?)?;
            change(CollectionOp::Replace { position: argument.one(kind, &missing)?, value })
        }
        (Kind::List, "pop") => Ok(CollectionCall::Pop(argument.end)),
        _ => {
            let name = value::kind_name(kind);
            Err(Refusal::bad(format!("a {name} has no operation `{word}`; it has {}", words(kind))))
        }
    }
}

/// An operation that changes the collection and needs no question before.
pub fn parse_change(kind: Kind, word: &str, body: &[u8]) -> Result<Op, Refusal> {
    match parse(kind, word, body)? {
        CollectionCall::Change(ops) => Ok(Op::Elements(ops)),
        CollectionCall::Delete => Ok(Op::Delete),
        _ => Err(Refusal::bad(format!("`{word}` is asked for alone, not within a batch"))),
    }
}

impl<'a> CollectionArgument<'a> {
    fn names(self, kind: Kind, missing: &dyn Fn() -> Refusal) -> Result<Vec<Bytes>, Refusal> {
        let all = self.elements.into_iter().chain(self.element);
        let names = all.map(|name| name_of(kind, &name)).collect::<Result<Vec<_>, _>>()?;
        match names.len() {
            0 => Err(missing()),
            n => check_number(n).map(|()| names),
        }
    }

    fn one(&self, kind: Kind, missing: &dyn Fn() -> Refusal) -> Result<Bytes, Refusal> {
        name_of(kind, self.element.as_deref().ok_or_else(missing)?)
    }

    fn values(&self, missing: &dyn Fn() -> Refusal) -> Result<Vec<Bytes>, Refusal> {
        let all = self.values.iter().copied().chain(self.value);
        let values = all.map(json_bytes).collect::<Result<Vec<_>, _>>()?;
        match values.len() {
            0 => Err(missing()),
            n => check_number(n).map(|()| values),
        }
    }

    fn set_fields(self, missing: &dyn Fn() -> Refusal) -> Result<CollectionCall, Refusal> {
        let expires_ms = expiry(self.ttl)?;
        let pairs = pairs(self.element, self.value, self.fields, missing)?;
        let op = |(field, value): (String, &RawValue)| {
            Ok(CollectionOp::SetField { field: field.into(), value: json_bytes(value)?, expires_ms })
        };
        pairs.into_iter().map(op).collect::<Result<Vec<_>, Refusal>>().map(CollectionCall::Change)
    }

    fn set_scores(self, missing: &dyn Fn() -> Refusal) -> Result<CollectionCall, Refusal> {
        let pairs = pairs(self.element, self.score, self.scores, missing)?;
        let op = |(member, score): (String, &RawValue)| {
            Ok(CollectionOp::SetScore { member: member.into(), score: decimal_of(score)? })
        };
        pairs.into_iter().map(op).collect::<Result<Vec<_>, Refusal>>().map(CollectionCall::Change)
    }
}

/// One name with what belongs to it, or several.
fn pairs<'a>(
    name: Option<String>,
    value: Option<&'a RawValue>,
    many: BTreeMap<String, &'a RawValue>,
    missing: &dyn Fn() -> Refusal,
) -> Result<Vec<(String, &'a RawValue)>, Refusal> {
    let pairs: Vec<_> = match (name, value, many.is_empty()) {
        (Some(name), Some(value), true) => vec![(name, value)],
        (None, None, false) => many.into_iter().collect(),
        _ => return Err(missing()),
    };
    check_number(pairs.len())?;
    Ok(pairs)
}

fn check_number(n: usize) -> Result<(), Refusal> {
    if n <= ELEMENTS_MAX {
        return Ok(());
    }
    let message = format!("an operation takes up to {ELEMENTS_MAX} elements, and not {n}");
    Err(Refusal::new(Code::TooManyOps, message))
}

fn json_bytes(given: &RawValue) -> Result<Bytes, Refusal> {
    match put_of(given)? {
        Op::Put(bytes) => Ok(bytes),
        _ => Err(Refusal::bad("the value cannot be kept")),
    }
}

/// The name of an element as it is kept.
pub fn name_of(kind: Kind, text: &str) -> Result<Bytes, Refusal> {
    if kind == Kind::List { position(text) } else { Ok(Bytes::copy_from_slice(text.as_bytes())) }
}

fn position(text: &str) -> Result<Bytes, Refusal> {
    let bad = || Refusal::bad("a position is one that an answer has named");
    Ok(URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_their_type() {
        let ops = |kind, word, body: &str| match parse(kind, word, body.as_bytes()) {
            Ok(CollectionCall::Change(ops)) => ops,
            Ok(other) => panic!("{other:?}"),
            Err(_) => Vec::new(),
        };
        let set = |field: &'static str, value: &'static str| CollectionOp::SetField {
            field: field.into(),
            value: value.into(),
            expires_ms: None,
        };
        assert_eq!(ops(Kind::Map, "set", r#"{"field": "a", "value": [1]}"#), [set("a", "[1]")]);
        let two = r#"{"fields": {"a": 1, "b": "x"}}"#;
        assert_eq!(ops(Kind::Map, "set", two), [set("a", "1"), set("b", r#""x""#)]);
        let by = |by| CollectionOp::Increment { name: "a".into(), by: Decimal::parse(by).unwrap() };
        assert_eq!(ops(Kind::Map, "increment", r#"{"field": "a"}"#), [by("1")]);
        assert_eq!(ops(Kind::SortedSet, "increment", r#"{"member": "a", "by": -2.5}"#), [by("-2.5")]);
        for (kind, word, body) in [
            (Kind::Map, "set", r#"{"field": "a"}"#),
            (Kind::Map, "set", r#"{"field": "a", "value": 1, "fields": {"b": 1}}"#),
            (Kind::Map, "push", r#"{"value": 1}"#),
            (Kind::SortedSet, "set", r#"{"member": "a", "score": "high"}"#),
            (Kind::List, "insert", r#"{"value": 1}"#),
            (Kind::List, "insert", r#"{"value": 1, "index": 0, "after": "AA"}"#),
            (Kind::List, "remove", r#"{"position": "!"}"#),
            (Kind::Flag, "add", r#"{"element": "a"}"#),
            (Kind::BigSet, "add", "{}"),
        ] {
            assert!(ops(kind, word, body).is_empty(), "{kind:?} {word} {body}");
        }
    }
}
