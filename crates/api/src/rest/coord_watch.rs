//! `GET /v1/coord/watch`: changes of keys of the coordination store as a stream, for pages and for curl. The state comes first
//! if it is asked for; a client goes on behind the revision of the last message that it has.

use super::Rest;
use super::access::GivenAuthorization;
use super::coord::{after, put_bytes, ranged, whole_of};
use super::event_stream::{self, CHECK_EVERY, ClientGone, EventSender, Message};
use super::query::Query;
use super::refusal::Refusal;
use crate::audit;
use axum::extract::RawQuery;
use axum::http::HeaderMap;
use axum::response::Response;
use base::{KeyRange, Revision, key_range};
use bytes::Bytes;
use coord::request::Range;
use coord::watch::{Create, Event, Filters, Input, Response as WatchResponse, ResponseKind, denied};
use serde_json::{Map, Value, json as object};
use server::{Handle, WatchRequests, WatchResponses};
use std::future::poll_fn;
use tokio::sync::watch;

pub const PARAMS: [&str; 4] = ["prefix", "key", "since", "format"];
const PAGE_KEYS: u64 = 500;

pub async fn get(
    rest: Rest,
    given: GivenAuthorization,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&PARAMS)?;
    let keys = keys_of(&query)?;
    let since = match event_stream::since(&query, &headers) {
        None => None,
        Some(text) => Some(parse_revision(text)?),
    };
    audit::note(|entry| entry.add_keys_from(&keys.start, None));
    let handle = rest.coord().await?;
    // Refused at once if the caller may not read the keys.
    let (now, _) = ranged(&handle, Range { limit: 1, ..Range::of(keys.clone()) }).await?;
    let (sender, response) = event_stream::open(&query, &headers)?;
    let stopping = rest.shared.stopping.clone();
    let stream = KeyStream { rest, given, keys, sender };
    tokio::spawn(stream.run(handle, since, now, stopping));
    Ok(response)
}

/// One key, or all below a prefix, which may be empty.
fn keys_of(query: &Query) -> Result<KeyRange, Refusal> {
    match (query.get("key"), query.get("prefix")) {
        (Some(_), Some(_)) => Err(Refusal::bad("name one key, or a prefix, not both")),
        (Some(""), None) => Err(Refusal::bad("a key is not empty")),
        (Some(key), None) => Ok(KeyRange::single(Bytes::from(key.to_owned()))),
        (None, prefix) => {
            let prefix = Bytes::from(prefix.unwrap_or("").to_owned());
            if prefix.is_empty() {
                return Ok(KeyRange::from_wire(Bytes::from_static(b"\0"), Bytes::from_static(b"\0")));
            }
            let end = key_range::prefix_end(&prefix);
            Ok(KeyRange::from_wire(prefix, end))
        }
    }
}

fn parse_revision(text: &str) -> Result<Revision, Refusal> {
    let revision = text.parse::<i64>().ok().filter(|revision| *revision >= 0).map(Revision);
    revision.ok_or_else(|| {
        Refusal::bad("since must be a revision: 0 for the state first, or the last that was seen")
    })
}

struct KeyStream {
    rest: Rest,
    given: GivenAuthorization,
    keys: KeyRange,
    sender: EventSender,
}

