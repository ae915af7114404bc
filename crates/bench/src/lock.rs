//! Load on locks: each client has a lease, takes one of so many locks by etcd's lock service, and releases it as soon
//! as it has it. An operation is both calls; its time is from requesting the lock until it is released.

use crate::hpack::Outcome;
use crate::keep_alive::grant;
use crate::stats::Stats;
use crate::wire::{ConnError, Event, GrpcConn, StreamId};
use base::Rng;
use bytes::Bytes;
use prost::Message;
use proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

const LOCK: &str = "/v3lockpb.Lock/Lock";
const UNLOCK: &str = "/v3lockpb.Lock/Unlock";

/// The clients of one connection.
pub struct Lockers {
    pub wire: GrpcConn,
    pub clients: usize,
    /// How many locks there are.
    pub locks: u64,
    pub rng: Rng,
    pub stats: Rc<RefCell<Stats>>,
}

/// A client with a call under way.
struct Locker {
    lease: i64,
    began: Instant,
    step: LockStep,
}

enum LockStep {
    /// With the key, once the server has returned it.
    Locking(Option<Bytes>),
    Unlocking,
}

impl Lockers {
    pub async fn run(self) -> Result<(), ConnError> {
        let Lockers { mut wire, clients, locks, rng, stats } = self;
        let leases = grant(&mut wire, clients).await?;
        let mut round = LockRound { locks, rng, stats, lockers: BTreeMap::new() };
        for lease in leases {
            round.begin(&mut wire, lease);
        }
        while !round.lockers.is_empty() {
            wire.turn(&mut |wire, event| round.take(wire, event)).await?;
        }
        Ok(())
    }
}

struct LockRound {
    locks: u64,
    rng: Rng,
    stats: Rc<RefCell<Stats>>,
    lockers: BTreeMap<StreamId, Locker>,
}

impl LockRound {
    fn begin(&mut self, wire: &mut GrpcConn, lease: i64) {
        let began = Instant::now();
        if self.stats.borrow_mut().begin(began) {
            let stream = wire.call(LOCK, &LockRequest { name: self.name(), lease });
            self.lockers.insert(stream, Locker { lease, began, step: LockStep::Locking(None) });
        }
    }

    fn name(&mut self) -> Bytes {
        format!("bench-lock-{}", self.rng.between(0, self.locks)).into()
    }

    fn take(&mut self, wire: &mut GrpcConn, event: Event) {
        match event {
            Event::Message { stream, message } => {
                if let Some(Locker { step: LockStep::Locking(key), .. }) = self.lockers.get_mut(&stream) {
                    *key = LockResponse::decode(message).ok().map(|response| response.key);
                }
            }
            Event::End { stream, outcome } => {
                if let Some(locker) = self.lockers.remove(&stream) {
                    self.end(wire, locker, &outcome);
                }
            }
        }
    }

    fn end(&mut self, wire: &mut GrpcConn, locker: Locker, outcome: &Outcome) {
        match (locker.step, outcome.status) {
            (LockStep::Locking(Some(key)), Some(0)) => {
                let stream = wire.call(UNLOCK, &UnlockRequest { key });
                self.lockers.insert(stream, Locker { step: LockStep::Unlocking, ..locker });
            }
            // Released, or refused at either step.
            _ => {
                self.stats.borrow_mut().end(locker.began.elapsed(), outcome);
                self.begin(wire, locker.lease);
            }
        }
    }
}
