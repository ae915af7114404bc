//! How fast bytes may go: so many a second. What was not used is saved for one second, so that a pause is not followed by a flood.

use std::time::{Duration, Instant};

/// For so long unused bytes are saved.
const SAVED: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    /// When all bytes so far will have had their time.
    paid_until: Instant,
}

impl Pace {
    /// No bound if none is given.
    pub fn new(bytes_per_second: Option<u64>) -> Pace {
        let bytes_per_second = bytes_per_second.filter(|rate| *rate > 0);
        Pace { bytes_per_second, paid_until: Instant::now() }
    }

    /// Waits for as long as these bytes take.
    pub async fn spend(&mut self, bytes: u64) {
        let ahead = self.pay(bytes, Instant::now());
        if !ahead.is_zero() {
            tokio::time::sleep(ahead).await;
        }
    }

    /// By how much the bytes are ahead of their time.
    fn pay(&mut self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let from = now.checked_sub(SAVED).map_or(self.paid_until, |saved| self.paid_until.max(saved));
        self.paid_until = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.paid_until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_makes_bytes_wait_for_their_time_and_saves_one_second() {
        let second = Duration::from_secs(1);
        let mut unbounded = Pace::new(None);
        assert_eq!(unbounded.pay(1 << 40, Instant::now()), Duration::ZERO);
        let mut pace = Pace::new(Some(100));
        let begun = pace.paid_until;
        assert_eq!(pace.pay(300, begun), 3 * second);
        assert_eq!(pace.pay(100, begun + 3 * second), second);
        // An hour in which nothing went: one second of it counts.
        let later = begun + 3_600 * second;
        assert_eq!(pace.pay(100, later), Duration::ZERO);
        assert_eq!(pace.pay(300, later), 3 * second);
    }
}
