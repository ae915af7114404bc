//! Metrics of etcd that are counted per operation, per write to the log or per peer, with etcd's names and meanings.
//! The apply thread keeps plain numbers, and adds the durations of a batch of commands at once: each command gets an
//! equal part of the time that its batch took.

mod process;

use super::Labels;
use crate::histogram::DurationHistogram;
use crate::peer::PeerCounts;
use crate::registry::Registry;
use base::{Code, NodeId};
use node::apply::OpCounts;
use node::apply::op_counts::COMMAND_KINDS;
use process::ProcessMetrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

type DurationFamily = Family<Labels, DurationHistogram, fn() -> DurationHistogram>;

/// Refused and carried out.
const OUTCOMES: [&str; 2] = ["false", "true"];

pub(crate) struct EtcdMetrics {
    counters: OperationCounters,
    put_bytes: Gauge,
    apply_seconds: DurationFamily,
    range_seconds: DurationFamily,
    applied: [[OnceLock<DurationHistogram>; 2]; COMMAND_KINDS.len()],
    ranged: [OnceLock<DurationHistogram>; 2],
    pub wal_write_seconds: DurationHistogram,
    pub wal_write_bytes: Gauge,
    pub heartbeats_late: Counter,
    pub hash_seconds: DurationHistogram,
    pub hash_rev_seconds: DurationHistogram,
    pub snapshot_seconds: DurationHistogram,
    pub open_reads: Gauge,
    known_peers: Family<Labels, Gauge>,
    active_peers: Family<Labels, Gauge>,
    disconnected_peers: Family<Labels, Counter>,
    promoted: Gauge,
    not_promoted: Family<Labels, Gauge>,
    pub process: ProcessMetrics,
}

#[derive(Default)]
struct OperationCounters {
    ranges: Counter,
    puts: Counter,
    deletes: Counter,
    txns: Counter,
    leases_granted: Counter,
    leases_revoked: Counter,
    fence_refusals: Counter,
}

