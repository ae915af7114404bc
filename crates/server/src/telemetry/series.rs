//! The series that are kept for an hour: each is made of one metric, as a rate, a quantile or the value itself.

use super::metrics_text::{Buckets, MetricsText, label, quantile};
use base::NodeId;
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesUnit {
    PerSecond,
    Milliseconds,
    Bytes,
    Percent,
    Count,
}

impl SeriesUnit {
    pub fn name(self) -> &'static str {
        match self {
            SeriesUnit::PerSecond => "per_second",
            SeriesUnit::Milliseconds => "ms",
            SeriesUnit::Bytes => "bytes",
            SeriesUnit::Percent => "percent",
            SeriesUnit::Count => "count",
        }
    }
}

/// One figure over time.
#[derive(Debug)]
pub struct Series {
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// The metric that it is made of, as `/metrics` shows it; empty for what is no metric.
    pub metric: &'static str,
    pub unit: SeriesUnit,
    source: SeriesSource,
}

#[derive(Clone, Copy, Debug)]
enum SeriesSource {
    /// The increase per second of a counter, over labels that contain one of these texts.
    Rate(&'static [&'static str]),
    /// The time that 99 of 100 did not exceed.
    Percentile99,
    /// The largest of its values.
    Largest,
    /// Processor time per time.
    Busy,
    /// The free space of the disk.
    DiskFree,
}

const ALL: &[&str] = &[""];

const fn series(
    name: &'static str,
    title: &'static str,
    metric: &'static str,
    unit: SeriesUnit,
    source: SeriesSource,
) -> Series {
    Series { name, title, metric, unit, source }
}

pub static SERIES: &[Series] = {
    use SeriesSource::{Busy, DiskFree, Largest, Percentile99, Rate};
    use SeriesUnit::{Bytes, Count, Milliseconds, PerSecond, Percent};
    &[
        series("puts_per_second", "Puts applied", "etcd_mvcc_put_total", PerSecond, Rate(ALL)),
        series("ranges_per_second", "Ranges read", "etcd_mvcc_range_total", PerSecond, Rate(ALL)),
        series(
            "data_writes_per_second",
            "Data writes",
            "althing_mesh_requests_total",
            PerSecond,
            Rate(&["kind=\"write\"", "kind=\"batch\""]),
        ),
        series(
            "data_reads_per_second",
            "Data reads",
            "althing_mesh_requests_total",
            PerSecond,
            Rate(&["kind=\"read\"", "kind=\"scan\""]),
        ),
        series(
            "fsync_p99_ms",
            "Log fsync, 99th percentile",
            "etcd_disk_wal_fsync_duration_seconds",
            Milliseconds,
            Percentile99,
        ),
        series(
            "data_fsync_p99_ms",
            "Data log fsync, 99th percentile",
            "althing_mesh_log_fsync_duration_seconds",
            Milliseconds,
            Percentile99,
        ),
        series(
            "apply_p99_ms",
            "Apply, 99th percentile",
            "etcd_server_apply_duration_seconds",
            Milliseconds,
            Percentile99,
        ),
        series(
            "data_request_p99_ms",
            "Data requests, 99th percentile",
            "althing_mesh_request_duration_seconds",
            Milliseconds,
            Percentile99,
        ),
        series(
            "round_trip_p99_ms",
            "Round trip to peers, 99th percentile",
            "etcd_network_peer_round_trip_time_seconds",
            Milliseconds,
            Percentile99,
        ),
        series("region_lag_ms", "Behind other regions", "althing_region_lag_in_ms", Milliseconds, Largest),
        series("pending", "Requests waiting", "etcd_server_proposals_pending", Count, Largest),
        series(
            "watch_events_per_second",
            "Watch events sent",
            "etcd_debugging_mvcc_events_total",
            PerSecond,
            Rate(ALL),
        ),
        series(
            "fence_refusals_per_second",
            "Stale writes refused",
            "althing_fence_refusals_total",
            PerSecond,
            Rate(ALL),
        ),
        series("conflicts_per_second", "Conflicts", "althing_mesh_conflicts_total", PerSecond, Rate(ALL)),
        series("cpu_percent", "Processor", "process_cpu_seconds_total", Percent, Busy),
        series("memory_bytes", "Memory", "process_resident_memory_bytes", Bytes, Largest),
        series("store_bytes", "Store file", "etcd_mvcc_db_total_size_in_bytes", Bytes, Largest),
        series("disk_free_bytes", "Free disk space", "", Bytes, DiskFree),
    ]
};

