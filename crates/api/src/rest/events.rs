//! `GET /v1/events`: one stream of server-sent events that keeps documents of this API up to date for a page.
//! Each topic is a document that a GET answers with as well. It comes whole first, and then as differences, in the form
//! of JSON Merge Patch (RFC 7386), whenever it has changed; nothing is computed for topics that are not asked for.

use super::access::GivenAuthorization;
use super::locks::LockQuery;
use super::query::Query;
use super::refusal::Refusal;
use super::{Rest, cluster, conflicts, event_stream, locks, regions, ring};
use crate::grpc::lock_view::TimeLeft;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base::Code;
use base::limits::EVENT_STREAMS_MAX;
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

const TICK: Duration = Duration::from_secs(2);
/// With nothing new, a comment every so many ticks shows that the stream is alive.
const TICKS_SILENT_MAX: u32 = 5;
/// Locks and conflicts of a page, if the request does not say.
const ROWS: u64 = 50;
const ROWS_MAX: u64 = 200;
/// Messages that the client has not taken yet.
const WAITING_MAX: usize = 4;

const PARAMS: [&str; 4] = ["topics", "filter", "page", "limit"];

/// Which locks and conflicts a stream tells of.
struct Rows {
    filter: String,
    page: String,
    limit: usize,
}

static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// A stream that is open.
struct StreamSlot;

impl StreamSlot {
    fn take() -> Option<StreamSlot> {
        let slot = StreamSlot;
        (STREAMS.fetch_add(1, Ordering::Relaxed) < EVENT_STREAMS_MAX).then_some(slot)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Cluster,
    Events,
    Ring,
    Regions,
    Locks,
    Conflicts,
}

impl Topic {
    const ALL: [(&'static str, Topic); 6] = [
        ("cluster", Topic::Cluster),
        ("events", Topic::Events),
        ("ring", Topic::Ring),
        ("regions", Topic::Regions),
        ("locks", Topic::Locks),
        ("conflicts", Topic::Conflicts),
    ];

    fn named(name: &str) -> Result<Topic, Refusal> {
        let found = Topic::ALL.iter().find(|(known, _)| *known == name).map(|(_, topic)| *topic);
        found.ok_or_else(|| {
            let known: Vec<&str> = Topic::ALL.iter().map(|(name, _)| *name).collect();
            Refusal::bad(format!("no topic `{name}`; topics are {}", known.join(", ")))
        })
    }

    fn name(self) -> &'static str {
        Topic::ALL.iter().find(|(_, topic)| *topic == self).map_or("", |(name, _)| name)
    }

    async fn document(self, rest: &Rest, rows: &Rows) -> Result<Value, Refusal> {
        let Rows { filter, page, limit } = rows;
        match self {
            Topic::Cluster => Ok(cluster::document(rest).await),
            Topic::Events => Ok(cluster::event_list(rest).await),
            Topic::Ring => Ok(ring::document(rest)),
            Topic::Regions => Ok(regions::document(rest)),
            Topic::Locks => {
                let time_left = TimeLeft::LeftOut;
                let asked = LockQuery { prefix: "", filter, page, limit: *limit, time_left };
                locks::listed(rest, &asked).await
            }
            Topic::Conflicts => conflicts::newest(rest, filter, page, *limit).await,
        }
    }
}

pub async fn get(
    rest: Rest,
    given: GivenAuthorization,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&PARAMS)?;
    let text = |name: &str| query.get(name).unwrap_or("").to_owned();
    let limit = query.number("limit", 1, ROWS_MAX)?.unwrap_or(ROWS) as usize;
    let rows = Rows { filter: text("filter"), page: text("page"), limit };
    let names = query.get("topics").unwrap_or("cluster,events");
    let topics = names.split(',').map(Topic::named).collect::<Result<Vec<_>, _>>()?;
    let message = "too many pages are open; close one, or read the documents themselves now and then";
    let slot = StreamSlot::take().ok_or_else(|| Refusal::new(Code::TooManyRequests, message))?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let topics = topics.into_iter().map(|topic| TopicState { topic, told: None }).collect();
    let stopping = rest.shared.stopping.clone();
    tokio::spawn(EventStream { rest, given, topics, rows, sender, _slot: slot }.run(stopping));
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, Infallible>));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

struct EventStream {
    rest: Rest,
    given: GivenAuthorization,
    topics: Vec<TopicState>,
    rows: Rows,
    sender: mpsc::Sender<String>,
    _slot: StreamSlot,
}

struct TopicState {
    topic: Topic,
    told: Option<Value>,
}

impl EventStream {
    /// Until the client leaves, may not any more, or the process stops.
    async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut silent = 0;
        loop {
            if !event_stream::readmit(&mut self.rest, &self.given).await {
                let _ = self.sender.send("event: end\ndata: \"auth\"\n\n".to_owned()).await;
                return;
            }
            let news = self.news().await;
            silent = if news.is_empty() { silent + 1 } else { 0 };
            let message = if news.is_empty() && silent >= TICKS_SILENT_MAX {
                silent = 0;
                ":\n\n".to_owned()
            } else {
                news
            };
            if !message.is_empty() && self.sender.send(message).await.is_err() || self.sender.is_closed() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(TICK) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = self.sender.closed() => return,
            }
        }
    }

    async fn news(&mut self) -> String {
        let mut out = String::new();
        for state in &mut self.topics {
            let name = state.topic.name();
            match state.topic.document(&self.rest, &self.rows).await {
                Ok(now) => {
                    let (event, data) = match &state.told {
                        None => (name.to_owned(), Some(now.clone())),
                        Some(told) => (format!("{name}.patch"), difference(told, &now)),
                    };
                    if let Some(data) = data {
                        out.push_str(&format!("event: {event}\ndata: {data}\n\n"));
                        state.told = Some(now);
                    }
                }
                Err(refusal) => {
                    let body = Value::Object(refusal.body());
                    if state.told.as_ref() != Some(&body) {
                        out.push_str(&format!("event: {name}.error\ndata: {body}\n\n"));
                        state.told = Some(body);
                    }
                }
            }
        }
        out
    }
}

/// What turns one document into the other by the rules of JSON Merge Patch; none if they are equal.
fn difference(before: &Value, now: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        return (before != now).then(|| now.clone());
    };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in now {
        match before.get(name) {
            None => drop(patch.insert(name.clone(), value.clone())),
            Some(old) => {
                if let Some(value) = difference(old, value) {
                    patch.insert(name.clone(), value);
                }
            }
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As RFC 7386 has it.
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let fields = target.as_object_mut().unwrap();
        for (name, value) in patch {
            if value.is_null() {
                fields.remove(name);
            } else {
                merge(fields.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }

    #[test]
    fn a_difference_makes_the_old_document_the_new_one() {
        let old = json!({ "a": 1, "b": { "c": [1], "d": 2 }, "e": { "f": 3 } });
        let new = json!({ "a": 1, "b": { "c": [1, 2], "d": 2 }, "g": "x" });
        let patch = difference(&old, &new).unwrap();
        assert_eq!(patch, json!({ "b": { "c": [1, 2] }, "e": null, "g": "x" }));
        let mut merged = old.clone();
        merge(&mut merged, &patch);
        assert_eq!(merged, new);
        assert_eq!(difference(&new, &new), None);
    }

    #[test]
    fn topics_are_known_by_name() {
        for (name, topic) in Topic::ALL {
            assert_eq!((Topic::named(name).unwrap(), topic.name()), (topic, name));
        }
        assert!(Topic::named("weather").is_err());
    }
}
