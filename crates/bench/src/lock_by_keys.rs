//! Load on locks as etcd's own client takes them, without a lock service: a transaction writes a leased key and reads the
//! oldest, a client that is not first watches the key before its own until it is deleted, and a delete releases the lock.
//! It runs on any server that speaks etcd v3 and is the baseline for a lock service.

use crate::hpack::Outcome;
use crate::keep_alive::grant;
use crate::stats::Stats;
use crate::wire::{Broken, Event, StreamId, Wire};
use base::Rng;
use bytes::Bytes;
use prost::Message;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
    WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use proto::mvccpb::event::EventType;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

const TXN: &str = "/etcdserverpb.KV/Txn";
const RANGE: &str = "/etcdserverpb.KV/Range";
const DELETE: &str = "/etcdserverpb.KV/DeleteRange";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// The clients of one connection, which share one stream of watches as the clients of one process do.
pub struct Seekers {
    pub wire: Wire,
    pub clients: usize,
    /// How many locks there are.
    pub locks: u64,
    pub rng: Rng,
    pub stats: Rc<RefCell<Stats>>,
}

impl Seekers {
    pub async fn run(self) -> Result<(), Broken> {
        let Seekers { mut wire, clients, locks, rng, stats } = self;
        let leases = grant(&mut wire, clients).await?;
        let watches = wire.open(WATCH);
        let mut round = Round {
            locks,
            rng,
            stats,
            watches,
            watch_ids: 0,
            calling: BTreeMap::new(),
            waiting: BTreeMap::new(),
        };
        for lease in leases {
            round.begin(&mut wire, lease);
        }
        while !round.calling.is_empty() || !round.waiting.is_empty() {
            let mut closed = false;
            wire.turn(&mut |wire, event| match event {
                Event::Message { stream, message } if stream == watches => round.hear(wire, message),
                Event::Message { stream, message } => {
                    if let Some((_, answer)) = round.calling.get_mut(&stream) {
                        *answer = message;
                    }
                }
                Event::End { stream, .. } if stream == watches => closed = true,
                Event::End { stream, outcome } => {
                    if let Some((seeker, answer)) = round.calling.remove(&stream) {
                        round.answered(wire, seeker, answer, &outcome);
                    }
                }
            })
            .await?;
            if closed {
                return Err(Broken::Closed);
            }
        }
        Ok(())
    }
}

/// A client that takes and releases a lock.
struct Seeker {
    lease: i64,
    began: Instant,
    /// The name of the lock with the slash behind it.
    prefix: Bytes,
    key: Bytes,
    /// The create revision of its own key, which is its position in the queue.
    place: i64,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    Queueing,
    LookingAhead,
    Checking,
    Releasing,
}

struct Round {
    locks: u64,
    rng: Rng,
    stats: Rc<RefCell<Stats>>,
    watches: StreamId,
    watch_ids: i64,
    /// With the answer, once it has arrived.
    calling: BTreeMap<StreamId, (Seeker, Bytes)>,
    /// By the id of the watch on the key before their own.
    waiting: BTreeMap<i64, Seeker>,
}

impl Round {
    fn begin(&mut self, wire: &mut Wire, lease: i64) {
        let began = Instant::now();
        if !self.stats.borrow_mut().begin(began) {
            return;
        }
        let prefix = format!("bench-lock-{}/", self.rng.between(0, self.locks));
        let key = Bytes::from(format!("{prefix}{lease:x}"));
        let seeker = Seeker { lease, began, prefix: prefix.into(), key, place: 0, step: Step::Queueing };
        let request = queue(&seeker);
        self.call(wire, TXN, &request, seeker);
    }

    fn call(&mut self, wire: &mut Wire, path: &str, message: &impl Message, seeker: Seeker) {
        let stream = wire.call(path, message);
        self.calling.insert(stream, (seeker, Bytes::new()));
    }

    fn answered(&mut self, wire: &mut Wire, mut seeker: Seeker, answer: Bytes, outcome: &Outcome) {
        if outcome.status != Some(0) {
            return self.end(wire, &seeker, outcome);
        }
        match seeker.step {
            Step::Queueing => match place_and_first(answer) {
                Some((place, first)) => {
                    seeker.place = place;
                    if place == first { self.release(wire, seeker) } else { self.look_ahead(wire, seeker) }
                }
                None => self.end(wire, &seeker, &unexpected()),
            },
            Step::LookingAhead => {
                let range = RangeResponse::decode(answer).unwrap_or_default();
                let revision = range.header.map_or(0, |header| header.revision);
                match range.kvs.into_iter().next() {
                    Some(ahead) => self.wait(wire, seeker, ahead.key, revision),
                    None => self.check(wire, seeker),
                }
            }
            // The key still exists: the lease has not expired while waiting.
            Step::Checking => {
                if RangeResponse::decode(answer).unwrap_or_default().kvs.is_empty() {
                    self.end(wire, &seeker, &unexpected())
                } else {
                    self.release(wire, seeker)
                }
            }
            Step::Releasing => self.end(wire, &seeker, outcome),
        }
    }

