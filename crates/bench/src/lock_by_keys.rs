//! Load on locks as etcd's own client takes them, without a lock service: a transaction writes a leased key and reads the
//! oldest, a client that is not first watches the key before its own until it is deleted, and a delete releases the lock.
//! It runs on any server that speaks etcd v3 and is the baseline for a lock service.

use crate::hpack::Outcome;
use crate::keep_alive::grant;
use crate::stats::Stats;
use crate::wire::{ConnError, Event, GrpcConn, StreamId};
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
pub struct KeyLockers {
    pub wire: GrpcConn,
    pub clients: usize,
    /// How many locks there are.
    pub locks: u64,
    pub rng: Rng,
    pub stats: Rc<RefCell<Stats>>,
}

impl KeyLockers {
    pub async fn run(self) -> Result<(), ConnError> {
        let KeyLockers { mut wire, clients, locks, rng, stats } = self;
        let leases = grant(&mut wire, clients).await?;
        let watches = wire.open(WATCH);
        let mut round = KeyLockRound {
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
                Event::Message { stream, message } if stream == watches => round.receive(wire, message),
                Event::Message { stream, message } => {
                    if let Some((_, answer)) = round.calling.get_mut(&stream) {
                        *answer = message;
                    }
                }
                Event::End { stream, .. } if stream == watches => closed = true,
                Event::End { stream, outcome } => {
                    if let Some((locker, answer)) = round.calling.remove(&stream) {
                        round.answered(wire, locker, answer, &outcome);
                    }
                }
            })
            .await?;
            if closed {
                return Err(ConnError::Closed);
            }
        }
        Ok(())
    }
}

/// A client that takes and releases a lock.
struct KeyLocker {
    lease: i64,
    began: Instant,
    /// The name of the lock with the slash behind it.
    prefix: Bytes,
    key: Bytes,
    /// The create revision of its own key, which is its position in the queue.
    place: i64,
    step: KeyLockStep,
}

#[derive(Clone, Copy)]
enum KeyLockStep {
    Queueing,
    LookingAhead,
    Checking,
    Releasing,
}

struct KeyLockRound {
    locks: u64,
    rng: Rng,
    stats: Rc<RefCell<Stats>>,
    watches: StreamId,
    watch_ids: i64,
    /// With the answer, once it has arrived.
    calling: BTreeMap<StreamId, (KeyLocker, Bytes)>,
    /// By the id of the watch on the key before their own.
    waiting: BTreeMap<i64, KeyLocker>,
}

impl KeyLockRound {
    fn begin(&mut self, wire: &mut GrpcConn, lease: i64) {
        let began = Instant::now();
        if !self.stats.borrow_mut().begin(began) {
            return;
        }
        let prefix = format!("bench-lock-{}/", self.rng.between(0, self.locks));
        let key = Bytes::from(format!("{prefix}{lease:x}"));
        let locker =
            KeyLocker { lease, began, prefix: prefix.into(), key, place: 0, step: KeyLockStep::Queueing };
        let request = queue(&locker);
        self.call(wire, TXN, &request, locker);
    }

    fn call(&mut self, wire: &mut GrpcConn, path: &str, message: &impl Message, locker: KeyLocker) {
        let stream = wire.call(path, message);
        self.calling.insert(stream, (locker, Bytes::new()));
    }

    fn answered(&mut self, wire: &mut GrpcConn, mut locker: KeyLocker, answer: Bytes, outcome: &Outcome) {
        if outcome.status != Some(0) {
            return self.end(wire, &locker, outcome);
        }
        match locker.step {
            KeyLockStep::Queueing => match place_and_first(answer) {
                Some((place, first)) => {
                    locker.place = place;
                    if place == first {
                        self.release(wire, locker)
                    } else {
                        self.read_predecessor(wire, locker)
                    }
                }
                None => self.end(wire, &locker, &unexpected()),
            },
            KeyLockStep::LookingAhead => {
                let range = RangeResponse::decode(answer).unwrap_or_default();
                let revision = range.header.map_or(0, |header| header.revision);
                match range.kvs.into_iter().next() {
                    Some(ahead) => self.wait(wire, locker, ahead.key, revision),
                    None => self.check(wire, locker),
                }
            }
            // The key still exists: the lease has not expired while waiting.
            KeyLockStep::Checking => {
                if RangeResponse::decode(answer).unwrap_or_default().kvs.is_empty() {
                    self.end(wire, &locker, &unexpected())
                } else {
                    self.release(wire, locker)
                }
            }
            KeyLockStep::Releasing => self.end(wire, &locker, outcome),
        }
    }

