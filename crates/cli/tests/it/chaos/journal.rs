//! What clients asked and what they were told, as the judge wants it. All times are of one monotonic clock, an
//! invocation rounded down and a return rounded up: an operation never looks shorter than it was.

use super::cluster::Cluster;
use super::load::unique_put;
use super::wire;
use crate::etcd::Etcd;
use crate::process::until;
use coord::reply::Reply;
use coord::request::Request;
use sim::durable::read_everything;
use sim::history::{History, Operation, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Longer than a member lets a request wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// The test itself as a client; the load counts from 0.
const DRIVER: u64 = 100;
/// Those who ask a member that is paused.
const LATE: u64 = 200;

pub struct Journal {
    epoch: Instant,
    operations: Mutex<History>,
    invoked: AtomicU64,
    answered: AtomicU64,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal {
            epoch: Instant::now(),
            operations: Mutex::default(),
            invoked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }
}

impl Journal {
    fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// Asks, and notes it. A client that gets no answer cannot know what became of its request.
    pub async fn call(&self, client: u64, etcd: &mut Etcd, request: Request) -> Option<Reply> {
        let invoked = self.now_us();
        self.invoked.fetch_add(1, Ordering::Relaxed);
        let answer = tokio::time::timeout(CALL_TIMEOUT, wire::send(etcd, &request)).await;
        let reply = answer.ok().and_then(Result::ok);
        let returned = reply.as_ref().map(|_| self.now_us() + 1);
        let outcome = reply.clone().map_or(Outcome::Unknown, Outcome::Done);
        if reply.is_some() {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        let request = request.into();
        self.operations.lock().unwrap().push(Operation { client, invoked, returned, request, outcome });
        reply
    }

    /// Until what was just noted and what comes next no longer overlap in whole microseconds.
    pub async fn let_time_pass(&self) {
        let noted = self.now_us() + 1;
        while self.now_us() <= noted {
            tokio::task::yield_now().await;
        }
    }

    pub async fn put_until_acknowledged(&self, etcd: &mut Etcd) {
        for attempt in self.invoked.load(Ordering::Relaxed).. {
            if self.call(DRIVER, etcd, unique_put("driver", DRIVER, attempt)).await.is_some() {
                break;
            }
        }
    }

    /// The last word of a history: must be answered.
    pub async fn read_everything(&self, etcd: &mut Etcd) {
        self.call(DRIVER, etcd, read_everything()).await.expect("a healthy member answers");
    }

    /// Has reads, and a write for each, wait for a member that is paused; returns when all are on their way.
    pub fn call_late(
        self: &Arc<Journal>,
        cluster: &Cluster,
        paused: &Etcd,
        callers: u64,
    ) -> Vec<JoinHandle<()>> {
        let before = self.invoked.load(Ordering::Relaxed);
        let call = |caller: u64| {
            let (journal, mut etcd) = (self.clone(), paused.clone());
            let request = match caller % 4 {
                0 => unique_put("driver", LATE, caller),
                _ => read_everything(),
            };
            cluster.runtime.spawn(async move { drop(journal.call(LATE + caller, &mut etcd, request).await) })
        };
        let calls = (0..callers).map(call).collect();
        until("the calls are on their way", || {
            (self.invoked.load(Ordering::Relaxed) >= before + callers).then_some(())
        });
        calls
    }

    /// Waits until so many further operations were answered.
    pub fn wait_for_answers(&self, more: u64) {
        let enough = self.answered.load(Ordering::Relaxed) + more;
        until("clients are answered", || (self.answered.load(Ordering::Relaxed) >= enough).then_some(()));
    }

    pub fn history(&self) -> History {
        self.operations.lock().unwrap().clone()
    }
}