    fn look_ahead(&mut self, wire: &mut Wire, mut seeker: Seeker) {
        seeker.step = Step::LookingAhead;
        let request = RangeRequest {
            max_create_revision: seeker.place - 1,
            ..by_creation(&seeker, SortOrder::Descend)
        };
        self.call(wire, RANGE, &request, seeker);
    }

    fn wait(&mut self, wire: &mut Wire, seeker: Seeker, ahead: Bytes, revision: i64) {
        self.watch_ids += 1;
        let create = WatchCreateRequest {
            key: ahead,
            start_revision: revision + 1,
            watch_id: self.watch_ids,
            ..WatchCreateRequest::default()
        };
        wire.send(self.watches, &WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) });
        self.waiting.insert(self.watch_ids, seeker);
    }

    fn hear(&mut self, wire: &mut Wire, message: Bytes) {
        let response = WatchResponse::decode(message).unwrap_or_default();
        let gone = response.events.iter().any(|event| event.r#type() == EventType::Delete);
        if !gone && !response.canceled {
            return;
        }
        // A canceled watch that a client still waits for was refused; another read finds out why.
        if let Some(seeker) = self.waiting.remove(&response.watch_id) {
            if gone {
                let cancel = WatchCancelRequest { watch_id: response.watch_id };
                let request = WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) };
                wire.send(self.watches, &request);
            }
            self.look_ahead(wire, seeker);
        }
    }

    fn check(&mut self, wire: &mut Wire, mut seeker: Seeker) {
        seeker.step = Step::Checking;
        let request = RangeRequest { key: seeker.key.clone(), ..RangeRequest::default() };
        self.call(wire, RANGE, &request, seeker);
    }

    fn release(&mut self, wire: &mut Wire, mut seeker: Seeker) {
        seeker.step = Step::Releasing;
        let request = DeleteRangeRequest { key: seeker.key.clone(), ..DeleteRangeRequest::default() };
        self.call(wire, DELETE, &request, seeker);
    }

    fn end(&mut self, wire: &mut Wire, seeker: &Seeker, outcome: &Outcome) {
        self.stats.borrow_mut().end(seeker.began.elapsed(), outcome);
        self.begin(wire, seeker.lease);
    }
}

fn unexpected() -> Outcome {
    Outcome { status: None, message: Some("the key of the lock is not there".into()) }
}

/// Writes the key unless it exists, and reads it and the oldest.
fn queue(seeker: &Seeker) -> TxnRequest {
    let absent = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: seeker.key.clone(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let op = |request| RequestOp { request: Some(request) };
    let put = PutRequest { key: seeker.key.clone(), lease: seeker.lease, ..PutRequest::default() };
    let get = RangeRequest { key: seeker.key.clone(), ..RangeRequest::default() };
    let first = || op(Request::RequestRange(by_creation(seeker, SortOrder::Ascend)));
    TxnRequest {
        compare: vec![absent],
        success: vec![op(Request::RequestPut(put)), first()],
        failure: vec![op(Request::RequestRange(get)), first()],
    }
}

/// One of the keys of the lock: the oldest or the newest.
fn by_creation(seeker: &Seeker, order: SortOrder) -> RangeRequest {
    let mut end = seeker.prefix.to_vec();
    *end.last_mut().expect("a prefix ends with a slash") += 1;
    RangeRequest {
        key: seeker.prefix.clone(),
        range_end: end.into(),
        limit: 1,
        sort_order: order.into(),
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}

/// The create revisions of the own key and of the oldest.
fn place_and_first(answer: Bytes) -> Option<(i64, i64)> {
    let TxnResponse { header, succeeded, responses } = TxnResponse::decode(answer).ok()?;
    let mut ranges = responses.into_iter().filter_map(|response| match response.response? {
        Response::ResponseRange(range) => Some(range.kvs.first().map(|kv| kv.create_revision)),
        _ => None,
    });
    let place = if succeeded { header?.revision } else { ranges.next()?? };
    Some((place, ranges.next()??))
}
