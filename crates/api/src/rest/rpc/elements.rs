//! Collections over gRPC: the operations of the REST API by their names, and pages of elements as messages.

use super::message;
use super::{NO_OPERATION, operation_of};
use crate::rest::collection_ops::name_of;
use crate::rest::collection_page::{self as page, PageQuery};
use crate::rest::refusal::Refusal;
use crate::rest::request_head::RequestHead;
use crate::rest::{Rest, collections, crdt, session};
use bytes::Bytes;
use mesh::collection::{Direction, ElementEntry};
use mesh::{Decimal, ELEMENTS_MAX, Kind};
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::value::Kind as ValueKind;

/// Elements of a page, if the request does not say.
const PAGE_DEFAULT: usize = 100;

pub async fn update(
    rest: &Rest,
    head: &RequestHead,
    request: wire::UpdateRequest,
) -> Result<wire::UpdateResponse, Refusal> {
    let wire::UpdateRequest { key, r#type, operation, .. } = request;
    let (kind, text) = crdt::parse_name(&key, Some(&r#type))?;
    let operation = operation.and_then(|operation| operation.kind);
    let (name, argument) = operation_of(operation.ok_or_else(|| Refusal::bad(NO_OPERATION))?)?;
    let asked = (kind, name.as_str());
    let outcome = collections::operate(rest, head, head.key_of(text)?, asked, argument.as_bytes()).await?;
    let session = message::session(session::token(head, outcome.record.as_deref().into_iter())?);
    let entry = outcome.record.as_ref().map(|record| message::entry(rest, key, record));
    let result = serde_json::Value::Object(outcome.said).to_string().into();
    Ok(wire::UpdateResponse { entry, session, result })
}

pub async fn read(
    rest: &Rest,
    head: &RequestHead,
    request: wire::ElementsRequest,
) -> Result<wire::ElementsResponse, Refusal> {
    let (kind, text) = crdt::parse_name(&request.key, Some(&request.r#type))?;
    if kind.collection().is_none() {
        return Err(Refusal::bad(format!("a {} has no elements to be read", request.r#type)));
    }
    let key = head.key_of(text)?;
    let element = |entry: &ElementEntry| message_of(kind, entry);
    if !request.names.is_empty() {
        let names =
            request.names.iter().map(|name| name_of(kind, name)).collect::<Result<Vec<Bytes>, _>>()?;
        let entries = page::named(rest, head, key, kind, names).await?;
        let elements = entries.iter().map(element).collect();
        return Ok(wire::ElementsResponse { elements, ..wire::ElementsResponse::default() });
    }
    let seen = page::page(rest, head, key, kind, &query_of(kind, &request)?).await?;
    Ok(wire::ElementsResponse {
        elements: seen.entries.iter().map(element).collect(),
        size: seen.size.unwrap_or(0),
        estimate: seen.estimate.unwrap_or(0),
        next_page: seen.next.unwrap_or_default(),
    })
}

fn query_of(kind: Kind, request: &wire::ElementsRequest) -> Result<PageQuery, Refusal> {
    let score = |text: &str| match text {
        "" => Ok(None),
        text => Decimal::parse(text)
            .map(Some)
            .ok_or_else(|| Refusal::bad(format!("`{text}` is no score, as 12.5"))),
    };
    let limit = match request.limit as usize {
        0 => PAGE_DEFAULT,
        limit => limit.min(ELEMENTS_MAX),
    };
    let asked = PageQuery {
        limit,
        after: Some(request.page.clone()).filter(|page| !page.is_empty()),
        rank: request.rank,
        least: score(&request.min_score)?,
        greatest: score(&request.max_score)?,
        direction: if request.reverse { Direction::Down } else { Direction::Up },
    };
    asked.checked(kind, || Refusal::bad("page must be the next_page of an earlier answer"))
}

pub fn message_of(kind: Kind, entry: &ElementEntry) -> wire::Element {
    let value = match (kind, entry.state.register()) {
        (Kind::BigSet, _) => None,
        (Kind::SortedSet, _) => Some(ValueKind::Decimal(entry.state.score().to_string())),
        (_, Some(json)) => Some(ValueKind::Json(json.clone())),
        (_, None) => Some(ValueKind::Decimal(entry.state.amount().to_string())),
    };
    let value = value.map(|kind| wire::Value { kind: Some(kind) });
    wire::Element { name: page::shown_name(kind, &entry.name), value }
}
