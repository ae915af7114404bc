//! How fast a backup may be sent: so many bytes a second, counted from its beginning.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    began: Instant,
    bytes: u64,
}

impl Pace {
    /// No bound if none is given.
    pub fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, began: Instant::now(), bytes: 0 }
    }

    /// Waits for as long as these bytes take.
    pub async fn spend(&mut self, bytes: u64) {
        self.bytes += bytes;
        let ahead = ahead(self.bytes_per_second, self.bytes, self.began.elapsed());
        if !ahead.is_zero() {
            tokio::time::sleep(ahead).await;
        }
    }
}

/// By how much the bytes are ahead of their time.
fn ahead(bytes_per_second: Option<u64>, bytes: u64, elapsed: Duration) -> Duration {
    let Some(rate) = bytes_per_second.filter(|rate| *rate > 0) else { return Duration::ZERO };
    Duration::from_secs_f64(bytes as f64 / rate as f64).saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_makes_bytes_wait_for_their_time() {
        let second = Duration::from_secs(1);
        assert_eq!(ahead(None, 1 << 40, Duration::ZERO), Duration::ZERO);
        assert_eq!(ahead(Some(100), 300, second), 2 * second);
        assert_eq!(ahead(Some(100), 50, second), Duration::ZERO);
    }
}
