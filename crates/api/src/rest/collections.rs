//! `/v1/crdt/{type}:{key}` for the types whose elements are rows of their own: `bigset`, `map`, `sorted_set`, `list`, `flag` and
//! `hyperloglog`. An operation costs the same in ten elements and in a million. It names its elements, up to a thousand at
//! once, and its answer never holds the collection; reads are paged. What collections do not take yet, as conditions, is
//! refused by name.

use super::collection_ops::{CollectionCall, ListEnd, name_of, parse};
use super::collection_page::{self as page, PageQuery};
use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::value::text_of;
use super::write::{perform, plain};
use super::{Rest, data, json};
use axum::response::Response;
use base::Code;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use mesh::collection::{CollectionOp, ElementEntry, InsertPosition, estimate};
use mesh::{ElementsQuery, Key, Kind, Op, Record};
use serde_json::{Map, Value};

/// An item that another client took at the same moment is not taken again; then the next one is tried.
const POPS_MAX: usize = 16;

/// What an operation has come to. Questions leave no record.
pub struct Outcome {
    pub said: Map<String, Value>,
    pub record: Option<Box<Record>>,
}

impl Outcome {
    fn answer(said: Value) -> Outcome {
        let said = match said {
            Value::Object(said) => said,
            _ => Map::new(),
        };
        Outcome { said, record: None }
    }
}

/// An operation by its name.
pub async fn post(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    (kind, word): (Kind, &str),
    body: &[u8],
) -> Result<Response, Refusal> {
    respond(rest, head, operate(rest, head, key, (kind, word), body).await?).await
}

pub async fn delete(rest: &Rest, head: &RequestHead, key: Key, kind: Kind) -> Result<Response, Refusal> {
    respond(rest, head, change(rest, head, key, kind, Op::Delete).await?).await
}

async fn respond(rest: &Rest, head: &RequestHead, outcome: Outcome) -> Result<Response, Refusal> {
    let mut response = json(&outcome.said);
    if let Some(record) = &outcome.record {
        data::head_of_write(rest, head, record, &mut response).await?;
    }
    Ok(response)
}

pub async fn operate(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    (kind, word): (Kind, &str),
    body: &[u8],
) -> Result<Outcome, Refusal> {
    match parse(kind, word, body)? {
        CollectionCall::Change(ops) => change(rest, head, key, kind, Op::Elements(ops)).await,
        CollectionCall::Delete => change(rest, head, key, kind, Op::Delete).await,
        CollectionCall::Contains(names) => contains(rest, head, key, kind, names).await,
        CollectionCall::Get(names) => {
            let entries = page::named(rest, head, key, kind, names).await?;
            let each =
                entries.iter().map(|entry| (page::shown_name(kind, &entry.name), page::shown(kind, entry)));
            Ok(Outcome::answer(serde_json::json!({ "values": each.collect::<Map<_, _>>() })))
        }
        CollectionCall::InsertAt(index, values) => insert_at(rest, head, key, index, values).await,
        CollectionCall::Pop(end) => pop(rest, head, key, end).await,
    }
}

async fn change(rest: &Rest, head: &RequestHead, key: Key, kind: Kind, op: Op) -> Result<Outcome, Refusal> {
    let body_of = |record: &Record| change_body(kind, &op, record);
    let record = perform(rest, head, plain(rest, head, key, (kind, op.clone()), None)?).await?;
    Ok(Outcome { said: body_of(&record), record: Some(record) })
}

/// What a change is answered with: how many elements there are now, and what was asked.
pub fn change_body(kind: Kind, op: &Op, record: &Record) -> Map<String, Value> {
    let mut said = Map::new();
    let size = size_of(record);
    match kind {
        Kind::Flag => {
            drop(said.insert("value".to_owned(), size.as_u64().map_or(Value::Null, |n| (n > 0).into())))
        }
        Kind::HyperLogLog => drop(said.insert("value".to_owned(), estimate_of(record))),
        _ => drop(said.insert("size".to_owned(), size)),
    }
    let changed = record.changed_elements();
    let Op::Elements(ops) = op else { return said };
    match ops.first() {
        Some(CollectionOp::Remove(_)) => drop(said.insert("removed".to_owned(), changed.len().into())),
        Some(CollectionOp::Increment { .. }) => {
            let value = changed.first().map(|entry| page::shown(kind, entry));
            said.insert("value".to_owned(), value.into());
        }
        Some(CollectionOp::Insert { .. }) => {
            let positions = changed.iter().map(|entry| page::shown_name(kind, &entry.name));
            said.insert("positions".to_owned(), positions.collect());
        }
        _ => {}
    }
    said
}

/// As the replica that answered counts; nothing while it counts what has survived a delete.
pub fn size_of(record: &Record) -> Value {
    record.collection_header().and_then(|header| header.exact_count()).map_or(Value::Null, Value::from)
}

pub fn estimate_of(record: &Record) -> Value {
    record.collection_header().map_or(Value::Null, |header| estimate(&header.ranks).into())
}

/// A collection that is not there contains nothing.
async fn contains(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    kind: Kind,
    names: Vec<Bytes>,
) -> Result<Outcome, Refusal> {
    let entries = page::named(rest, head, key, kind, names.clone()).await?;
    let found = |name: &Bytes| entries.iter().any(|entry| entry.name == *name);
    Ok(Outcome::answer(match names.as_slice() {
        [name] => serde_json::json!({ "element": text_of(name), "contains": found(name) }),
        many => {
            let each = many.iter().map(|name| (text_of(name).into_owned(), Value::from(found(name))));
            serde_json::json!({ "contains": each.collect::<Map<_, _>>() })
        }
    }))
}

