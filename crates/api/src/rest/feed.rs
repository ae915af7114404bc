//! `GET /v1/feed`: the changes of the data plane as a stream: the state first, or what has changed since a cursor, and then
//! every change. Each message of a change is made once for all who follow. A client that is too slow, or whose cursor is too
//! old, gets an error and the state again. See docs/adr/0093 and 0094.

use super::access::GivenAuthorization;
use super::event_stream::{self, CHECK_EVERY, ClientGone, EventSender, Message};
use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::rpc::MessageSender;
use super::value::{kind_name, kind_named};
use super::{Rest, clock, collection_changes, conflicts, data, date};
use axum::response::Response;
use base::Code;
use base::key_range::prefix_end;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use mesh::{
    ChangeKind, Conflict, FeedChange, FeedCursor, FeedRange, Key, Kind, Record, Request, Scan, ScanView,
    Subscription,
};
use serde_json::{Map, Value, json as object};
use server::{FeedEvent, FeedMessage, FeedReceiver};
use std::time::Duration;
use tokio::sync::watch;

pub const PARAMS: [&str; 4] = ["prefix", "type", "since", "format"];
/// How long a client waits that was too slow, or that finds too many others.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

pub async fn get(rest: Rest, given: GivenAuthorization, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&PARAMS)?;
    let prefix = head.query.get("prefix").unwrap_or("");
    let since = event_stream::since(&head.query, &head.headers);
    let wanted = FeedQuery::of(&rest, head.space.id, prefix, head.query.get("type"), since)?;
    let (sender, response) = event_stream::open(&head.query, &head.headers)?;
    wanted.begin(rest, given, FeedSink::Text(sender))?;
    Ok(response)
}

/// What a client wants to be told.
pub struct FeedQuery {
    range: FeedRange,
    kind: Option<Kind>,
    since: Option<FeedCursor>,
}

impl FeedQuery {
    /// Refused if the caller may not read all of these keys.
    pub fn of(
        rest: &Rest,
        namespace_id: u32,
        prefix: &str,
        kind: Option<&str>,
        since: Option<&str>,
    ) -> Result<FeedQuery, Refusal> {
        let kind = kind.map(kind_named).transpose()?;
        let since = match since {
            None | Some("0" | "") => None,
            Some(text) => Some(parse_cursor(text)?),
        };
        let prefix = Bytes::copy_from_slice(prefix.as_bytes());
        let range = FeedRange { namespace_id: Some(namespace_id), prefix };
        rest.permit(&scan_of(&range))?;
        Ok(FeedQuery { range, kind, since })
    }

    /// Tells a client until it leaves or may not read any more.
    pub fn begin(self, rest: Rest, given: GivenAuthorization, sink: FeedSink) -> Result<(), Refusal> {
        let FeedQuery { range, kind, since } = self;
        let inbox = rest.mesh().follow(Subscription { since: since.clone(), range: range.clone() })?;
        let stopping = rest.shared.stopping.clone();
        let stream = FeedStream { rest, given, range, kind, since, sink };
        tokio::spawn(stream.run(inbox, stopping));
        Ok(())
    }
}

fn parse_cursor(text: &str) -> Result<FeedCursor, Refusal> {
    let cursor = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| FeedCursor::decode(bytes.into()));
    cursor
        .ok_or_else(|| Refusal::bad("since must be 0, or the id of an earlier message of a feed, unchanged"))
}

fn show_cursor(cursor: &FeedCursor) -> String {
    URL_SAFE_NO_PAD.encode(cursor.encode())
}

/// What reads the same keys, and needs the same permission.
fn scan_of(range: &FeedRange) -> Request {
    let namespace_id = range.namespace_id.unwrap_or_default();
    let end = (!range.prefix.is_empty()).then(|| prefix_end(&range.prefix));
    Request::Scan(Scan {
        namespace_id,
        start: range.prefix.clone(),
        end,
        limit: 1,
        r: None,
        view: ScanView::default(),
    })
}

