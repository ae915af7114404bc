//! The statistics of a run, shared by its connections, and how much of it is left.
//! Connections report each operation as it ends; progress is read from here while they work.

use crate::histogram::Histogram;
use crate::hpack::Outcome;
use std::time::{Duration, Instant};

/// When a run ends: after so many operations, or at a time, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub total: Option<u64>,
    pub until: Option<Instant>,
}

#[derive(Debug)]
pub struct Stats {
    pub latencies: Histogram,
    pub errors: u64,
    /// The first error, in the server's words.
    pub first_error: Option<String>,
    goal: Goal,
    begun: u64,
}

impl Stats {
    pub fn new(goal: Goal) -> Stats {
        Stats { latencies: Histogram::default(), errors: 0, first_error: None, goal, begun: 0 }
    }

    /// Whether one more operation may begin; if so it is counted.
    pub fn begin(&mut self, now: Instant) -> bool {
        let open = self.goal.total.is_none_or(|total| self.begun < total)
            && self.goal.until.is_none_or(|until| now < until);
        self.begun += u64::from(open);
        open
    }

    pub fn succeed(&mut self, latency: Duration) {
        self.latencies.add(latency);
    }

    pub fn end(&mut self, latency: Duration, outcome: &Outcome) {
        match outcome.status {
            Some(0) => self.succeed(latency),
            status => {
                let message = outcome.message.as_deref().unwrap_or("no message");
                self.fail(format!("status {}: {message}", status.map_or("none".into(), |s| s.to_string())));
            }
        }
    }

    pub fn fail(&mut self, what: String) {
        self.errors += 1;
        self.first_error.get_or_insert(what);
    }

    pub fn done(&self) -> u64 {
        self.latencies.count() + self.errors
    }

    /// How much of the run is done, from 0 to 1.
    pub fn progress(&self, started: Instant, now: Instant) -> f64 {
        let by_count = self.goal.total.map(|total| self.done() as f64 / total.max(1) as f64);
        let by_time = self.goal.until.map(|until| {
            now.duration_since(started).as_secs_f64() / until.duration_since(started).as_secs_f64()
        });
        by_count.unwrap_or(0.0).max(by_time.unwrap_or(0.0)).min(1.0)
    }
}
