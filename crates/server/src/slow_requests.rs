//! Requests that took longer than a setting allows, with where the time went. The threads that answer requests hand in
//! moments that they know anyway; only a request that was slow is looked at more closely. The last ones are kept for
//! operators, each is counted, and a few per second are logged.

use crate::registry::Registry;
use crate::telemetry::now_ms;
use base::{Code, Instant};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// So many are kept.
const KEPT_MAX: usize = 200;
/// So many are logged in a second; more would slow down what is slow already.
const LOGGED_PER_SECOND_MAX: u32 = 5;

/// A request that took long. A phase that it did not go through, or whose end is not known, takes no time: then its time
/// is part of the next phase.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowRequest {
    /// When it was answered, in milliseconds since 1970.
    pub at_ms: u64,
    pub kind: &'static str,
    /// The bytes that it proposed.
    pub bytes: usize,
    /// The code of the refusal; none if the request was done.
    pub refusal: Option<Code>,
    pub took: Duration,
    pub phases: SlowPhases,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowPhases {
    /// Until the thread that orders requests took it.
    pub queue: Duration,
    /// Until this member's log had it on the disk, where this member leads.
    pub log_sync: Duration,
    /// Until a majority had it, or confirmed the leader for a read.
    pub replication: Duration,
    /// Until it was carried out, the wait for the thread that does it included.
    pub apply: Duration,
    /// Until the caller was handed the answer.
    pub reply: Duration,
}

impl SlowPhases {
    /// By name, as logs and documents spell them.
    pub fn by_name(&self) -> [(&'static str, Duration); 5] {
        [
            ("queue", self.queue),
            ("log_sync", self.log_sync),
            ("replication", self.replication),
            ("apply", self.apply),
            ("reply", self.reply),
        ]
    }
}

/// The moments of a request, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestMoments {
    pub posted: Instant,
    pub taken: Instant,
    pub synced: Option<Instant>,
    pub committed: Option<Instant>,
    pub applied: Option<Instant>,
    pub answered: Instant,
}

impl RequestMoments {
    pub fn took(&self) -> Duration {
        self.answered.since(self.posted)
    }

    fn phases(&self) -> SlowPhases {
        // What is not known ends where the phase before it does; what came later than the next phase counts up to that.
        let committed = self.committed.unwrap_or(self.taken).max(self.taken);
        let synced = self.synced.unwrap_or(self.taken).max(self.taken);
        let synced = if self.committed.is_some() { synced.min(committed) } else { synced };
        let committed = if self.committed.is_some() { committed } else { self.answered };
        let applied = self.applied.unwrap_or(committed).max(committed);
        SlowPhases {
            queue: self.taken.since(self.posted),
            log_sync: synced.since(self.taken),
            replication: committed.since(synced),
            apply: applied.since(committed),
            reply: self.answered.since(applied),
        }
    }
}

/// What answers of one turn have in common: those up to a place among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerMoments {
    pub upto: usize,
    pub committed: Instant,
    pub applied: Instant,
}

/// What the thread that answers knows of its answers.
pub(crate) struct AnswerContext<'a> {
    pub moments: &'a [AnswerMoments],
    pub now: Instant,
    pub slow: &'a SlowRequests,
}

pub(crate) struct SlowRequests {
    threshold: Option<Duration>,
    state: Mutex<SlowState>,
    count: Family<Vec<(&'static str, &'static str)>, Counter>,
}

#[derive(Default)]
struct SlowState {
    kept: VecDeque<SlowRequest>,
    /// The second in which lines were logged last, and how many.
    logged_second: u64,
    logged: u32,
    not_logged: u64,
}

impl SlowRequests {
    pub fn registered(registry: &mut Registry) -> SlowRequests {
        let count = Family::default();
        registry.register(
            "althing_slow_requests",
            "Requests that took longer than slow-request-ms, by kind",
            count.clone(),
        );
        SlowRequests { threshold: None, state: Mutex::default(), count }
    }

    /// Zero turns it off.
    pub fn set_threshold(&mut self, threshold: Duration) {
        self.threshold = Some(threshold).filter(|threshold| !threshold.is_zero());
    }

    pub fn is_slow(&self, took: Duration) -> bool {
        self.threshold.is_some_and(|threshold| took >= threshold)
    }