struct FeedStream {
    rest: Rest,
    given: GivenAuthorization,
    range: FeedRange,
    kind: Option<Kind>,
    /// The cursor up to which the client has every change.
    since: Option<FeedCursor>,
    sink: FeedSink,
}

/// Why a stream of this node's feed is over.
enum Ended {
    /// The client was too slow.
    Behind,
    /// Deletes since the cursor may be forgotten.
    Gap,
    NotPermitted,
    Stopping,
}

impl FeedStream {
    async fn run(mut self, mut inbox: FeedReceiver, mut stopping: watch::Receiver<bool>) {
        loop {
            let Ok(ended) = self.follow(&mut inbox, &mut stopping).await else { return };
            drop(inbox);
            let reason = match ended {
                Ended::NotPermitted => return self.sink.end(Code::PermissionDenied, "auth").await,
                Ended::Stopping => return self.sink.end(Code::Stopped, "stopping").await,
                Ended::Behind => "slow",
                Ended::Gap => "old",
            };
            if self.send_gap(reason).await.is_err() {
                return;
            }
            let Some(next) = self.begin_again(&mut stopping).await else { return };
            inbox = next;
        }
    }

    /// Until something ends it.
    async fn follow(
        &mut self,
        inbox: &mut FeedReceiver,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<Ended, ClientGone> {
        let mut checks = tokio::time::interval(CHECK_EVERY);
        loop {
            tokio::select! {
                message = inbox.recv() => match message {
                    None => return Ok(Ended::Behind),
                    Some(FeedMessage::Gap) => return Ok(Ended::Gap),
                    Some(message) => self.send_message(message).await?,
                },
                _ = checks.tick() => {
                    let permitted = event_stream::readmit(&mut self.rest, &self.given).await
                        && self.rest.permit(&scan_of(&self.range)).is_ok();
                    if !permitted {
                        return Ok(Ended::NotPermitted);
                    }
                    self.sink.rest().await?;
                }
                () = event_stream::stopped(stopping) => return Ok(Ended::Stopping),
                () = self.sink.closed() => return Err(ClientGone),
            }
        }
    }

    async fn send_message(&mut self, message: FeedMessage) -> Result<(), ClientGone> {
        match message {
            FeedMessage::Change(event) if self.is_wanted(&event) => {
                let name = match event.kind {
                    ChangeKind::Conflict => "conflict",
                    _ if event.is_state => "state",
                    _ => "change",
                };
                self.sink.send_change(&self.rest, name, &event).await
            }
            FeedMessage::Live(cursor) => self.send_cursor("live", cursor).await,
            FeedMessage::Cursor(cursor) => self.send_cursor("cursor", cursor).await,
            FeedMessage::Change(_) | FeedMessage::Gap => Ok(()),
        }
    }

    fn is_wanted(&self, event: &FeedEvent) -> bool {
        let kind = match &event.change {
            FeedChange::Record(record) => record.kind,
            FeedChange::Conflict(conflict) => conflict.winner.kind,
        };
        self.kind.is_none_or(|wanted| wanted == kind)
    }

    /// A client cannot resume at a cursor that covers nothing yet.
    async fn send_cursor(&mut self, event: &str, cursor: FeedCursor) -> Result<(), ClientGone> {
        let shown = show_cursor(&cursor);
        let id = (cursor != FeedCursor::default()).then_some(shown.as_str());
        let data = object!({ "cursor": id }).to_string();
        self.sink.send(&Message { event, id, data: &data }).await?;
        if id.is_some() {
            self.since = Some(cursor);
        }
        Ok(())
    }

    /// The range of cursors of which something may not have been sent. The state follows.
    async fn send_gap(&mut self, reason: &str) -> Result<(), ClientGone> {
        let since = self.since.as_ref().map(show_cursor);
        let data = object!({ "reason": reason, "since": since, "state_follows": true }).to_string();
        self.since = None;
        self.sink.send(&Message { event: "gap", id: None, data: &data }).await
    }

    /// None if the client or the process goes before there is space.
    async fn begin_again(&mut self, stopping: &mut watch::Receiver<bool>) -> Option<FeedReceiver> {
        loop {
            let subscription = Subscription { since: None, range: self.range.clone() };
            if let Ok(inbox) = self.rest.mesh().follow(subscription) {
                return Some(inbox);
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN_AFTER) => {}
                () = event_stream::stopped(stopping) => return None,
                () = self.sink.closed() => return None,
            }
        }
    }
}

