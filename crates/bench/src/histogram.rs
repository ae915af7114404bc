//! Latencies in buckets: 64 to each power of two, so that any percentile is right to within 1.6 %.
//! Durations go in, percentiles come out; the size does not depend on how many go in.

use std::time::Duration;

/// Buckets to a power of two.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

#[derive(Clone, Debug)]
pub struct Histogram {
    /// By bucket of nanoseconds.
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; bucket(u64::MAX) + 1], total: 0, max: Duration::ZERO }
    }
}

impl Histogram {
    pub fn add(&mut self, latency: Duration) {
        self.counts[bucket(latency.as_nanos() as u64)] += 1;
        self.total += 1;
        self.max = self.max.max(latency);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn max(&self) -> Duration {
        self.max
    }

    /// The latency that `fraction` of all did not exceed; zero when there were none.
    pub fn quantile(&self, fraction: f64) -> Duration {
        let wanted = (self.total as f64 * fraction).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (idx, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_bound(idx)).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let power = nanos.ilog2() - STEP_BITS;
    (u64::from(power) * STEPS + (nanos >> power)) as usize
}

/// The largest number of nanoseconds in a bucket.
fn upper_bound(idx: usize) -> u64 {
    let idx = idx as u64;
    if idx < STEPS {
        return idx;
    }
    let power = idx / STEPS - 1;
    let step = idx % STEPS + STEPS;
    (step << power) + ((1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_within_its_bucket_and_close_to_its_bound() {
        for nanos in (0..200).chain((7..63).map(|power| (1u64 << power) + (1 << (power - 3)))) {
            let bound = upper_bound(bucket(nanos));
            assert!(bound >= nanos && bound - nanos <= nanos / STEPS, "{nanos} {bound}");
            assert_eq!(bucket(bound), bucket(nanos));
            assert_eq!(bucket(bound + 1), bucket(nanos) + 1);
        }
    }

    #[test]
    fn percentiles_are_those_of_what_was_added() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|ms| histogram.add(Duration::from_millis(ms)));
        let close = |fraction, ms: f64| {
            let seen = histogram.quantile(fraction).as_secs_f64() * 1000.0;
            assert!((seen / ms - 1.0).abs() < 0.02, "{fraction}: {seen}");
        };
        close(0.5, 500.0);
        close(0.99, 990.0);
        assert_eq!(histogram.quantile(1.0), Duration::from_secs(1));
        assert_eq!(histogram.max(), Duration::from_secs(1));
    }
}
