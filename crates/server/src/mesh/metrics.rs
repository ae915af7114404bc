//! Metrics of the mesh: requests by kind and outcome with their duration, and the machine's status, which is copied when the
//! metrics are read.

use crate::mesh::status::{MeshCounts, MeshStatus};
use crate::registry::Registry;
use mesh::{RegionState, Reply, Request};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

type Label = (&'static str, &'static str);
/// A figure, and where it is read.
type MetricReaders<F, S, N> = Vec<(F, fn(&S) -> N)>;
/// A figure for each other region, and where it is read.
type ByRegion = Family<Vec<(&'static str, String)>, Gauge>;
type ReadRegion = fn(&RegionState) -> i64;
type Seconds = Family<[Label; 1], Histogram, fn() -> Histogram>;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Write,
    Read,
    Batch,
    Scan,
}

impl RequestKind {
    const ALL: [RequestKind; 4] =
        [RequestKind::Write, RequestKind::Read, RequestKind::Batch, RequestKind::Scan];

    /// As reports of slow requests have it.
    pub fn slow_name(self) -> &'static str {
        match self {
            RequestKind::Write => "data_write",
            RequestKind::Read => "data_read",
            RequestKind::Batch => "data_batch",
            RequestKind::Scan => "data_scan",
        }
    }

    pub fn of(request: &Request) -> RequestKind {
        match request {
            Request::Write(_) => RequestKind::Write,
            Request::Read { .. } | Request::Get(_) | Request::Elements(_) => RequestKind::Read,
            Request::Batch(_) => RequestKind::Batch,
            Request::Scan(_)
            | Request::Query(_)
            | Request::Conflicts { .. }
            | Request::Rows { .. }
            | Request::Feed { .. } => RequestKind::Scan,
        }
    }

    fn name(self) -> &'static str {
        match self {
            RequestKind::Write => "write",
            RequestKind::Read => "read",
            RequestKind::Batch => "batch",
            RequestKind::Scan => "scan",
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestOutcome {
    Done,
    Indeterminate,
    Unavailable,
    Conflict,
    Refused,
}

impl RequestOutcome {
    const ALL: [RequestOutcome; 5] = [
        RequestOutcome::Done,
        RequestOutcome::Indeterminate,
        RequestOutcome::Unavailable,
        RequestOutcome::Conflict,
        RequestOutcome::Refused,
    ];

    fn of(reply: &Reply) -> RequestOutcome {
        match reply {
            Reply::Indeterminate { .. } => RequestOutcome::Indeterminate,
            Reply::Unavailable { .. } => RequestOutcome::Unavailable,
            Reply::Conflict(_) => RequestOutcome::Conflict,
            Reply::Refused(_) => RequestOutcome::Refused,
            _ => RequestOutcome::Done,
        }
    }

    fn name(self) -> &'static str {
        match self {
            RequestOutcome::Done => "done",
            RequestOutcome::Indeterminate => "indeterminate",
            RequestOutcome::Unavailable => "unavailable",
            RequestOutcome::Conflict => "conflict",
            RequestOutcome::Refused => "refused",
        }
    }
}

pub(crate) struct MeshMetrics {
    pub log_fsync_seconds: Histogram,
    pub store_commit_seconds: Histogram,
    /// By kind, then by outcome.
    requests: [[Counter; RequestOutcome::ALL.len()]; RequestKind::ALL.len()],
    seconds: [Histogram; RequestKind::ALL.len()],
    regions: Vec<(ByRegion, ReadRegion)>,
    gauges: MetricReaders<Gauge, MeshStatus, i64>,
    counters: MetricReaders<Counter, MeshCounts, u64>,
    /// By what became of it.
    script_merges: Family<[Label; 1], Counter>,
}

impl MeshMetrics {
    pub fn registered(registry: &mut Registry) -> MeshMetrics {
        let requests: Family<[Label; 2], Counter> = Family::default();
        registry.register("althing_mesh_requests", "Requests to the mesh", requests.clone());
        let durations = || Histogram::new(exponential_buckets(0.000_1, 2.0, 17));
        let seconds: Seconds = Family::new_with_constructor(durations);
        let (name, help) = ("althing_mesh_request_duration_seconds", "How long requests to the mesh take");
        registry.register(name, help, seconds.clone());
        let metrics = MeshMetrics {
            log_fsync_seconds: durations(),
            store_commit_seconds: durations(),
            requests: RequestKind::ALL.map(|kind| {
                RequestOutcome::ALL.map(|outcome| {
                    requests.get_or_create(&[("kind", kind.name()), ("outcome", outcome.name())]).clone()
                })
            }),
            seconds: RequestKind::ALL.map(|kind| seconds.get_or_create(&[("kind", kind.name())]).clone()),
            regions: registered_regions(registry),
            gauges: registered_gauges(registry),
            counters: registered_counters(registry),
            script_merges: Family::default(),
        };
        let (name, help) = ("althing_mesh_script_merges", "Custom values that a script was to merge");
        registry.register(name, help, metrics.script_merges.clone());
        let (name, help) =
            ("althing_mesh_log_fsync_duration_seconds", "How long it takes to make rows durable");
        registry.register(name, help, metrics.log_fsync_seconds.clone());
        let (name, help) = ("althing_mesh_store_commit_duration_seconds", "How long a flush of rows takes");
        registry.register(name, help, metrics.store_commit_seconds.clone());
        metrics
    }