/// How a client is told.
pub enum FeedSink {
    Text(EventSender),
    Messages(MessageSender),
}

impl FeedSink {
    /// Text is made once for all who follow.
    async fn send_change(&mut self, rest: &Rest, name: &str, event: &FeedEvent) -> Result<(), ClientGone> {
        match self {
            FeedSink::Text(sender) => {
                let shown = event.shown(|event| show(rest, event));
                sender.send(&Message { event: name, id: None, data: &shown }).await
            }
            FeedSink::Messages(sender) => sender.send_change(rest, event).await,
        }
    }

    async fn send(&mut self, message: &Message<'_>) -> Result<(), ClientGone> {
        match self {
            FeedSink::Text(sender) => sender.send(message).await,
            FeedSink::Messages(sender) => sender.send_message(message).await,
        }
    }

    /// A heartbeat, now and then.
    async fn rest(&mut self) -> Result<(), ClientGone> {
        match self {
            FeedSink::Text(sender) => sender.rest().await,
            FeedSink::Messages(sender) => sender.rest().await,
        }
    }

    async fn closed(&self) {
        match self {
            FeedSink::Text(sender) => sender.closed().await,
            FeedSink::Messages(sender) => sender.closed().await,
        }
    }

    async fn end(self, code: Code, why: &str) {
        match self {
            FeedSink::Text(sender) => sender.end(why).await,
            FeedSink::Messages(sender) => sender.end(code).await,
        }
    }
}

pub fn show_conflict(rest: &Rest, conflict: &Conflict) -> Map<String, Value> {
    match conflicts::render(rest, conflict) {
        Value::Object(said) => said,
        _ => Map::new(),
    }
}

fn show(rest: &Rest, event: &FeedEvent) -> String {
    let mut said = match &event.change {
        FeedChange::Record(record) => show_record(rest, event.kind, record),
        FeedChange::Conflict(conflict) => show_conflict(rest, conflict),
    };
    put_key(&mut said, &event.key);
    Value::Object(said).to_string()
}

/// What was done to a record.
pub fn op_of(kind: ChangeKind, record: &Record) -> &'static str {
    match kind {
        ChangeKind::Expired => "expire",
        ChangeKind::Gone => "delete",
        _ if record.is_tombstone() => "delete",
        _ => collection_changes::op_of(kind, record).unwrap_or("put"),
    }
}

fn show_record(rest: &Rest, kind: ChangeKind, record: &Record) -> Map<String, Value> {
    let op = op_of(kind, record);
    let is_gone = matches!(op, "expire" | "delete");
    let mut said = if is_gone { Map::new() } else { data::part(rest, record) };
    if !is_gone && record.is_collection() {
        said.remove("value");
        said.append(&mut collection_changes::show(record));
    }
    if is_gone {
        said.insert("type".to_owned(), kind_name(record.kind).into());
        said.insert("x_vector_clock".to_owned(), clock::code_name(&record.context).into());
        said.insert("last_modified".to_owned(), date::rfc3339(record.updated_ms()).into());
    }
    said.insert("op".to_owned(), op.into());
    said.insert("region".to_owned(), rest.region_name(record.header.dot.actor.region).into());
    said.insert("stamp".to_owned(), record.header.stamp.0.to_string().into());
    said
}

fn put_key(said: &mut Map<String, Value>, key: &Key) {
    match std::str::from_utf8(key.name_slice()) {
        Ok(text) => said.insert("key".to_owned(), text.into()),
        Err(_) => said.insert("key_base64".to_owned(), STANDARD.encode(key.name_slice()).into()),
    };
}
