//! The metrics that operators watch, under etcd's names, so that its dashboards and alerts work.
//! Threads bump counters and observe durations of whole batches; everything that is in the status or
//! counted elsewhere is copied when the metrics are rendered. Nothing here is touched per request.

use crate::defrag::DefragMetrics;
use crate::mesh::status::MeshStatus;
use crate::peer::PeerCounts;
use crate::registry::{MetricDescription, Registry};
use crate::slow_requests::SlowRequests;
use crate::status::{Identity, Status};
use background::BackgroundMetrics;
use base::NodeId;
use etcd::EtcdMetrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

mod background;
mod etcd;

type Labels = Vec<(&'static str, String)>;

/// Every metric of a member, those without a sample included.
pub fn metric_table() -> Vec<MetricDescription> {
    let mut registry = Metrics::new(None).registry;
    crate::audit::register_names(&mut registry);
    registry.table()
}

pub(crate) struct Metrics {
    registry: Registry,
    pub slow_requests: SlowRequests,
    pub leader_changes: Counter,
    pub requests_refused: Counter,
    pub frames_malformed: Counter,
    frames_refused: Family<[(&'static str, &'static str); 1], Counter>,
    pub snapshots_installed: Counter,
    pub wal_fsync_seconds: Histogram,
    pub store_commit_seconds: Histogram,
    pub defrag: DefragMetrics,
    peer_round_trip_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    pub background: BackgroundMetrics,
    pub etcd: EtcdMetrics,
    pub mesh: crate::mesh::metrics::MeshMetrics,
    values: CopiedMetrics,
}

/// Set at each reading.
#[derive(Default)]
struct CopiedMetrics {
    has_leader: Gauge,
    is_leader: Gauge,
    is_learner: Gauge,
    keys: Gauge,
    compacted: Gauge,
    committed: Gauge,
    applied: Gauge,
    waiting: Gauge,
    response_bytes: Gauge,
    has_open_peer_port: Gauge,
    revision: Gauge,
    store_bytes: Gauge,
    store_used_bytes: Gauge,
    wal_bytes: Gauge,
    watch_streams: Gauge,
    watches: Gauge,
    watches_behind: Gauge,
    resident_bytes: Gauge,
    open_files: Gauge,
    used_files: Gauge,
    files_max: Gauge,
    policy_age: Gauge<f64, AtomicU64>,
    peer_sent_bytes: Family<Labels, Counter>,
    peer_received_bytes: Family<Labels, Counter>,
    peer_sent_failures: Family<Labels, Counter>,
}

/// Values that are read elsewhere and copied here.
pub(crate) struct MetricsInput {
    pub status: Status,
    pub waiting: usize,
    pub response_bytes: usize,
    pub is_learner: bool,
    pub has_open_peer_port: bool,
    pub me: NodeId,
    /// With whether it is connected.
    pub peers: Vec<(NodeId, PeerCounts, bool)>,
    pub mesh: MeshStatus,
    /// Zero where nothing is known yet.
    pub policy_age: Duration,
}

impl Metrics {
    /// A peer sent a frame that no correct peer sends.
    pub fn refuse_frame(&self, reason: &'static str) {
        self.frames_refused.get_or_create(&[("reason", reason)]).inc();
    }

    /// Without an identity it is only a list of what there is.
    pub fn new(identity: Option<&Identity>) -> Metrics {
        let mut registry = Registry::default();
        let values = CopiedMetrics::registered(&mut registry);
        let defrag = DefragMetrics::registered(&mut registry);
        registered_identity(&mut registry, identity);
        let background = BackgroundMetrics::registered(&mut registry);
        let etcd = EtcdMetrics::registered(&mut registry);
        let mesh = crate::mesh::metrics::MeshMetrics::registered(&mut registry);
        let slow_requests = SlowRequests::registered(&mut registry);
        // As in etcd: from one millisecond, doubling, up to eight seconds.
        let durations = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let mut metrics = Metrics {
            registry,
            slow_requests,
            leader_changes: Counter::default(),
            requests_refused: Counter::default(),
            frames_malformed: Counter::default(),
            frames_refused: Family::default(),
            snapshots_installed: Counter::default(),
            wal_fsync_seconds: durations(),
            store_commit_seconds: durations(),
            defrag,
            // As in etcd: from a tenth of a millisecond, doubling, up to three seconds.
            peer_round_trip_seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.0001, 2.0, 16))
            }),
            background,
            etcd,
            mesh,
            values,
        };
        let registry = &mut metrics.registry;
        let counters = [
            (&metrics.leader_changes, "etcd_server_leader_changes_seen", "Leader changes seen"),
            (
                &metrics.requests_refused,
                "etcd_server_proposals_failed",
                "Requests that were refused or timed out",
            ),
            (
                &metrics.frames_malformed,
                "althing_peer_frames_malformed",
                "Frames from peers that could not be read",
            ),
            (
                &metrics.snapshots_installed,
                "althing_snapshots_installed",
                "Snapshots taken over from a leader",
            ),
        ];
        for (counter, name, help) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "althing_peer_frames_refused",
            "Invalid frames from peers, by reason; each closes its stream",
            metrics.frames_refused.clone(),
        );
        let histograms = [
            (
                &metrics.wal_fsync_seconds,
                "etcd_disk_wal_fsync_duration_seconds",
                "How long it takes to make the write-ahead log durable",
            ),
            (
                &metrics.store_commit_seconds,
                "etcd_disk_backend_commit_duration_seconds",
                "How long a flush to the store takes",
            ),
        ];
        for (histogram, name, help) in histograms {
            registry.register(name, help, histogram.clone());
        }
        registry.register(
            "etcd_network_peer_round_trip_time_seconds",
            "How long it takes until a peer acknowledges a ping",
            metrics.peer_round_trip_seconds.clone(),
        );
        metrics
    }

    pub fn register_audit(&mut self, audit: &crate::audit::Audit) {
        audit.register(&mut self.registry);
    }

    pub fn observe_round_trip(&self, peer: NodeId, time: Duration) {
        let label = vec![("To", format!("{:x}", peer.0))];
        self.peer_round_trip_seconds.get_or_create(&label).observe(time.as_secs_f64());
    }

    /// All metrics as text for Prometheus, without the end marker: other crates append theirs.
    pub fn render(&self, reading: &MetricsInput) -> String {
        self.values.set(reading);
        self.etcd.set_peers(reading.me, &reading.peers);
        self.etcd.process.read();
        self.mesh.copy(&reading.mesh);
        let mut out = String::new();
        self.registry.append_to(&mut out);
        out
    }
}

