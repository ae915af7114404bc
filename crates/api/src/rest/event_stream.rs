//! Messages of a stream, as server-sent events or as lines of JSON. A WebSocket carries lines, each as a message.
//! A name, a position and a body of JSON go in; the text goes to the client. A stream ends when its client leaves, when the
//! caller may not read any more, or when the process stops.

use super::Rest;
use super::access::GivenAuthorization;
use super::query::Query;
use super::refusal::Refusal;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, UPGRADE};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

/// Messages that the client has not taken yet.
const WAITING_MAX: usize = 64;
/// How often permissions are looked at again while a stream is open.
pub const CHECK_EVERY: Duration = Duration::from_secs(2);
/// A client that gets nothing for so many checks gets a heartbeat.
const CHECKS_SILENT_MAX: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Events,
    Lines,
}

/// The client has gone.
pub struct ClientGone;

/// One message.
pub struct Message<'a> {
    pub event: &'a str,
    /// Where a client that has this message goes on.
    pub id: Option<&'a str>,
    /// JSON.
    pub data: &'a str,
}

pub struct EventSender {
    sender: Sender<String>,
    format: Format,
    silent: u32,
}

/// The answer, and the way into it.
pub fn open(query: &Query, headers: &HeaderMap) -> Result<(EventSender, Response), Refusal> {
    let format = match query.get("format") {
        None if headers.contains_key(UPGRADE) => Format::Lines,
        None | Some("sse") => Format::Events,
        Some("jsonl") => Format::Lines,
        Some(other) => return Err(Refusal::bad(format!("format={other} must be sse or jsonl"))),
    };
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let content_type = match format {
        Format::Events => "text/event-stream",
        Format::Lines => "application/jsonl",
    };
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, Infallible>));
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    Ok((EventSender { sender, format, silent: 0 }, (headers, body).into_response()))
}

/// Where the client wants to go on: what a browser says after a broken connection goes before the query.
pub fn since<'a>(query: &'a Query, headers: &'a HeaderMap) -> Option<&'a str> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    last.or(query.get("since"))
}

impl EventSender {
    pub async fn send(&mut self, message: &Message<'_>) -> Result<(), ClientGone> {
        self.silent = 0;
        let text = self.text(message);
        self.sender.send(text).await.map_err(|_| ClientGone)
    }

    fn text(&self, Message { event, id, data }: &Message<'_>) -> String {
        match (self.format, id) {
            (Format::Events, Some(id)) => format!("event: {event}\nid: {id}\ndata: {data}\n\n"),
            (Format::Events, None) => format!("event: {event}\ndata: {data}\n\n"),
            (Format::Lines, Some(id)) => {
                format!("{{\"event\":\"{event}\",\"id\":\"{id}\",\"data\":{data}}}\n")
            }
            (Format::Lines, None) => format!("{{\"event\":\"{event}\",\"data\":{data}}}\n"),
        }
    }

    /// A heartbeat, now and then. Nothing else is sent so seldom.
    pub async fn rest(&mut self) -> Result<(), ClientGone> {
        self.silent += 1;
        if self.silent < CHECKS_SILENT_MAX {
            return if self.sender.is_closed() { Err(ClientGone) } else { Ok(()) };
        }
        self.silent = 0;
        let sign = match self.format {
            Format::Events => ":\n\n",
            Format::Lines => "{\"event\":\"alive\",\"data\":null}\n",
        };
        self.sender.send(sign.to_owned()).await.map_err(|_| ClientGone)
    }

    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    /// The stream ends for a reason that is not the client's.
    pub async fn end(mut self, why: &str) {
        let _ = self.send(&Message { event: "end", id: None, data: &format!("\"{why}\"") }).await;
    }
}

/// Waits until the process stops.
pub async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Finds the caller again: permissions and tokens may have changed since the stream began.
pub async fn readmit(rest: &mut Rest, given: &GivenAuthorization) -> bool {
    if !rest.handle().auth().is_on() {
        rest.caller = None;
        return true;
    }
    match given.caller(rest.handle()).await {
        Ok(caller) => {
            rest.caller = Some(caller);
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_events_or_lines() {
        let query = Query::parse("format=jsonl").unwrap();
        let (lines, _) = open(&query, &HeaderMap::new()).unwrap();
        let (events, _) = open(&Query::default(), &HeaderMap::new()).unwrap();
        let message = Message { event: "change", id: Some("7"), data: "{}" };
        assert_eq!(events.text(&message), "event: change\nid: 7\ndata: {}\n\n");
        assert_eq!(lines.text(&message), "{\"event\":\"change\",\"id\":\"7\",\"data\":{}}\n");
        assert!(open(&Query::parse("format=xml").unwrap(), &HeaderMap::new()).is_err());
    }

    #[test]
    fn what_a_browser_says_goes_before_the_query() {
        let query = Query::parse("since=5").unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(since(&query, &headers), Some("5"));
        headers.insert("last-event-id", "9".parse().unwrap());
        assert_eq!(since(&query, &headers), Some("9"));
    }
}