    fn read_predecessor(&mut self, wire: &mut GrpcConn, mut locker: KeyLocker) {
        locker.step = KeyLockStep::LookingAhead;
        let request = RangeRequest {
            max_create_revision: locker.place - 1,
            ..by_creation(&locker, SortOrder::Descend)
        };
        self.call(wire, RANGE, &request, locker);
    }

    fn wait(&mut self, wire: &mut GrpcConn, locker: KeyLocker, ahead: Bytes, revision: i64) {
        self.watch_ids += 1;
        let create = WatchCreateRequest {
            key: ahead,
            start_revision: revision + 1,
            watch_id: self.watch_ids,
            ..WatchCreateRequest::default()
        };
        wire.send(self.watches, &WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) });
        self.waiting.insert(self.watch_ids, locker);
    }

    fn receive(&mut self, wire: &mut GrpcConn, message: Bytes) {
        let response = WatchResponse::decode(message).unwrap_or_default();
        let gone = response.events.iter().any(|event| event.r#type() == EventType::Delete);
        if !gone && !response.canceled {
            return;
        }
        // A canceled watch that a client still waits for was refused; another read finds out why.
        if let Some(locker) = self.waiting.remove(&response.watch_id) {
            if gone {
                let cancel = WatchCancelRequest { watch_id: response.watch_id };
                let request = WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) };
                wire.send(self.watches, &request);
            }
            self.read_predecessor(wire, locker);
        }
    }

    fn check(&mut self, wire: &mut GrpcConn, mut locker: KeyLocker) {
        locker.step = KeyLockStep::Checking;
        let request = RangeRequest { key: locker.key.clone(), ..RangeRequest::default() };
        self.call(wire, RANGE, &request, locker);
    }

    fn release(&mut self, wire: &mut GrpcConn, mut locker: KeyLocker) {
        locker.step = KeyLockStep::Releasing;
        let request = DeleteRangeRequest { key: locker.key.clone(), ..DeleteRangeRequest::default() };
        self.call(wire, DELETE, &request, locker);
    }

    fn end(&mut self, wire: &mut GrpcConn, locker: &KeyLocker, outcome: &Outcome) {
        self.stats.borrow_mut().end(locker.began.elapsed(), outcome);
        self.begin(wire, locker.lease);
    }
}

fn unexpected() -> Outcome {
    Outcome { status: None, message: Some("the key of the lock is not there".into()) }
}

/// Writes the key unless it exists, and reads it and the oldest.
fn queue(locker: &KeyLocker) -> TxnRequest {
    let absent = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: locker.key.clone(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let op = |request| RequestOp { request: Some(request) };
    let put = PutRequest { key: locker.key.clone(), lease: locker.lease, ..PutRequest::default() };
    let get = RangeRequest { key: locker.key.clone(), ..RangeRequest::default() };
    let first = || op(Request::RequestRange(by_creation(locker, SortOrder::Ascend)));
    TxnRequest {
        compare: vec![absent],
        success: vec![op(Request::RequestPut(put)), first()],
        failure: vec![op(Request::RequestRange(get)), first()],
    }
}

/// One of the keys of the lock: the oldest or the newest.
fn by_creation(locker: &KeyLocker, order: SortOrder) -> RangeRequest {
    let mut end = locker.prefix.to_vec();
    *end.last_mut().expect("a prefix ends with a slash") += 1;
    RangeRequest {
        key: locker.prefix.clone(),
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
