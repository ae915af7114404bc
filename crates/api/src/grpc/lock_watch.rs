//! Watches of the lock service: changes of keys as etcd reports them, and for a lock every hand-over; of both what the
//! filters of the watch leave. A stream's requests begin and end watches; each watch that is about a lock keeps the queue of that lock, from a
//! read at the revision where it begins, and reports every new holder.

use crate::audit::WatchRecording;
use crate::grpc::watch::record;
use crate::grpc::{call_context, kv, lock_view, refusal};
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::lock_queue;
use coord::reply::KeyValue;
use coord::request::Range;
use coord::watch::{Create, Event, Filters, Input, Response, ResponseKind, StreamId, WatchId, denied};
use proto::lock::watch_request::Filter;
use proto::lock::{HandOver, WatchRequest, WatchResponse};
use proto::mvccpb;
use server::Handle;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};

type WatchSender = mpsc::Sender<Result<WatchResponse, Status>>;

/// Serves one stream to its end.
pub async fn serve(
    handle: Handle,
    mut stopping: watch::Receiver<bool>,
    (requests, recording): (Streaming<WatchRequest>, Option<WatchRecording>),
    answers: WatchSender,
) {
    let ended = tokio::select! {
        ended = follow((handle, recording), requests, &answers) => ended,
        _ = stopping.wait_for(|stopping| *stopping) => Err(refusal::render(Code::Stopped)),
        () = answers.closed() => return,
    };
    if let Err(status) = ended {
        let _ = answers.send(Err(status)).await;
    }
}

