//! The change feed as messages: the same subscription, cursor and filters as `GET /v1/feed`.

use super::head::CallHead;
use super::{DataApi, elements, message};
use crate::grpc::call_context;
use crate::rest::access::GivenAuthorization;
use crate::rest::event_stream::{ClientGone, Message};
use crate::rest::feed::{FeedQuery, FeedSink, op_of, show_conflict};
use crate::rest::refusal::Refusal;
use crate::rest::{Rest, collection_changes};
use base::Code;
use mesh::collection::{ElementEntry, estimate};
use mesh::{ChangeKind, FeedChange, Kind, Record};
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::watch_response::Event;
use server::FeedEvent;
use tokio::sync::mpsc::{self, Sender};
use tonic::Status;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;

/// Messages that the client has not taken yet.
const WAITING_MAX: usize = 64;
/// A client that gets nothing for so many looks is told that the stream is alive.
const LOOKS_SILENT_MAX: u32 = 5;

pub async fn stream(
    api: &DataApi,
    metadata: &MetadataMap,
    request: wire::WatchRequest,
) -> Result<BoxStream<wire::WatchResponse>, Refusal> {
    let wire::WatchRequest { scope, prefix, r#type, since } = request;
    let (rest, head) = api.head(metadata, scope, |head: CallHead| Ok(head)).await?;
    let kind = Some(r#type.as_str()).filter(|kind| !kind.is_empty());
    let wanted = FeedQuery::of(&rest, head.space.id, &prefix, kind, Some(&since))?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let sink = FeedSink::Messages(MessageSender { sender, silent: 0 });
    wanted.begin(rest, GivenAuthorization::of_call(call_context::given(metadata)), sink)?;
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

pub struct MessageSender {
    sender: Sender<Result<wire::WatchResponse, Status>>,
    silent: u32,
}

impl MessageSender {
    async fn send(&mut self, message: wire::WatchResponse) -> Result<(), ClientGone> {
        self.silent = 0;
        self.sender.send(Ok(message)).await.map_err(|_| ClientGone)
    }

    pub async fn send_change(&mut self, rest: &Rest, event: &FeedEvent) -> Result<(), ClientGone> {
        let key = String::from_utf8_lossy(event.key.name_slice()).into_owned();
        let message = match &event.change {
            FeedChange::Conflict(conflict) => wire::WatchResponse {
                event: Event::Conflict as i32,
                entry: Some(wire::Entry { key, ..Default::default() }),
                details: serde_json::Value::Object(show_conflict(rest, conflict)).to_string().into(),
                ..Default::default()
            },
            FeedChange::Record(record) => wire::WatchResponse {
                event: if event.is_state { Event::State } else { Event::Change } as i32,
                ..change(rest, key, event.kind, record)
            },
        };
        self.send(message).await
    }

    pub async fn send_message(&mut self, message: &Message<'_>) -> Result<(), ClientGone> {
        let event = match message.event {
            "live" => Event::Live,
            "gap" => Event::Gap,
            _ => Event::Cursor,
        };
        let details = if event == Event::Gap { message.data.to_owned().into() } else { Default::default() };
        let cursor = message.id.unwrap_or_default().to_owned();
        self.send(wire::WatchResponse { event: event as i32, details, cursor, ..Default::default() }).await
    }

    /// A sign of life, now and then. Nothing else is sent so seldom.
    pub async fn rest(&mut self) -> Result<(), ClientGone> {
        self.silent += 1;
        if self.silent >= LOOKS_SILENT_MAX {
            return self.send(wire::WatchResponse::default()).await;
        }
        if self.sender.is_closed() { Err(ClientGone) } else { Ok(()) }
    }

    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    /// The stream ends for a reason that is not the client's.
    pub async fn end(self, code: Code) {
        let _ = self.sender.send(Err(message::status(code.into()))).await;
    }
}

fn change(rest: &Rest, key: String, kind: ChangeKind, record: &Record) -> wire::WatchResponse {
    let op = op_of(kind, record);
    let is_gone = matches!(op, "delete" | "expire");
    let mut entry = message::entry(rest, key, record);
    if is_gone || record.is_collection() {
        entry.value = None;
    }
    let header = record.collection_header().filter(|_| !is_gone);
    let shows_elements = !matches!(record.kind, Kind::Flag | Kind::HyperLogLog);
    let changed = record.changed_elements().iter().filter(|_| shows_elements);
    wire::WatchResponse {
        entry: Some(entry),
        op: op.to_owned(),
        elements: changed.map(|entry| element_change(record.kind, entry)).collect(),
        size: header.as_ref().and_then(|header| header.exact_count()),
        estimate: header
            .filter(|_| record.kind == Kind::HyperLogLog)
            .map_or(0, |header| estimate(&header.ranks)),
        region: rest.region_name(record.header.dot.actor.region),
        stamp: record.header.stamp.0,
        ..wire::WatchResponse::default()
    }
}

fn element_change(kind: Kind, entry: &ElementEntry) -> wire::ElementChange {
    let mut element = elements::message_of(kind, entry);
    if !entry.state.is_visible() {
        element.value = None;
    }
    let op = collection_changes::op_of_element(kind, entry).to_owned();
    wire::ElementChange { op, element: Some(element) }
}