    fn lock(&self) -> MutexGuard<'_, SlowState> {
        self.state.lock().expect("no thread panics while it holds the slow requests")
    }

    /// A request of the coordination store, or of the data plane with its phases as moments.
    pub fn note(&self, kind: &'static str, bytes: usize, refusal: Option<Code>, moments: &RequestMoments) {
        let phases = moments.phases();
        let slow = SlowRequest { at_ms: now_ms(), kind, bytes, refusal, took: moments.took(), phases };
        self.count.get_or_create(&vec![("kind", kind)]).inc();
        let mut state = self.lock();
        let not_logged = state.may_log(slow.at_ms / 1_000);
        if state.kept.len() == KEPT_MAX {
            state.kept.pop_front();
        }
        state.kept.push_back(slow.clone());
        drop(state);
        if let Some(not_logged) = not_logged {
            log(&slow, not_logged);
        }
    }

    /// The last ones, the newest first.
    pub fn list(&self) -> Vec<SlowRequest> {
        self.lock().kept.iter().rev().cloned().collect()
    }
}

impl SlowState {
    /// If one more line may be logged in this second: how many were left out before it.
    fn may_log(&mut self, second: u64) -> Option<u64> {
        if second != self.logged_second {
            (self.logged_second, self.logged) = (second, 0);
        }
        if self.logged == LOGGED_PER_SECOND_MAX {
            self.not_logged += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.not_logged))
    }
}

fn log(slow: &SlowRequest, not_logged: u64) {
    let millis = |took: Duration| (took.as_secs_f64() * 1e6).round() / 1e3;
    let SlowPhases { queue, log_sync, replication, apply, reply } = slow.phases;
    let outcome = slow.refusal.map_or("done", Code::message);
    tracing::warn!(
        kind = slow.kind,
        bytes = slow.bytes,
        outcome,
        took_ms = millis(slow.took),
        queue_ms = millis(queue),
        log_sync_ms = millis(log_sync),
        replication_ms = millis(replication),
        apply_ms = millis(apply),
        reply_ms = millis(reply),
        not_logged,
        "slow request"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(millis * 1_000)
    }

    fn moments() -> RequestMoments {
        RequestMoments {
            posted: at(1_000),
            taken: at(1_010),
            synced: Some(at(1_040)),
            committed: Some(at(1_100)),
            applied: Some(at(1_105)),
            answered: at(1_106),
        }
    }

    fn in_millis(moments: RequestMoments) -> [u64; 5] {
        moments.phases().by_name().map(|(_, took)| took.as_millis() as u64)
    }

    #[test]
    fn the_phases_add_up_to_the_whole() {
        assert_eq!(in_millis(moments()), [10, 30, 60, 5, 1]);
        let unknown = RequestMoments { synced: None, ..moments() };
        assert_eq!(in_millis(unknown), [10, 0, 90, 5, 1], "of a follower");
        let late = RequestMoments { synced: Some(at(1_104)), ..moments() };
        assert_eq!(in_millis(late), [10, 90, 0, 5, 1], "the others were quicker");
        let refused = RequestMoments { committed: None, applied: None, ..moments() };
        assert_eq!(in_millis(refused), [10, 30, 66, 0, 0], "it waited for the others to the end");
        for moments in [moments(), unknown, late, refused] {
            let sum: Duration = moments.phases().by_name().map(|(_, took)| took).iter().sum();
            assert_eq!(sum, moments.took());
        }
    }

    #[test]
    fn a_few_per_second_are_logged_and_the_last_ones_kept() {
        let mut state = SlowState::default();
        let logged = (0..20).filter(|_| state.may_log(7).is_some()).count();
        assert_eq!(logged, LOGGED_PER_SECOND_MAX as usize);
        assert_eq!(state.may_log(8), Some(15), "how many were left out is told with the next");

        let mut slow = SlowRequests::registered(&mut Registry::default());
        slow.set_threshold(Duration::from_millis(100));
        assert!(slow.is_slow(Duration::from_millis(100)) && !slow.is_slow(Duration::from_millis(99)));
        for bytes in 0..KEPT_MAX + 3 {
            slow.note("put", bytes, Some(Code::Timeout), &moments());
        }
        let kept = slow.list();
        assert_eq!((kept.len(), kept[0].bytes), (KEPT_MAX, KEPT_MAX + 2));
        slow.set_threshold(Duration::ZERO);
        assert!(!slow.is_slow(Duration::from_secs(60)));
    }
}
