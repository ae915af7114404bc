//! A node's recent past, for people who look at it: a sample of its metrics every few seconds for the last hour, and its
//! last events. The node's metrics and published state go in once a second; numbers for charts and sentences come out.
//! Nothing is decided by it, and it costs a node that no client looks at about a millisecond in five seconds.

mod cluster;
mod events;
mod metrics_text;
mod refusals;
mod report;
mod series;

pub use cluster::{InspectionAnswerer, InspectionTrouble, ReportedNode};
pub use events::NodeEvent;
pub use refusals::{RefusalKind, RefusedAccess};
pub use report::{NodeReport, NodeSeries, PeerRoundTrip};
pub use series::{SERIES, Series, SeriesUnit};

pub(crate) use cluster::{OtherNodes, answer, is_status_question};

use crate::handle::Handle;
use crate::queue::Queue;
use base::NodeId;
use events::{EventLog, Observation};
use metrics_text::MetricsText;
use refusals::Refusals;
use series::SeriesReader;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two samples.
pub(crate) const SAMPLE_SECONDS: u64 = 5;
/// An hour of them.
const SAMPLES_MAX: usize = 720;
/// Between two looks at the published state.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

/// What the thread writes and others read.
pub(crate) struct Telemetry {
    /// Nothing is queued; it is closed when the node stops.
    stop: Queue<()>,
    started_ms: u64,
    recent: Mutex<RecentPast>,
    pub refusals: Refusals,
    pub others: OtherNodes,
    /// None before the API serves and after the node has stopped.
    inspections: Mutex<Option<Arc<dyn InspectionAnswerer>>>,
}

#[derive(Default)]
struct RecentPast {
    samples: VecDeque<Sample>,
    events: EventLog,
    round_trips_ms: BTreeMap<NodeId, f64>,
}

/// The values of one moment, in the order of `SERIES`.
struct Sample {
    at_ms: u64,
    values: Vec<f32>,
}

impl Telemetry {
    pub fn new() -> Telemetry {
        Telemetry {
            stop: Queue::new(),
            started_ms: now_ms(),
            recent: Mutex::default(),
            refusals: Refusals::default(),
            others: OtherNodes::default(),
            inspections: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecentPast> {
        self.recent.lock().expect("no thread panics while it holds the samples")
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.stop.close();
        self.inspections().take();
    }

    fn inspections(&self) -> MutexGuard<'_, Option<Arc<dyn InspectionAnswerer>>> {
        self.inspections.lock().expect("no thread panics while it holds the answerer")
    }

    /// Until the node stops.
    pub fn run(&self, handle: &Handle) {
        let mut reader = SeriesReader::default();
        let mut before = Observation::of(handle);
        self.lock().events.started(now_ms(), handle);
        let mut next_sample = Instant::now();
        while !self.stop.is_closed() {
            let seen = Observation::of(handle);
            let refused = self.refusals.take();
            {
                let mut recent = self.lock();
                recent.events.compare(now_ms(), &before, &seen);
                recent.events.refused(now_ms(), refused);
            }
            before = seen;
            if Instant::now() >= next_sample {
                next_sample += Duration::from_secs(SAMPLE_SECONDS);
                self.sample(handle, &mut reader);
            }
            self.stop.wait(Some(Instant::now() + OBSERVE_INTERVAL));
        }
    }

    fn sample(&self, handle: &Handle, reader: &mut SeriesReader) {
        let text = handle.maintenance().metrics();
        let metrics = MetricsText::parse(&text);
        let free_bytes = handle.disk_free_bytes();
        let values = reader.read(&metrics, free_bytes);
        let round_trips_ms = reader.round_trips_ms(&metrics);
        let mut recent = self.lock();
        recent.samples.push_back(Sample { at_ms: now_ms(), values });
        if recent.samples.len() > SAMPLES_MAX {
            recent.samples.pop_front();
        }
        recent.round_trips_ms = round_trips_ms;
    }

    fn round_trips(&self) -> Vec<PeerRoundTrip> {
        let recent = self.lock();
        let known = recent.round_trips_ms.iter();
        known.map(|(peer, millis)| PeerRoundTrip { peer: *peer, millis: *millis }).collect()
    }

    fn events(&self, at_most: usize) -> Vec<NodeEvent> {
        self.lock().events.last(at_most)
    }

    /// The last so many samples of each series that is wanted.
    fn series(&self, count_max: usize, wanted: impl Fn(&Series) -> bool) -> NodeSeries {
        let recent = self.lock();
        let skipped = recent.samples.len().saturating_sub(count_max);
        let shown = || recent.samples.iter().skip(skipped);
        let named = SERIES.iter().enumerate().filter(|(_, series)| wanted(series)).map(|(nth, series)| {
            let values = shown().map(|sample| sample.values.get(nth).copied().unwrap_or(f32::NAN)).collect();
            (series.name.to_owned(), values)
        });
        NodeSeries {
            end_ms: recent.samples.back().map_or(0, |sample| sample.at_ms),
            step_ms: SAMPLE_SECONDS * 1_000,
            values: named.collect(),
        }
    }

    fn latest(&self) -> Vec<(String, f64)> {
        let recent = self.lock();
        let Some(sample) = recent.samples.back() else { return Vec::new() };
        let named = SERIES.iter().zip(&sample.values).filter(|(_, value)| value.is_finite());
        named.map(|(series, value)| (series.name.to_owned(), f64::from(*value))).collect()
    }
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