fn registered_identity(registry: &mut Registry, identity: Option<&Identity>) {
    let one = |labels: Labels| {
        let family = Family::<Labels, Gauge>::default();
        family.get_or_create(&labels).set(1);
        family
    };
    let id = |identity: &Identity| one(vec![("server_id", format!("{:x}", identity.member.0))]);
    let id = identity.map(id).unwrap_or_default();
    registry.register("etcd_server_id", "The member's id, as a label", id);
    let version = one(vec![("server_version", env!("CARGO_PKG_VERSION").to_owned())]);
    registry.register("etcd_server_version", "The release, as a label", version);
}

impl CopiedMetrics {
    fn registered(registry: &mut Registry) -> CopiedMetrics {
        let values = CopiedMetrics::default();
        let gauges = [
            (&values.has_leader, "etcd_server_has_leader", "Whether a leader is known: 1 is yes"),
            (&values.is_leader, "etcd_server_is_leader", "Whether this member leads: 1 is yes"),
            (&values.is_learner, "etcd_server_is_learner", "Whether this member only learns: 1 is yes"),
            (&values.keys, "etcd_debugging_mvcc_keys_total", "Keys that are there"),
            (&values.compacted, "etcd_debugging_mvcc_compact_revision", "The oldest revision that is kept"),
            (&values.committed, "etcd_server_proposals_committed_total", "The newest committed log index"),
            (&values.applied, "etcd_server_proposals_applied_total", "The newest applied log index"),
            (&values.waiting, "etcd_server_proposals_pending", "Requests that wait for their answer"),
            (
                &values.response_bytes,
                "althing_response_reserved_bytes",
                "Memory of answers that are sent in pieces",
            ),
            (
                &values.has_open_peer_port,
                "althing_peer_open",
                "Whether other machines reach the peer port and members prove nothing to each other",
            ),
            (&values.revision, "etcd_debugging_mvcc_current_revision", "The revision of the store"),
            (&values.store_bytes, "etcd_mvcc_db_total_size_in_bytes", "What the store takes of the disk"),
            (
                &values.store_used_bytes,
                "etcd_mvcc_db_total_size_in_use_in_bytes",
                "What the rows of all changes take in it",
            ),
            (&values.wal_bytes, "althing_wal_size_bytes", "The size of all segments of the write-ahead log"),
            (&values.watch_streams, "etcd_debugging_mvcc_watch_stream_total", "Streams of watches"),
            (&values.watches, "etcd_debugging_mvcc_watcher_total", "Watches"),
            (
                &values.watches_behind,
                "etcd_debugging_mvcc_slow_watcher_total",
                "Watches that have not been sent everything",
            ),
            (&values.resident_bytes, "process_resident_memory_bytes", "Resident memory of the process"),
            (&values.open_files, "process_open_fds", "Open file descriptors of the process"),
            (&values.used_files, "os_fd_used", "Open file descriptors of the process"),
            (&values.files_max, "os_fd_limit", "File descriptors that the process may open"),
        ];
        for (gauge, name, help) in gauges {
            registry.register(name, help, gauge.clone());
        }
        let help = "How long ago what is known of users and permissions was last known to be the newest";
        registry.register("althing_auth_policy_age_seconds", help, values.policy_age.clone());
        let families = [
            (&values.peer_sent_bytes, "etcd_network_peer_sent_bytes", "Bytes sent to each peer"),
            (
                &values.peer_received_bytes,
                "etcd_network_peer_received_bytes",
                "Bytes received from each peer",
            ),
            (
                &values.peer_sent_failures,
                "etcd_network_peer_sent_failures",
                "Frames that did not reach each peer",
            ),
        ];
        for (family, name, help) in families {
            registry.register(name, help, family.clone());
        }
        values
    }