async fn follow(
    (handle, recording): (Handle, Option<WatchRecording>),
    mut wire: Streaming<WatchRequest>,
    answers: &WatchSender,
) -> Result<(), Status> {
    let (requests, mut responses) = handle.watch_stream().map_err(refusal::render)?;
    let mut stream = LockWatches { handle, asked: VecDeque::new(), locks: BTreeMap::new(), recording };
    let mut is_open = true;
    loop {
        tokio::select! {
            request = wire.message(), if is_open => match request? {
                None => is_open = false,
                Some(request) => {
                    stream.handle = stream.handle.auth().readmitted().await.map_err(refusal::render)?;
                    let input = stream.parse(request, requests.stream());
                    if !requests.send(input).await {
                        return Err(refusal::render(Code::Stopped));
                    }
                }
            },
            batch = poll_fn(|cx| responses.poll_take(cx)) => {
                for response in batch.ok_or_else(|| refusal::render(Code::Stopped))? {
                    let answer = stream.render(response).await.map_err(refusal::render)?;
                    if !is_empty(&answer) && answers.send(Ok(answer)).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// The filters have left nothing of it.
fn is_empty(answer: &WatchResponse) -> bool {
    !answer.created && !answer.canceled && answer.events.is_empty() && answer.hand_overs.is_empty()
}

struct LockWatches {
    handle: Handle,
    /// The watches that are not answered yet, in their order: the lock that each is about, and what it leaves out.
    asked: VecDeque<Option<(Bytes, Omitted)>>,
    locks: BTreeMap<WatchId, WatchedQueue>,
    recording: Option<WatchRecording>,
}

/// What a watch leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Omitted {
    events: Filters,
    hand_overs: bool,
}

impl Omitted {
    fn parse(wire: &WatchRequest) -> Omitted {
        let has = |filter: Filter| wire.filters.contains(&(filter as i32));
        let events = Filters { no_put: has(Filter::NoPut), no_delete: has(Filter::NoDelete) };
        Omitted { events, hand_overs: has(Filter::NoHandOver) }
    }

    fn leaves(&self, event: &Event) -> bool {
        if event.deleted { !self.events.no_delete } else { !self.events.no_put }
    }
}

/// The queue of a lock at the revision that was last reported.
struct WatchedQueue {
    lock: Bytes,
    omitted: Omitted,
    places: BTreeMap<Bytes, KeyValue>,
    /// The token of the holder that was last reported.
    reported: Revision,
}

impl LockWatches {
    fn parse(&mut self, wire: WatchRequest, stream: StreamId) -> Input {
        let omitted = Omitted::parse(&wire);
        let WatchRequest { key, prefix, start_revision, watch_id, prev_kv, lock, cancel, .. } = wire;
        if cancel {
            return Input::Cancel { stream, watch: WatchId(watch_id) };
        }
        let key = Bytes::from(key);
        let keys = match (lock, prefix) {
            (true, _) => lock_queue::keys_of(&key),
            (false, true) => {
                let end = base::key_range::prefix_end(&key);
                let start = if key.is_empty() { Bytes::from_static(b"\0") } else { key.clone() };
                KeyRange::from_wire(start, end)
            }
            (false, false) => KeyRange::single(key.clone()),
        };
        if let Some(recording) = &self.recording {
            recording.ask(&keys);
        }
        self.asked.push_back(lock.then_some((key, omitted)));
        Input::Create(Create {
            stream,
            caller: self.handle.caller().clone(),
            id: (watch_id != 0).then_some(WatchId(watch_id)),
            keys,
            // Holders are reported from now on: the queue is not read from the past.
            start: if lock { Revision::ZERO } else { Revision(start_revision) },
            prev_kv,
            // Every change of a queue may be a hand-over.
            filters: if lock { Filters { no_put: false, no_delete: false } } else { omitted.events },
            progress_notify: false,
            fragment: false,
        })
    }

    async fn render(&mut self, response: Response) -> Result<WatchResponse, Code> {
        let mut answer = WatchResponse {
            header: Some(call_context::header(&self.handle, response.revision)),
            watch_id: response.watch.0,
            ..WatchResponse::default()
        };
        if let Some(recording) = &self.recording {
            record(recording, &response.kind);
        }
        match response.kind {
            ResponseKind::Created => {
                answer.created = true;
                if let Some(asked) = self.asked.pop_front().flatten() {
                    let mut queue = WatchedQueue::read(&self.handle, asked, response.revision).await?;
                    answer.hand_overs.extend(queue.report(&self.handle, response.revision, true).await);
                    self.locks.insert(response.watch, queue);
                }
            }
            ResponseKind::Refused(refusal) => {
                self.asked.pop_front();
                (answer.created, answer.canceled) = (true, true);
                answer.cancel_reason = refusal.reason().to_owned();
            }
            ResponseKind::Events { batch, .. } => match self.locks.get_mut(&response.watch) {
                None => answer.events = batch.events().iter().map(render_event).collect(),
                Some(queue) => {
                    answer.hand_overs = queue.follow(&self.handle, batch.events()).await;
                    let left = batch.events().iter().filter(|event| queue.omitted.leaves(event));
                    answer.events = left.map(render_event).collect();
                }
            },
            ResponseKind::Canceled { compacted } => {
                self.locks.remove(&response.watch);
                answer.canceled = true;
                answer.compact_revision = compacted.map_or(0, |revision| revision.0);
            }
            ResponseKind::Denied(code) => {
                self.locks.remove(&response.watch);
                answer.canceled = true;
                answer.cancel_reason = denied(code).to_owned();
            }
            ResponseKind::Progress => {}
        }
        Ok(answer)
    }
}

impl WatchedQueue {
    async fn read(
        handle: &Handle,
        (lock, omitted): (Bytes, Omitted),
        revision: Revision,
    ) -> Result<WatchedQueue, Code> {
        let range = Range { revision, serializable: true, ..Range::of(lock_queue::keys_of(&lock)) };
        let reply = handle.kv().submit(range).await?;
        let places = reply.body.kvs.into_iter().map(|kv| (kv.key.clone(), kv)).collect();
        Ok(WatchedQueue { lock, omitted, places, reported: Revision::ZERO })
    }

    /// The hand-overs that these events are, at most one a revision.
    async fn follow(&mut self, handle: &Handle, events: &[Event]) -> Vec<HandOver> {
        let mut hand_overs = Vec::new();
        for events in events.chunk_by(|a, b| a.kv.mod_revision == b.kv.mod_revision) {
            events.iter().for_each(|event| self.take(event));
            hand_overs.extend(self.report(handle, events[0].kv.mod_revision, false).await);
        }
        hand_overs
    }

    fn take(&mut self, event: &Event) {
        if event.deleted {
            self.places.remove(&event.kv.key);
        } else {
            self.places.insert(event.kv.key.clone(), event.kv.clone());
        }
    }

    /// The holder of the lock, if it has changed.
    async fn report(&mut self, handle: &Handle, revision: Revision, is_first: bool) -> Option<HandOver> {
        let holder = self.places.values().min_by_key(|place| place.create_revision);
        let token = holder.map_or(Revision::ZERO, |holder| holder.create_revision);
        if self.omitted.hand_overs || token == self.reported && !is_first {
            return None;
        }
        self.reported = token;
        let lock = String::from_utf8_lossy(&self.lock).into_owned();
        let Some(holder) = holder else {
            return Some(HandOver { lock, revision: revision.0, ..HandOver::default() });
        };
        let claims = handle.locks().claims(vec![holder.key.clone()]).await.unwrap_or_default();
        let claim = claims.into_iter().flatten().next();
        Some(HandOver {
            lock,
            key: String::from_utf8_lossy(&holder.key).into_owned(),
            fencing_token: token.0,
            holder_id: lock_view::holder_id(&holder.key, claim.as_ref()),
            lease_id: holder.lease.0,
            metadata: holder.value.clone(),
            revision: revision.0,
        })
    }
}

fn render_event(event: &Event) -> mvccpb::Event {
    let kind = if event.deleted { mvccpb::event::EventType::Delete } else { mvccpb::event::EventType::Put };
    mvccpb::Event {
        r#type: kind as i32,
        kv: Some(kv::render_key_value(event.kv.clone())),
        prev_kv: event.prev.clone().map(kv::render_key_value),
    }
}
