//! Time as a value: microseconds on a monotonic clock that somebody else reads.
//! Pure rooms receive an `Instant` with each input and compare; they never ask what time it is.

use std::time::Duration;

/// Microseconds since an arbitrary start, on one node's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    pub const ZERO: Instant = Instant(0);
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    pub fn after(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.as_micros() as u64))
    }

    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
