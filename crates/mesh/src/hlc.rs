//! Hybrid logical clocks: 48 bits of milliseconds and 16 of counting within one.
//! The wall clock and stamps of others go in; stamps that only grow come out. A stamp of another clock is
//! absorbed only as far as the drift bound allows, so that one clock a year ahead does not take the others along.

use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    pub const ZERO: Stamp = Stamp(0);
    pub const MAX: Stamp = Stamp(u64::MAX);

    pub fn at_ms(ms: u64) -> Stamp {
        Stamp(ms.min((1 << 48) - 1) << 16)
    }

    /// The last of its millisecond.
    pub fn end_of_ms(self) -> Stamp {
        Stamp(self.0 | u64::from(u16::MAX))
    }

    pub fn ms(self) -> u64 {
        self.0 >> 16
    }

    pub fn logical(self) -> u16 {
        self.0 as u16
    }

    /// The next larger one; a full count spills over into the next millisecond.
    pub fn next(self) -> Stamp {
        Stamp(self.0.saturating_add(1))
    }
}

#[derive(Clone, Debug)]
pub struct HybridClock {
    last: Stamp,
    drift_max: Duration,
}

impl HybridClock {
    /// Stamps come after `last`: the newest that this node has vouched for in an earlier incarnation.
    pub fn new(last: Stamp, drift_max: Duration) -> HybridClock {
        HybridClock { last, drift_max }
    }

    /// A stamp larger than all before it.
    pub fn tick(&mut self, wall_ms: u64) -> Stamp {
        self.last = self.last.next().max(Stamp::at_ms(wall_ms));
        self.last
    }

    /// The last stamp that was given or observed: every later one is greater.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// Takes notice of another's stamp. False if it is too far ahead of this node's wall clock to be believed;
    /// what carries it is kept all the same.
    pub fn observe(&mut self, stamp: Stamp, wall_ms: u64) -> bool {
        if stamp > self.drift_bound(wall_ms) {
            return false;
        }
        self.last = self.last.max(stamp);
        true
    }

    /// The latest stamp that a clock within the drift bound can have given by now.
    fn drift_bound(&self, wall_ms: u64) -> Stamp {
        Stamp(Stamp::at_ms(wall_ms.saturating_add(self.drift_max.as_millis() as u64)).0 | 0xffff)
    }

    /// The same, or this clock's own last stamp if it is ahead of that.
    pub fn bound(&self, wall_ms: u64) -> Stamp {
        self.drift_bound(wall_ms).max(self.last)
    }

    /// Takes notice of what every replica of a partition has passed: no clock that runs ahead can reach it alone.
    pub fn advance_to(&mut self, stamp: Stamp) {
        self.last = self.last.max(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock() -> HybridClock {
        HybridClock::new(Stamp::ZERO, Duration::from_millis(500))
    }

    #[test]
    fn a_clock_that_stands_still_counts() {
        let mut clock = clock();
        let first = clock.tick(1_000);
        assert_eq!((first.ms(), first.logical()), (1_000, 0));
        assert_eq!(clock.tick(1_000).logical(), 1);
        assert!(clock.tick(900) > first, "and one that goes back does so too");
    }

    #[test]
    fn a_full_count_spills_into_the_next_millisecond() {
        let mut clock = HybridClock::new(Stamp(7 << 16 | 0xffff), Duration::ZERO);
        assert_eq!(clock.tick(7).ms(), 8);
    }

    #[test]
    fn a_clock_a_year_ahead_is_not_followed() {
        let mut clock = clock();
        assert!(!clock.observe(Stamp::at_ms(365 * 86_400_000), 1_000));
        assert_eq!(clock.tick(1_000).ms(), 1_000);
        assert!(clock.observe(Stamp::at_ms(1_400), 1_000));
        assert!(clock.tick(1_000) > Stamp::at_ms(1_400));
    }

    proptest! {
        #[test]
        fn stamps_only_grow(walls: Vec<(u32, u32)>) {
            let mut clock = clock();
            let mut last = Stamp::ZERO;
            for (wall, other) in walls {
                clock.observe(Stamp::at_ms(u64::from(other)), u64::from(wall));
                let stamp = clock.tick(u64::from(wall));
                prop_assert!(stamp > last);
                last = stamp;
            }
        }
    }
}