/// The item with so many before it, as a quorum has the list.
async fn item_at(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    index: u64,
) -> Result<Option<ElementEntry>, Refusal> {
    let query = ElementsQuery::Ranks { from: index, limit: 1 };
    let found = page::read(rest, head, key, Kind::List, query).await?;
    Ok(found.elements.into_iter().next())
}

async fn insert_at(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    index: u64,
    values: Vec<Bytes>,
) -> Result<Outcome, Refusal> {
    let place = match index.checked_sub(1) {
        None => InsertPosition::First,
        Some(before) => {
            let left = item_at(rest, head, key.clone(), before).await?;
            left.map_or(InsertPosition::Last, |left| InsertPosition::After(left.name))
        }
    };
    change(rest, head, key, Kind::List, Op::Elements(vec![CollectionOp::Insert { place, values }])).await
}

/// What is at an end of a list.
enum EndItem {
    Found(ElementEntry),
    Empty,
    /// Items come and go there.
    Moved,
}

/// Items that a look at the beginning of a list reads: those that are being removed hide others.
const FIRST_ITEMS: usize = 4;

async fn first_item(rest: &Rest, head: &RequestHead, key: &Key) -> Result<EndItem, Refusal> {
    let mut after = None;
    loop {
        let query = ElementsQuery::Page { after, limit: FIRST_ITEMS };
        let page = page::read(rest, head, key.clone(), Kind::List, query).await?;
        match (page.elements.into_iter().next(), page.next) {
            (Some(item), _) => return Ok(EndItem::Found(item)),
            (None, None) => return Ok(EndItem::Empty),
            (None, next) => after = next,
        }
    }
}

/// Where replicas do not agree upon the last item, it is the one behind all others that they count.
async fn last_item(rest: &Rest, head: &RequestHead, key: &Key) -> Result<EndItem, Refusal> {
    let last = page::read(rest, head, key.clone(), Kind::List, ElementsQuery::Last).await?;
    if let Some(item) = last.elements.into_iter().next() {
        return Ok(EndItem::Found(item));
    }
    let count = page::read(rest, head, key.clone(), Kind::List, ElementsQuery::Count).await?;
    match (count.record, count.count) {
        (None, _) | (_, Some(0)) => Ok(EndItem::Empty),
        (_, None) => Ok(EndItem::Moved),
        (_, Some(n)) => {
            Ok(item_at(rest, head, key.clone(), n - 1).await?.map_or(EndItem::Moved, EndItem::Found))
        }
    }
}

/// Removes the item at an end and answers it. Clients of two nodes may be answered the same item.
async fn pop(rest: &Rest, head: &RequestHead, key: Key, end: ListEnd) -> Result<Outcome, Refusal> {
    for _ in 0..POPS_MAX {
        let found = match end {
            ListEnd::First => first_item(rest, head, &key).await?,
            ListEnd::Last => last_item(rest, head, &key).await?,
        };
        let item = match found {
            EndItem::Found(item) => item,
            EndItem::Empty => return Ok(Outcome::answer(serde_json::json!({ "value": null, "size": 0 }))),
            EndItem::Moved => continue,
        };
        let removal = Op::Elements(vec![CollectionOp::Remove(vec![item.name.clone()])]);
        let mut removed = change(rest, head, key.clone(), Kind::List, removal).await?;
        let taken = removed.record.as_ref().and_then(|record| record.changed_elements().first().cloned());
        if let Some(taken) = taken {
            removed.said.insert("value".to_owned(), page::shown(Kind::List, &taken));
            return Ok(removed);
        }
    }
    Err(Code::NotInStep.into())
}

/// How many elements there are, and a page of them; one element, or whether it is there.
pub async fn get(rest: &Rest, head: &RequestHead, key: Key, kind: Kind) -> Result<Response, Refusal> {
    if let Some(name) = head.query.get("contains") {
        let names = vec![name_of(kind, name)?];
        return respond(rest, head, contains(rest, head, key, kind, names).await?).await;
    }
    if let Some(name) = head.query.get("element") {
        let entries = page::named(rest, head, key, kind, vec![name_of(kind, name)?]).await?;
        let value = entries.first().map(|entry| page::shown(kind, entry));
        let value = value.ok_or_else(|| Refusal::new(Code::KeyAbsent, "there is no such element"))?;
        return Ok(json(&serde_json::json!({ "element": name, "value": value })));
    }
    let seen = page::page(rest, head, key, kind, &PageQuery::of(head, kind)?).await?;
    let mut said = Map::new();
    match kind {
        Kind::Flag => drop(said.insert("value".to_owned(), seen.size.is_some_and(|n| n > 0).into())),
        Kind::HyperLogLog => drop(said.insert("value".to_owned(), seen.estimate.into())),
        Kind::BigSet => {
            let elements = seen.entries.iter().map(|entry| text_of(&entry.name));
            said.insert("elements".to_owned(), elements.collect());
        }
        _ => {
            let entries = seen.entries.iter().map(|entry| Value::Object(page::shown_entry(kind, entry)));
            said.insert("entries".to_owned(), entries.collect());
        }
    }
    if !matches!(kind, Kind::Flag | Kind::HyperLogLog) {
        said.insert("size".to_owned(), seen.size.into());
        said.insert("next_page".to_owned(), seen.next.map(|next| URL_SAFE_NO_PAD.encode(next)).into());
    }
    let mut response = json(&said);
    response.headers_mut().insert("x-vector-clock", super::clock::header_of(&seen.record.context));
    Ok(response)
}
