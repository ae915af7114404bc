//! One stream of watches of one server: what is sent on it, and what came back, sorted by watch.
//! How events are gathered into responses is up to each server (deviation 17); their order within a
//! watch and the responses about a watch are not.

use crate::PATIENCE;
use client::duplex::Duplex;
use proto::etcdserverpb::watch_client::WatchClient;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchRequest, WatchResponse};
use proto::mvccpb::Event;
use std::collections::{BTreeMap, VecDeque};
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::Channel;

pub struct Watches {
    stream: Duplex<WatchRequest, WatchResponse>,
    /// Events that were not taken yet, by watch.
    events: BTreeMap<i64, VecDeque<Event>>,
    /// Responses about a watch: created, cancelled, progress.
    responses: VecDeque<WatchResponse>,
}

impl Watches {
    pub fn open(channel: Channel) -> Watches {
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let stream = Duplex::open(|requests| async move { client.watch(requests).await });
        Watches { stream, events: BTreeMap::new(), responses: VecDeque::new() }
    }

    pub async fn send(&self, union: RequestUnion) {
        // A closed stream gives no answer, which is then found as a difference.
        let _ = self.stream.send(WatchRequest { request_union: Some(union) }).await;
    }

    /// The next response about any watch.
    pub async fn next_response(&mut self) -> Result<WatchResponse, Status> {
        loop {
            match self.responses.pop_front() {
                Some(word) => return Ok(word),
                None => self.read().await?,
            }
        }
    }

    /// Responses about a watch that no request waits for.
    pub fn unexpected_response(&mut self) -> Option<WatchResponse> {
        self.responses.pop_front()
    }

    /// Watches that have events waiting.
    pub fn with_events(&self) -> impl Iterator<Item = i64> {
        self.events.iter().filter(|(_, events)| !events.is_empty()).map(|(id, _)| *id)
    }

    /// Reads until the watch has so many events waiting, and takes them.
    pub async fn take_events(&mut self, id: i64, count: usize) -> Result<Vec<Event>, Status> {
        while self.events.get(&id).map_or(0, VecDeque::len) < count {
            self.read().await?;
        }
        Ok(self.events.get_mut(&id).map(|events| events.drain(..count).collect()).unwrap_or_default())
    }

    /// Reads until the watch has received this revision, and takes all its events.
    pub async fn take_up_to(&mut self, id: i64, revision: i64) -> Result<Vec<Event>, Status> {
        let told = |event: &Event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision >= revision);
        while !self.events.get(&id).and_then(VecDeque::back).is_some_and(told) {
            self.read().await?;
        }
        Ok(self.events.remove(&id).unwrap_or_default().into())
    }

    async fn read(&mut self) -> Result<(), Status> {
        let late = |_| Status::deadline_exceeded("the stream of watches says nothing more");
        let response = timeout(PATIENCE, self.stream.next()).await.map_err(late)??;
        if response.events.is_empty() {
            self.responses.push_back(response);
        } else {
            self.events.entry(response.watch_id).or_default().extend(response.events);
        }
        Ok(())
    }
}