    pub fn answered(&self, kind: RequestKind, reply: &Reply, took: Duration) {
        self.requests[kind as usize][RequestOutcome::of(reply) as usize].inc();
        self.seconds[kind as usize].observe(took.as_secs_f64());
    }

    pub fn merged(&self, outcome: &'static str) {
        self.script_merges.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Before they are read.
    pub fn copy(&self, status: &MeshStatus) {
        for (gauge, read) in &self.gauges {
            gauge.set(read(status));
        }
        for (family, read) in &self.regions {
            // A region that was evicted has no metrics any more.
            family.clear();
            for region in &status.regions {
                family.get_or_create(&vec![("region", region.name.clone())]).set(read(region));
            }
        }
        for (counter, read) in &self.counters {
            counter.inner().store(read(&status.counts), Relaxed);
        }
    }
}

fn registered_regions(registry: &mut Registry) -> Vec<(ByRegion, ReadRegion)> {
    let all: [(&str, &str, ReadRegion); 4] = [
        ("healthy", "Whether the region was heard of lately", |region| region.is_healthy.into()),
        ("lag_out_ms", "How old the first write here is that waits for the region", |region| {
            region.lag_out_ms as i64
        }),
        ("lag_in_ms", "How old the first write of the region is that is missing here", |region| {
            region.lag_in_ms as i64
        }),
        ("log_waiting", "Numbers of this node's log that the region has not acknowledged", |region| {
            region.last.saturating_sub(region.acked) as i64
        }),
    ];
    let register = |(name, help, read): (&str, &str, ReadRegion)| {
        let family = ByRegion::default();
        registry.register(format!("althing_region_{name}"), help, family.clone());
        (family, read)
    };
    all.into_iter().map(register).collect()
}

fn registered_gauges(registry: &mut Registry) -> MetricReaders<Gauge, MeshStatus, i64> {
    type Read = fn(&MeshStatus) -> i64;
    let all: [(&str, &str, Read); 14] = [
        ("epoch", "The topology that this node goes by", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.epoch.0 as i64)
        }),
        ("serving", "Whether this node gives dots and answers readers", |status| {
            status.machine.as_ref().is_some_and(|machine| machine.is_serving).into()
        }),
        ("full", "Whether the disk has no space, so that nothing which grows is accepted", |status| {
            status.machine.as_ref().is_some_and(|machine| machine.is_full).into()
        }),
        ("shards", "Shards that this node keeps", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.n_shards as i64)
        }),
        ("shards_filling", "Shards that this node is taking over", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.n_filling as i64)
        }),
        ("operations", "Operations under way", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.n_operations as i64)
        }),
        ("unflushed_bytes", "Rows in memory that are not flushed yet", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.overlay_bytes as i64)
        }),
        ("peers_down", "Nodes that this one takes for down", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.down.len() as i64)
        }),
        ("peers_hinted", "Nodes for which hints may wait here", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.hinted.len() as i64)
        }),
        ("repaired_upto_seconds", "Everything written before this time is on every replica", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.repaired_upto.ms() as i64 / 1_000)
        }),
        ("partitions_moving", "Partitions of the ring that are not in their new place yet", |status| {
            (status.moving.n_pending + status.moving.n_switched) as i64
        }),
        ("replication_log_bytes", "Writes of this node that some region may not have yet", |status| {
            status.machine.as_ref().map_or(0, |machine| machine.log_bytes as i64)
        }),
        ("store_bytes", "What the mesh's store takes of the disk", |status| status.store_bytes as i64),
        ("log_bytes", "All segments of the mesh's log", |status| status.log_bytes as i64),
    ];
    let register = |(name, help, read): (&str, &str, Read)| {
        let gauge = Gauge::default();
        registry.register(format!("althing_mesh_{name}"), help, gauge.clone());
        (gauge, read)
    };
    all.into_iter().map(register).collect()
}

fn registered_counters(registry: &mut Registry) -> MetricReaders<Counter, MeshCounts, u64> {
    type Read = fn(&MeshCounts) -> u64;
    let all: [(&str, &str, Read); 6] = [
        ("claims_refused", "Claims of records about this node's own writes that it never made", |counts| {
            counts.claims_refused
        }),
        ("hints", "Hints written for replicas that did not answer", |counts| counts.hinted),
        ("repaired_records", "Records brought from one replica to another", |counts| counts.repaired),
        ("conflicts", "Writes that lost against one that had not seen them", |counts| counts.conflicts),
        ("purged_records", "Deletes forgotten because every replica has them", |counts| counts.purged),
        ("clocks_ahead", "Records from a clock that is too far ahead", |counts| counts.clocks_ahead),
    ];
    let register = |(name, help, read): (&str, &str, Read)| {
        let counter = Counter::default();
        registry.register(format!("althing_mesh_{name}"), help, counter.clone());
        (counter, read)
    };
    all.into_iter().map(register).collect()
}
