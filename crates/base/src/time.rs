//! Time as a value: microseconds on a monotonic clock that the shell reads. Pure crates receive an `Instant` with
//! each input; they never read a clock.

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