impl OperationCounters {
    fn registered(registry: &mut Registry) -> OperationCounters {
        let counters = OperationCounters::default();
        for (counter, name, help) in [
            (&counters.ranges, "etcd_mvcc_range", "Ranges that this member has read"),
            (&counters.puts, "etcd_mvcc_put", "Puts that this member has applied"),
            (&counters.deletes, "etcd_mvcc_delete", "Deletes that this member has applied"),
            (
                &counters.txns,
                "etcd_mvcc_txn",
                "Transactions of several operations that this member has applied",
            ),
            (&counters.leases_granted, "etcd_debugging_lease_granted", "Leases granted"),
            (&counters.leases_revoked, "etcd_debugging_lease_revoked", "Leases revoked"),
            (
                &counters.fence_refusals,
                "althing_fence_refusals",
                "Writes and checks that this member has refused because a later holder of the lock has overtaken their token",
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        counters
    }

    fn set(&self, ops: &OpCounts) {
        for (counter, count) in [
            (&self.ranges, ops.ranges),
            (&self.puts, ops.puts),
            (&self.deletes, ops.deletes),
            (&self.txns, ops.txns),
            (&self.leases_granted, ops.leases_granted),
            (&self.leases_revoked, ops.leases_revoked),
            (&self.fence_refusals, ops.fence_refusals),
        ] {
            counter.inner().store(count, Relaxed);
        }
    }
}

impl EtcdMetrics {
    pub fn registered(registry: &mut Registry) -> EtcdMetrics {
        // As in etcd: from a tenth of a millisecond, doubling, up to 52 seconds.
        let applying: fn() -> DurationHistogram = || DurationHistogram::new(Duration::from_micros(100), 20);
        let metrics = EtcdMetrics {
            counters: OperationCounters::registered(registry),
            put_bytes: Gauge::default(),
            apply_seconds: Family::new_with_constructor(applying),
            range_seconds: Family::new_with_constructor(applying),
            applied: Default::default(),
            ranged: Default::default(),
            // As in etcd: from one millisecond, doubling, up to eight seconds.
            wal_write_seconds: DurationHistogram::new(Duration::from_millis(1), 14),
            wal_write_bytes: Gauge::default(),
            heartbeats_late: Counter::default(),
            // As in etcd: from ten milliseconds, doubling, up to three and to eleven minutes.
            hash_seconds: DurationHistogram::new(Duration::from_millis(10), 15),
            hash_rev_seconds: DurationHistogram::new(Duration::from_millis(10), 15),
            snapshot_seconds: DurationHistogram::new(Duration::from_millis(10), 17),
            open_reads: Gauge::default(),
            known_peers: Family::default(),
            active_peers: Family::default(),
            disconnected_peers: Family::default(),
            promoted: Gauge::default(),
            not_promoted: Family::default(),
            process: ProcessMetrics::registered(registry),
        };
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "etcd_server_apply_duration_seconds",
            "How long it takes to apply a command, by its kind",
            self.apply_seconds.clone(),
        );
        registry.register(
            "etcd_server_range_duration_seconds",
            "How long it takes to read a range",
            self.range_seconds.clone(),
        );
        for (histogram, name, help) in [
            (
                &self.wal_write_seconds,
                "etcd_disk_wal_write_duration_seconds",
                "How long it takes to write to the write-ahead log, before it is made durable",
            ),
            (
                &self.hash_seconds,
                "etcd_mvcc_hash_duration_seconds",
                "How long the hash of the state takes: it is always there",
            ),
            (
                &self.hash_rev_seconds,
                "etcd_mvcc_hash_rev_duration_seconds",
                "How long it takes to hash the keys up to a revision",
            ),
            (
                &self.snapshot_seconds,
                "etcd_disk_backend_snapshot_duration_seconds",
                "How long it takes until a client has taken a snapshot",
            ),
        ] {
            registry.register(name, help, histogram.clone());
        }
        registry.register(
            "etcd_server_heartbeat_send_failures",
            "Heartbeats that this member sent too late while it led",
            self.heartbeats_late.clone(),
        );
        for (gauge, name, help) in [
            (&self.put_bytes, "etcd_debugging_mvcc_total_put_size_in_bytes", "Keys and values of puts"),
            (
                &self.wal_write_bytes,
                "etcd_disk_wal_write_bytes_total",
                "Bytes written to the write-ahead log",
            ),
            (&self.promoted, "etcd_server_learner_promote_successes", "Learners that were promoted"),
            (
                &self.open_reads,
                "etcd_mvcc_db_open_read_transactions",
                "Large ranges that are being read in pieces",
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "etcd_server_learner_promote_failures",
            "Learners that were not promoted, by the reason",
            self.not_promoted.clone(),
        );
        for (family, name, help) in [
            (&self.known_peers, "etcd_network_known_peers", "Members that this one knows, itself included"),
            (&self.active_peers, "etcd_network_active_peers", "Members that this one is connected to"),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "etcd_network_disconnected_peers",
            "Connections to members that ended",
            self.disconnected_peers.clone(),
        );
    }

    pub fn set_ops(&self, ops: &OpCounts) {
        self.counters.set(ops);
        self.put_bytes.set(ops.put_bytes as i64);
    }

    /// A batch of commands was applied.
    pub fn observe_applied(&self, before: &OpCounts, after: &OpCounts, took: Duration) {
        let count = |counts: &OpCounts| counts.commands.iter().flatten().sum::<u64>();
        let commands = count(after) - count(before);
        if commands == 0 {
            return;
        }
        let each = took / u32::try_from(commands).unwrap_or(u32::MAX);
        for (kind, name) in COMMAND_KINDS.iter().enumerate() {
            for (outcome, success) in OUTCOMES.iter().enumerate() {
                let count = after.commands[kind][outcome] - before.commands[kind][outcome];
                if count > 0 {
                    let histogram = self.applied[kind][outcome].get_or_init(|| {
                        let labels = [("version", "v3"), ("op", name), ("success", success)];
                        of(&self.apply_seconds, &labels)
                    });
                    histogram.observe_many(each, count);
                }
            }
        }
    }

    /// A batch of reads was answered.
    pub fn observe_reads(&self, before: &OpCounts, after: &OpCounts, took: Duration) {
        let counts = [after.reads[0] - before.reads[0], after.reads[1] - before.reads[1]];
        let reads = counts[0] + counts[1];
        if reads == 0 {
            return;
        }
        let each = took / u32::try_from(reads).unwrap_or(u32::MAX);
        for (outcome, success) in OUTCOMES.iter().enumerate() {
            if counts[outcome] > 0 {
                let make = || of(&self.range_seconds, &[("success", success)]);
                self.ranged[outcome].get_or_init(make).observe_many(each, counts[outcome]);
            }
        }
    }

    pub fn count_promotion(&self, refusal: Option<Code>) {
        match refusal {
            None => drop(self.promoted.inc()),
            Some(code) => {
                let reason = vec![("Reason", code.message().to_owned())];
                self.not_promoted.get_or_create(&reason).inc();
            }
        }
    }

    pub fn set_peers(&self, me: NodeId, peers: &[(NodeId, PeerCounts, bool)]) {
        let labels = |remote: NodeId| -> Labels {
            vec![("Local", format!("{:x}", me.0)), ("Remote", format!("{:x}", remote.0))]
        };
        self.known_peers.get_or_create(&labels(me)).set(1);
        for (id, counts, is_connected) in peers {
            let labels = labels(*id);
            let ended = counts.connects.saturating_sub(u64::from(*is_connected));
            self.known_peers.get_or_create(&labels).set(1);
            self.active_peers.get_or_create(&labels).set(i64::from(*is_connected));
            self.disconnected_peers.get_or_create(&labels).inner().store(ended, Relaxed);
        }
    }
}

fn of(family: &DurationFamily, labels: &[(&'static str, &str)]) -> DurationHistogram {
    let labels: Labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    family.get_or_create(&labels).clone()
}