    fn set(&self, reading: &MetricsInput) {
        let MetricsInput {
            status,
            is_learner,
            waiting,
            response_bytes,
            peers,
            has_open_peer_port,
            policy_age,
            ..
        } = reading;
        self.policy_age.set(policy_age.as_secs_f64());
        self.has_open_peer_port.set(i64::from(*has_open_peer_port));
        self.is_learner.set(i64::from(*is_learner));
        self.has_leader.set(i64::from(status.leader.is_some()));
        self.is_leader.set(i64::from(status.is_leader));
        self.committed.set(status.committed.0 as i64);
        self.applied.set(status.applied.0 as i64);
        self.waiting.set(*waiting as i64);
        self.response_bytes.set(*response_bytes as i64);
        self.revision.set(status.revision.0);
        self.keys.set(status.keys as i64);
        self.compacted.set(status.compacted.0);
        self.store_bytes.set(status.store_bytes as i64);
        self.store_used_bytes.set(status.stored_bytes as i64);
        self.wal_bytes.set(status.wal_bytes as i64);
        self.watch_streams.set(status.watches.streams as i64);
        self.watches.set(status.watches.watches as i64);
        self.watches_behind.set(status.watches.behind as i64);
        self.resident_bytes.set(resident_bytes());
        let open_files = fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as i64);
        self.open_files.set(open_files);
        self.used_files.set(open_files);
        self.files_max.set(files_max());
        for (peer, counters, _) in peers {
            self.set_peer(*peer, counters);
        }
    }

    fn set_peer(&self, peer: NodeId, counters: &PeerCounts) {
        let label = |key| vec![(key, format!("{:x}", peer.0))];
        let failures = counters.frames_refused + counters.frames_dropped;
        self.peer_sent_bytes.get_or_create(&label("To")).inner().store(counters.bytes_sent, Relaxed);
        self.peer_received_bytes
            .get_or_create(&label("From"))
            .inner()
            .store(counters.bytes_received, Relaxed);
        self.peer_sent_failures.get_or_create(&label("To")).inner().store(failures, Relaxed);
    }
}

/// Zero where the operating system does not report it.
fn resident_bytes() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<i64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Zero where the operating system does not report it.
fn files_max() -> i64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
