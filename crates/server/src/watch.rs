//! Streams of watches between the api crate and the apply thread.
//! Requests go into the apply thread's queue; responses come out in batches, one channel send for each stream
//! and turn. Both ways are bounded: requests by permits, and while many responses wait; responses by the
//! credit that goes back to the hub as the client takes them.

use crate::apply::ApplyJob;
use crate::core::Core;
use base::limits::{WATCH_REQUESTS_MAX, WATCH_WINDOW_BYTES, WATCH_WINDOW_RESPONSES};
use coord::watch::{Credit, Input, Response, StreamId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, Semaphore};

/// How much a stream is sent before its client has accepted anything.
pub(crate) const WINDOW: Credit =
    Credit { responses: WATCH_WINDOW_RESPONSES as i64, bytes: WATCH_WINDOW_BYTES as i64 };

pub(crate) fn open(core: &Arc<Core>) -> (WatchRequests, WatchResponses) {
    let stream = StreamId(core.watch_streams.fetch_add(1, Ordering::Relaxed));
    let (sender, inbox) = unbounded_channel();
    let waiting = Arc::new(UntakenResponses::default());
    let outlet = StreamOutput { sender, waiting: waiting.clone(), pending: Vec::new() };
    core.coord.apply.post(ApplyJob::WatchOpen { stream, outlet });
    let permits = Arc::new(Semaphore::new(WATCH_REQUESTS_MAX));
    let requests = WatchRequests { stream, core: core.clone(), permits, waiting: waiting.clone() };
    let nothing = Credit::default();
    let responses =
        WatchResponses { stream, core: core.clone(), inbox, waiting, given: nothing, taken: nothing };
    (requests, responses)
}

/// Responses that the client has not taken yet.
#[derive(Default)]
struct UntakenResponses {
    responses: AtomicUsize,
    fewer: Notify,
}

pub struct WatchRequests {
    stream: StreamId,
    core: Arc<Core>,
    permits: Arc<Semaphore>,
    waiting: Arc<UntakenResponses>,
}

impl WatchRequests {
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Waits while the client has taken too little. False when the member has stopped.
    pub async fn send(&self, input: Input) -> bool {
        self.await_space().await;
        let permit = self.permits.clone().acquire_owned().await.expect("it is never closed");
        self.core.coord.apply.post(ApplyJob::Watch { input, permit: Some(permit) })
    }

    /// Not every response waits for credit: those that answer a request wait here, before it is made.
    async fn await_space(&self) {
        loop {
            let fewer = self.waiting.fewer.notified();
            if self.waiting.responses.load(Ordering::Acquire) < 2 * WATCH_WINDOW_RESPONSES {
                return;
            }
            fewer.await;
        }
    }
}

pub struct WatchResponses {
    stream: StreamId,
    core: Arc<Core>,
    inbox: UnboundedReceiver<Vec<Response>>,
    waiting: Arc<UntakenResponses>,
    /// The cost of the last batch, which the client may still be reading.
    given: Credit,
    /// The cost of what the client took and the hub does not know of.
    taken: Credit,
}

impl WatchResponses {
    /// The responses that have gathered for the client; `None` when the member has stopped. The call says that the previous
    /// batch has been taken.
    pub fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Response>>> {
        self.return_credit();
        let Some(batch) = ready!(self.inbox.poll_recv(cx)) else { return Poll::Ready(None) };
        self.waiting.responses.fetch_sub(batch.len(), Ordering::Release);
        self.waiting.fewer.notify_waiters();
        self.given = batch.iter().fold(Credit::default(), |sum, response| sum.plus(response.cost()));
        Poll::Ready(Some(batch))
    }

    /// Half a window at a time: the apply thread is woken seldom, and the other half keeps it going.
    fn return_credit(&mut self) {
        self.taken = self.taken.plus(std::mem::take(&mut self.given));
        if self.taken.responses >= WINDOW.responses / 2 || self.taken.bytes >= WINDOW.bytes / 2 {
            let credit = std::mem::take(&mut self.taken);
            let input = Input::Credit { stream: self.stream, credit };
            self.core.coord.apply.post(ApplyJob::Watch { input, permit: None });
        }
    }
}

impl Drop for WatchResponses {
    fn drop(&mut self) {
        self.core.coord.apply.post(ApplyJob::Watch { input: Input::Close(self.stream), permit: None });
    }
}

/// The apply thread's end of one stream.
pub(crate) struct StreamOutput {
    sender: UnboundedSender<Vec<Response>>,
    waiting: Arc<UntakenResponses>,
    /// The responses of this turn.
    pending: Vec<Response>,
}

#[derive(Default)]
pub(crate) struct StreamOutputs {
    streams: BTreeMap<StreamId, StreamOutput>,
    /// Streams with something pending.
    touched: Vec<StreamId>,
}

impl StreamOutputs {
    pub fn open(&mut self, stream: StreamId, outlet: StreamOutput) {
        self.streams.insert(stream, outlet);
    }

    pub fn close(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// Responses that clients have not taken yet.
    pub fn waiting(&self) -> usize {
        self.streams.values().map(|outlet| outlet.waiting.responses.load(Ordering::Relaxed)).sum()
    }

    /// Delivers the responses of a turn, those of each stream at once. Returns the number of events.
    pub fn deliver(&mut self, responses: &mut Vec<Response>) -> u64 {
        let events = responses.iter().map(|response| response.event_count() as u64).sum();
        let mut responses = responses.drain(..).peekable();
        while let Some(first) = responses.next() {
            let stream = first.stream;
            let same = std::iter::from_fn(|| responses.next_if(|response| response.stream == stream));
            let run = std::iter::once(first).chain(same);
            match self.streams.get_mut(&stream) {
                // The client has gone away; its close is on the way to the hub, or was in this turn.
                None => run.for_each(drop),
                Some(outlet) => {
                    if outlet.pending.is_empty() {
                        self.touched.push(stream);
                    }
                    outlet.pending.extend(run);
                }
            }
        }
        for stream in self.touched.drain(..) {
            if let Some(outlet) = self.streams.get_mut(&stream) {
                outlet.send();
            }
        }
        events
    }
}

impl StreamOutput {
    fn send(&mut self) {
        let batch = std::mem::take(&mut self.pending);
        self.waiting.responses.fetch_add(batch.len(), Ordering::Release);
        // The client may have gone away.
        let _ = self.sender.send(batch);
    }
}
