//! A histogram of durations that threads add to without a lock: buckets that double, each an atomic.
//! Observing costs a few instructions and two relaxed additions, so that it can be done with every request.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const BUCKETS_MAX: usize = 21;

#[derive(Clone, Debug)]
pub struct DurationHistogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The bound of the first bucket.
    first_nanos: u64,
    /// Buckets, including the last one, which has no bound.
    buckets: usize,
    counts: [AtomicU64; BUCKETS_MAX],
    sum_nanos: AtomicU64,
}

impl DurationHistogram {
    /// `bounds` buckets, the first up to `first` and each twice as wide as the one before.
    pub fn new(first: Duration, bounds: usize) -> DurationHistogram {
        assert!(bounds < BUCKETS_MAX, "there is a slot for the bucket without a bound");
        DurationHistogram(Arc::new(Inner {
            first_nanos: first.as_nanos() as u64,
            buckets: bounds + 1,
            counts: Default::default(),
            sum_nanos: AtomicU64::new(0),
        }))
    }

    pub fn observe(&self, time: Duration) {
        self.observe_many(time, 1);
    }

    /// `count` durations of the same length.
    pub fn observe_many(&self, time: Duration, count: u64) {
        let nanos = time.as_nanos() as u64;
        let nth =
            usize::try_from(nanos.div_ceil(self.0.first_nanos).max(1).next_power_of_two().trailing_zeros());
        let nth = nth.unwrap_or(usize::MAX).min(self.0.buckets - 1);
        self.0.counts[nth].fetch_add(count, Relaxed);
        self.0.sum_nanos.fetch_add(nanos.saturating_mul(count), Relaxed);
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let inner = &*self.0;
        let bound = |nth: usize| {
            if nth + 1 == inner.buckets {
                f64::MAX
            } else {
                inner.first_nanos as f64 * (1u64 << nth) as f64 / 1e9
            }
        };
        let buckets: Vec<(f64, u64)> =
            (0..inner.buckets).map(|nth| (bound(nth), inner.counts[nth].load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = inner.sum_nanos.load(Relaxed) as f64 / 1e9;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl TypedMetric for DurationHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn durations_fall_into_the_bucket_whose_bound_is_not_below_them() {
        let histogram = DurationHistogram::new(Duration::from_millis(1), 3);
        for millis in [0, 1, 2, 3, 4, 5, 1_000_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        histogram.observe_many(Duration::from_micros(1_500), 10);
        let mut registry = Registry::default();
        registry.register("x", "A histogram", histogram);
        let mut text = String::new();
        registry.append_to(&mut text);
        for line in [
            "x_bucket{le=\"0.001\"} 2\n",
            "x_bucket{le=\"0.002\"} 13\n",
            "x_bucket{le=\"0.004\"} 15\n",
            "x_bucket{le=\"+Inf\"} 17\n",
            "x_count 17\n",
        ] {
            assert!(text.contains(line), "{line} is missing from {text}");
        }
    }
}