/// Remembers what it read last: rates and quantiles are of what came since.
#[derive(Default)]
pub struct SeriesReader {
    at: Option<Instant>,
    counts: BTreeMap<&'static str, f64>,
    buckets: BTreeMap<&'static str, Buckets>,
    /// How many round trips to each peer were measured, and their sum in seconds.
    round_trips: BTreeMap<NodeId, (f64, f64)>,
}

impl SeriesReader {
    /// One value for each series; NaN where none is known.
    pub fn read(&mut self, metrics: &MetricsText<'_>, disk_free_bytes: u64) -> Vec<f32> {
        let seconds = self.at.map(|at| at.elapsed().as_secs_f64().max(0.001));
        self.at = Some(Instant::now());
        let values = SERIES.iter().map(|series| match series.source {
            SeriesSource::Rate(labels) => {
                let wanted = |given: &str| labels.iter().any(|label| given.contains(label));
                self.rate(series.name, metrics.sum(series.metric, wanted), seconds)
            }
            SeriesSource::Busy => {
                let rate = self.rate(series.name, metrics.sum(series.metric, |_| true), seconds);
                rate.map(|rate| rate * 100.0)
            }
            SeriesSource::Percentile99 => {
                let now = metrics.buckets(series.metric);
                let before = self.buckets.insert(series.name, now.clone());
                quantile(&before?, &now, 0.99).map(|seconds| seconds * 1_000.0)
            }
            SeriesSource::Largest => Some(metrics.max(series.metric)),
            SeriesSource::DiskFree => Some(disk_free_bytes as f64),
        });
        values.map(|value| value.map_or(f32::NAN, |value| value as f32)).collect()
    }

    fn rate(&mut self, name: &'static str, count: f64, seconds: Option<f64>) -> Option<f64> {
        let before = self.counts.insert(name, count)?;
        Some((count - before).max(0.0) / seconds?)
    }

    /// The mean of what came since the last call; of a peer without any, the mean of all.
    pub fn round_trips_ms(&mut self, metrics: &MetricsText<'_>) -> BTreeMap<NodeId, f64> {
        const METRIC: &str = "etcd_network_peer_round_trip_time_seconds";
        let by_peer = |name: &str| -> BTreeMap<NodeId, f64> {
            let samples = metrics.samples(name).iter();
            let peer = |labels: &str| u64::from_str_radix(label(labels, "To")?, 16).ok().map(NodeId);
            samples.filter_map(|(labels, value)| Some((peer(labels)?, *value))).collect()
        };
        let (counts, sums) = (by_peer(&format!("{METRIC}_count")), by_peer(&format!("{METRIC}_sum")));
        let mut means = BTreeMap::new();
        for (peer, count) in counts {
            let sum = sums.get(&peer).copied().unwrap_or(0.0);
            let (count_before, sum_before) = self.round_trips.insert(peer, (count, sum)).unwrap_or_default();
            let (came, took) = (count - count_before, sum - sum_before);
            let mean = if came > 0.0 { took / came } else { sum / count.max(1.0) };
            means.insert(peer, mean * 1_000.0);
        }
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric that is renamed would leave its chart empty.
    #[test]
    fn every_series_is_made_of_a_metric_that_exists() {
        let known: Vec<String> =
            crate::metrics::metric_table().into_iter().map(|metric| metric.name).collect();
        for series in SERIES.iter().filter(|series| !series.metric.is_empty()) {
            assert!(known.iter().any(|name| name == series.metric), "{}", series.metric);
        }
    }

    #[test]
    fn rates_are_of_what_came_since() {
        let mut reader = SeriesReader::default();
        assert_eq!(reader.rate("x", 10.0, None), None);
        assert_eq!(reader.rate("x", 30.0, Some(5.0)), Some(4.0));
        assert_eq!(
            reader.rate("x", 0.0, Some(5.0)),
            Some(0.0),
            "a counter that began again is no rate below zero"
        );
    }
}
