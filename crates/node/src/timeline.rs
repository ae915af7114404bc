//! Which revision was the newest a certain time ago, on this member's own clock.
//! Samples go in as time passes, bounded in number however long that time is; the answer was the newest then or before,
//! never later. Nothing is known of the time before the start.

use base::{Instant, Revision};
use std::collections::VecDeque;
use std::time::Duration;

/// The time that is looked back is cut into this many parts.
const SAMPLES: u32 = 256;

#[derive(Debug)]
pub(crate) struct Timeline {
    age: Duration,
    samples: VecDeque<(Instant, Revision)>,
}

impl Timeline {
    /// Looks back this far.
    pub fn new(age: Duration) -> Timeline {
        Timeline { age, samples: VecDeque::new() }
    }

    pub fn note(&mut self, now: Instant, revision: Revision) {
        if self.samples.back().is_some_and(|(last, _)| now.since(*last) < self.age / SAMPLES) {
            return;
        }
        self.samples.push_back((now, revision));
        while self.samples.get(1).is_some_and(|(second, _)| now.since(*second) >= self.age) {
            self.samples.pop_front();
        }
    }

    /// The newest revision at that time, if this member was running then.
    pub fn aged(&self, now: Instant) -> Option<Revision> {
        let old_enough = self.samples.partition_point(|(at, _)| now.since(*at) >= self.age);
        old_enough.checked_sub(1).map(|last| self.samples[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Instant {
        Instant::ZERO.after(Duration::from_secs(number))
    }

    #[test]
    fn the_past_is_answered_with_what_was_seen_then_or_before() {
        let mut line = Timeline::new(Duration::from_secs(256));
        for number in 10..=1_000 {
            line.note(second(number), Revision(number as i64));
        }
        assert_eq!(line.aged(second(1_000)), Some(Revision(744)));
        assert_eq!(line.aged(second(1_001)), Some(Revision(745)));
        assert!(line.samples.len() <= SAMPLES as usize + 1);
    }

    #[test]
    fn what_was_before_the_start_is_not_known() {
        let mut line = Timeline::new(Duration::from_secs(60));
        line.note(second(100), Revision(7));
        assert_eq!(line.aged(second(130)), None);
        assert_eq!(line.aged(second(160)), Some(Revision(7)));
    }

    #[test]
    fn without_an_age_the_newest_counts() {
        let mut line = Timeline::new(Duration::ZERO);
        line.note(second(100), Revision(7));
        line.note(second(101), Revision(8));
        assert_eq!(line.aged(second(101)), Some(Revision(8)));
        assert_eq!(line.samples.len(), 1);
    }
}
