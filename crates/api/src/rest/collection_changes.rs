//! What followers of the feed are shown of a change of a collection: which elements are there now and what they hold, and which are
//! gone. Amounts and scores are what they come to, so that a change that is told twice counts once.

use super::collection_page::shown_entry;
use super::collections::{estimate_of, size_of};
use super::value::text_of;
use mesh::collection::ElementEntry;
use mesh::{ChangeKind, Kind, Record};
use serde_json::{Map, Value};

/// What was done to an element, as far as its state shows.
pub fn op_of_element(kind: Kind, entry: &ElementEntry) -> &'static str {
    let state = &entry.state;
    match kind {
        Kind::Flag if !state.is_visible() => "disable",
        _ if !state.is_visible() => "remove",
        Kind::Flag => "enable",
        Kind::HyperLogLog => "observe",
        Kind::List => "insert",
        Kind::Map | Kind::SortedSet if state.is_counted() => "increment",
        Kind::Map | Kind::SortedSet => "set",
        _ => "add",
    }
}

/// What was done to a collection; none for another record. `state` begins all of its elements, `elements` goes on with them or
/// tells several that have changed in different ways.
pub fn op_of(kind: ChangeKind, record: &Record) -> Option<&'static str> {
    let header = record.collection_header()?;
    if record.header.tombstone && header.exact_count() == Some(0) {
        return Some("delete");
    }
    if kind == ChangeKind::FirstElements {
        return Some("state");
    }
    let mut ops = record.changed_elements().iter().map(|entry| op_of_element(record.kind, entry));
    let first = ops.next();
    Some(first.filter(|first| ops.all(|op| op == *first)).unwrap_or("elements"))
}

/// The elements of a change, and how many there are in all.
pub fn show(record: &Record) -> Map<String, Value> {
    let mut said = Map::new();
    let changed = record.changed_elements();
    match record.kind {
        Kind::Flag => drop(said.insert("value".to_owned(), size_of(record).as_u64().map(|n| n > 0).into())),
        Kind::HyperLogLog => drop(said.insert("value".to_owned(), estimate_of(record))),
        kind => {
            let changes = changed.iter().map(|entry| show_element(kind, entry));
            said.insert("changes".to_owned(), changes.collect());
            said.insert("size".to_owned(), size_of(record));
        }
    }
    said
}

fn show_element(kind: Kind, entry: &ElementEntry) -> Value {
    let shown = match kind {
        Kind::BigSet => Map::from_iter([("element".to_owned(), text_of(&entry.name).into_owned().into())]),
        _ => shown_entry(kind, entry),
    };
    let mut said = Map::from_iter([("op".to_owned(), Value::from(op_of_element(kind, entry)))]);
    let is_there = entry.state.is_visible();
    said.extend(
        shown.into_iter().filter(|(name, _)| is_there || !matches!(name.as_str(), "value" | "score")),
    );
    Value::Object(said)
}
