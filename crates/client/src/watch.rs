//! A watch that resumes by itself: when its stream breaks, it requests from the next endpoint what comes after the last
//! revision it has handed out. No event comes twice and none is left out; if the server has compacted what comes
//! next, that is an error, and the watch is over.

use crate::connection::ROUND_PAUSE;
use crate::duplex::Duplex;
use crate::{Client, Error};
use proto::etcdserverpb::watch_client::WatchClient;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use proto::mvccpb::Event;
use tokio::time::sleep;
use tonic::Request;
use tonic::metadata::MetadataValue;

type Stream = Duplex<WatchRequest, WatchResponse>;

#[derive(Debug)]
pub struct Watcher {
    client: Client,
    /// The request; its start revision is what comes next.
    create: WatchCreateRequest,
    /// With the index of its endpoint.
    stream: Option<(usize, Stream)>,
    /// Events of a response whose other parts are still to come.
    fragments: Vec<Event>,
    /// It was connected before, so errors are retried.
    begun: bool,
}

impl Client {
    /// Connects with the first `next`.
    pub fn watch(&self, create: WatchCreateRequest) -> Watcher {
        Watcher { client: self.clone(), create, stream: None, fragments: vec![], begun: false }
    }
}

impl Watcher {
    /// The next events, or progress. Waits as long as there are none; once the watch has begun, also
    /// for a cluster that is gone to come back. May be cancelled and called again.
    pub async fn next(&mut self) -> Result<WatchResponse, Error> {
        loop {
            let response = match self.read().await {
                Ok(response) => response,
                Err(error) if self.begun && !error.is_final() || self.client.forgets_token(&error) => {
                    if let Some((place, _)) = self.stream.take() {
                        self.client.move_on(place);
                    }
                    self.fragments.clear();
                    sleep(ROUND_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(self.client.explained(error).await),
            };
            if let Some(response) = self.accept(response)? {
                return Ok(response);
            }
        }
    }

    /// Requests progress; the answer comes with `next`, when all events before it have come.
    pub async fn request_progress(&mut self) -> Result<(), Error> {
        let union = RequestUnion::ProgressRequest(WatchProgressRequest {});
        match &self.stream {
            Some((_, stream)) => Ok(stream.send(WatchRequest { request_union: Some(union) }).await?),
            None => Ok(()),
        }
    }

    async fn read(&mut self) -> Result<WatchResponse, Error> {
        if self.stream.is_none() {
            self.stream = Some(self.open().await?);
        }
        let (_, stream) = self.stream.as_mut().expect("it was opened above");
        Ok(stream.next().await?)
    }

    async fn open(&self) -> Result<(usize, Stream), Error> {
        let (place, channel) = self.client.channel().await?;
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let stream = Duplex::open(|requests| async move {
            let mut request = Request::new(requests);
            // A member that has lost its leader ends the stream, so that the watch moves to another.
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            client.watch(request).await
        });
        let union = RequestUnion::CreateRequest(self.create.clone());
        stream.send(WatchRequest { request_union: Some(union) }).await?;
        Ok((place, stream))
    }

    /// Records what comes next. None for responses about the watch itself and for fragments.
    fn accept(&mut self, mut response: WatchResponse) -> Result<Option<WatchResponse>, Error> {
        if response.canceled {
            return Err(match response.compact_revision {
                0 => Error::Canceled { reason: response.cancel_reason },
                revision => Error::Compacted { revision },
            });
        }
        let told = response.header.map_or(0, |header| header.revision);
        if response.created {
            self.begun = true;
            // What happens from now on is requested again if the stream breaks before anything arrived.
            if self.create.start_revision == 0 {
                self.create.start_revision = told + 1;
            }
            return Ok(None);
        }
        self.fragments.append(&mut response.events);
        if response.fragment {
            return Ok(None);
        }
        response.events = std::mem::take(&mut self.fragments);
        let last =
            response.events.iter().filter_map(|event| event.kv.as_ref()).map(|kv| kv.mod_revision).max();
        // Progress says as well that everything up to there was sent.
        let done = last.unwrap_or(told);
        self.create.start_revision = self.create.start_revision.max(done + 1);
        Ok(Some(response))
    }
}

#[cfg(test)]
mod tests;
