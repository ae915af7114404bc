//! Metrics of work that took long, failed, or was done in the background: slow applies and reads, expired
//! leases, events, compactions. The threads that own the machines copy the machines' own counts here at each tick,
//! not with each request.

use crate::registry::Registry;
use base::{FormatLevel, Instant, Revision};
use coord::watch::WatchPositionCounts;
use node::apply::OldestNeeded;
use node::{Apply, RoundReport};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What etcd calls slow, for entries that are applied together.
const SLOW_APPLY: Duration = Duration::from_millis(100);

pub(crate) struct BackgroundMetrics {
    slow_applies: Counter,
    slow_reads: Counter,
    failed_reads: Counter,
    leases_expired: Counter,
    pub watch_events: Counter,
    pub watch_events_pending: Gauge,
    versions_swept: Counter,
    quota: Gauge,
    format_level: Gauge,
    compaction_milliseconds: Histogram,
    watch_lag: Gauge,
    leases: Gauge,
    watch_positions: Family<Vec<(&'static str, &'static str)>, Gauge>,
    pinned: Family<Vec<(&'static str, &'static str)>, Gauge>,
    rounds: Family<Vec<(&'static str, &'static str)>, Counter>,
}

impl BackgroundMetrics {
    pub fn registered(registry: &mut Registry) -> BackgroundMetrics {
        // As in etcd: from a tenth of a second, doubling, up to seven minutes.
        let milliseconds = || Histogram::new(exponential_buckets(100.0, 2.0, 14));
        let background = BackgroundMetrics {
            slow_applies: Counter::default(),
            slow_reads: Counter::default(),
            failed_reads: Counter::default(),
            leases_expired: Counter::default(),
            watch_events: Counter::default(),
            watch_events_pending: Gauge::default(),
            versions_swept: Counter::default(),
            quota: Gauge::default(),
            format_level: Gauge::default(),
            compaction_milliseconds: milliseconds(),
            watch_lag: Gauge::default(),
            leases: Gauge::default(),
            watch_positions: Family::default(),
            pinned: Family::default(),
            rounds: Family::default(),
        };
        let counters = [
            (&background.slow_applies, "etcd_server_slow_apply", "Times that entries took long to apply"),
            (&background.slow_reads, "etcd_server_slow_read_indexes", "Read index rounds that were repeated"),
            (
                &background.failed_reads,
                "etcd_server_read_indexes_failed",
                "Reads that no round was done for in time",
            ),
            (&background.leases_expired, "etcd_debugging_server_lease_expired", "Leases found expired"),
            (&background.watch_events, "etcd_debugging_mvcc_events", "Events sent to watches"),
            (
                &background.versions_swept,
                "etcd_debugging_mvcc_db_compaction_keys",
                "Versions that compactions removed",
            ),
        ];
        for (counter, name, help) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "althing_format_level",
            "Level of the formats that the cluster writes; 0 until an upgrade from 0.1.0 is finalized",
            background.format_level.clone(),
        );
        registry.register(
            "etcd_debugging_mvcc_pending_events_total",
            "Responses that wait for the clients of watches",
            background.watch_events_pending.clone(),
        );
        registry.register(
            "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
            "How long it takes until what was compacted is removed",
            background.compaction_milliseconds.clone(),
        );
        registry.register(
            "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
            "Pauses of requests for a compaction: there are none",
            milliseconds(),
        );
        registry.register(
            "etcd_server_quota_backend_bytes",
            "How much may be stored",
            background.quota.clone(),
        );
        registry.register(
            "althing_watch_lag_revisions",
            "Revisions that the slowest watch has not been sent",
            background.watch_lag.clone(),
        );
        registry.register("althing_leases", "Leases that there are", background.leases.clone());
        registry.register(
            "althing_watches",
            "Watches by what they do: live, behind, paused (behind, and the client takes nothing), future",
            background.watch_positions.clone(),
        );
        registry.register(
            "althing_compaction_pinned_revision",
            "The oldest revision that this member needs, by the reason: a watch, or a large read; 0 for none",
            background.pinned.clone(),
        );
        registry.register(
            "althing_compaction_rounds",
            "Rounds of automatic compaction that this member led, by outcome",
            background.rounds.clone(),
        );
        background
    }

    pub fn set_watch_lag(&self, revisions: u64) {
        self.watch_lag.set(i64::try_from(revisions).unwrap_or(i64::MAX));
    }

    /// What holds leases, watches and the past.
    pub fn set_holders(&self, machine: &Apply, now: Instant) {
        self.leases.set(machine.lease_count() as i64);
        let WatchPositionCounts { live, behind, paused, future } = machine.count_watch_positions();
        for (state, count) in [("live", live), ("behind", behind), ("paused", paused), ("future", future)] {
            self.watch_positions.get_or_create(&vec![("state", state)]).set(count as i64);
        }
        let OldestNeeded { watches, large_reads } = machine.oldest_needed(now);
        for (reason, revision) in [("watch", watches), ("large-read", large_reads)] {
            let revision = revision.unwrap_or(Revision::ZERO);
            self.pinned.get_or_create(&vec![("reason", reason)]).set(revision.0);
        }
    }

    pub fn count_round(&self, round: &RoundReport) {
        self.rounds.get_or_create(&vec![("outcome", round.outcome.name())]).inc();
    }

    /// No quota is the largest number.
    pub fn set_format_level(&self, level: FormatLevel) {
        self.format_level.set(i64::from(level.0));
    }

    pub fn set_quota(&self, bytes: u64) {
        self.quota.set(i64::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(i64::MAX));
    }

    pub fn applied_in(&self, time: Duration) {
        if time >= SLOW_APPLY {
            self.slow_applies.inc();
        }
    }

    pub fn set_reads(&self, counts: node::ReadCounts) {
        self.slow_reads.inner().store(counts.given_up, Relaxed);
        self.failed_reads.inner().store(counts.expired, Relaxed);
    }

    pub fn set_applied(&self, counts: node::apply::ApplyCounts) {
        self.leases_expired.inner().store(counts.leases_expired, Relaxed);
        self.versions_swept.inner().store(counts.versions_swept, Relaxed);
    }

    pub fn compacted_in(&self, time: Duration) {
        self.compaction_milliseconds.observe(time.as_secs_f64() * 1e3);
    }
}