/// What a message of the watch means for the stream.
enum Next {
    Goes,
    /// Revisions up to here are compacted.
    Compacted(Revision),
    Denied(&'static str),
}

impl KeyStream {
    async fn run(
        mut self,
        handle: Handle,
        since: Option<Revision>,
        now: Revision,
        mut stopping: watch::Receiver<bool>,
    ) {
        let mut from = match since {
            None => Some(now),
            Some(Revision(0)) => None,
            Some(revision) => Some(revision),
        };
        loop {
            let seen = match from.take() {
                Some(seen) => seen,
                None => match self.list(&handle).await {
                    Ok(Some(revision)) => revision,
                    Ok(None) => return self.sender.end("unavailable").await,
                    Err(ClientGone) => return,
                },
            };
            match self.watch(&handle, seen, &mut stopping).await {
                Err(ClientGone) => return,
                Ok(Next::Goes) => return self.sender.end("stopping").await,
                Ok(Next::Denied(why)) => return self.sender.end(why).await,
                Ok(Next::Compacted(upto)) => {
                    let data = object!({ "since": seen.0, "compacted": upto.0, "state_follows": true });
                    let gap = Message { event: "gap", id: None, data: &data.to_string() };
                    if self.sender.send(&gap).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// All keys as they are at one revision; none if it cannot be read.
    async fn list(&mut self, handle: &Handle) -> Result<Option<Revision>, ClientGone> {
        let (mut keys, mut at) = (self.keys.clone(), None);
        loop {
            let revision = at.unwrap_or(Revision(0));
            let range = Range { limit: PAGE_KEYS, revision, ..Range::of(keys.clone()) };
            let Ok((now, page)) = ranged(handle, range).await else { return Ok(None) };
            let listed = *at.get_or_insert(now);
            for kv in &page.kvs {
                let data = Value::Object(whole_of(kv)).to_string();
                self.sender.send(&Message { event: "state", id: None, data: &data }).await?;
            }
            match page.kvs.last().filter(|_| page.more) {
                Some(last) => keys.start = after(&last.key),
                None => return self.send_live(listed).await.map(|()| Some(listed)),
            }
        }
    }

    async fn send_live(&mut self, revision: Revision) -> Result<(), ClientGone> {
        let data = object!({ "revision": revision.0 }).to_string();
        self.sender.send(&Message { event: "live", id: Some(&revision.0.to_string()), data: &data }).await
    }

    async fn watch(
        &mut self,
        handle: &Handle,
        seen: Revision,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<Next, ClientGone> {
        let Ok((requests, mut responses)) = handle.watch_stream() else { return Ok(Next::Goes) };
        if !requests.send(self.create(handle, seen, &requests)).await {
            return Ok(Next::Goes);
        }
        let mut checks = tokio::time::interval(CHECK_EVERY);
        loop {
            tokio::select! {
                batch = take(&mut responses) => {
                    let Some(batch) = batch else { return Ok(Next::Goes) };
                    for response in batch {
                        match self.send_response(response).await? {
                            Next::Goes => {}
                            end => return Ok(end),
                        }
                    }
                }
                _ = checks.tick() => {
                    if !event_stream::readmit(&mut self.rest, &self.given).await {
                        return Ok(Next::Denied("auth"));
                    }
                    self.sender.rest().await?;
                }
                () = event_stream::stopped(stopping) => return Ok(Next::Goes),
                () = self.sender.closed() => return Err(ClientGone),
            }
        }
    }

    fn create(&self, handle: &Handle, seen: Revision, requests: &WatchRequests) -> Input {
        Input::Create(Create {
            stream: requests.stream(),
            caller: handle.caller().clone(),
            id: None,
            keys: self.keys.clone(),
            start: Revision(seen.0 + 1),
            prev_kv: false,
            filters: Filters::default(),
            progress_notify: false,
            fragment: false,
        })
    }

    async fn send_response(&mut self, response: WatchResponse) -> Result<Next, ClientGone> {
        match response.kind {
            ResponseKind::Created | ResponseKind::Progress => {}
            ResponseKind::Events { batch, .. } => self.send_events(batch.events()).await?,
            ResponseKind::Canceled { compacted: Some(upto) } => return Ok(Next::Compacted(upto)),
            ResponseKind::Canceled { compacted: None } => return Ok(Next::Goes),
            ResponseKind::Denied(code) => return Ok(Next::Denied(denied(code))),
            ResponseKind::Refused(refusal) => return Ok(Next::Denied(refusal.reason())),
        }
        Ok(Next::Goes)
    }

    /// The last change of a revision carries it: who has seen less of the revision sees it again.
    async fn send_events(&mut self, events: &[Event]) -> Result<(), ClientGone> {
        for (nth, event) in events.iter().enumerate() {
            let revision = event.kv.mod_revision;
            let is_last = events.get(nth + 1).is_none_or(|next| next.kv.mod_revision != revision);
            let id = revision.0.to_string();
            let (name, data) =
                if event.deleted { ("delete", deleted(event)) } else { ("put", whole_of(&event.kv)) };
            let data = Value::Object(data).to_string();
            let id = is_last.then_some(id.as_str());
            self.sender.send(&Message { event: name, id, data: &data }).await?;
        }
        Ok(())
    }
}

fn deleted(event: &Event) -> Map<String, Value> {
    let mut said = Map::new();
    put_bytes(&mut said, "key", &event.kv.key);
    said.insert("mod_revision".to_owned(), event.kv.mod_revision.0.into());
    said
}

async fn take(responses: &mut WatchResponses) -> Option<Vec<WatchResponse>> {
    poll_fn(|cx| responses.poll_take(cx)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_a_key_or_everything_is_watched() {
        let keys = |text| keys_of(&Query::parse(text).unwrap());
        assert!(keys("prefix=a/").unwrap().contains(b"a/b") && !keys("prefix=a/").unwrap().contains(b"b"));
        assert!(keys("key=a").unwrap().contains(b"a") && !keys("key=a").unwrap().contains(b"a/b"));
        assert!(keys("").unwrap().contains(b"anything"));
        assert!(keys("key=a&prefix=b").is_err() && keys("key=").is_err());
    }

    #[test]
    fn a_revision_is_a_number() {
        assert_eq!(parse_revision("12").unwrap(), Revision(12));
        assert!(parse_revision("-1").is_err() && parse_revision("x").is_err());
    }
}
