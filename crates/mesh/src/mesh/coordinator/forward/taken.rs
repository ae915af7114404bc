//! Names of writes that one node has forwarded to this one, so that a frame which comes twice is carried out once.
//! A name is remembered for as long as its write may be carried out; a frame that comes later is refused because of its stamp.
//! Names are forgotten by time and never by number: one forged number would otherwise put all names of the real peer below it
//! out of use.

use crate::frame::OpId;
use base::Instant;
use base::mutant::{Mutant, planted};
use std::collections::{BTreeSet, VecDeque};

/// Names of one node that are remembered: more than a node forwards in the time.
const NAMES_MAX: usize = 1 << 18;

#[derive(Debug, Default)]
pub(in crate::mesh) struct ForwardedNames {
    asks: BTreeSet<OpId>,
    /// In order of arrival, with the moment after which the name is forgotten.
    arrived: VecDeque<(Instant, OpId)>,
    /// Only with the planted bug: names up to here count as taken.
    forgotten: OpId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) enum Taken {
    First,
    /// It has come before.
    Again,
    /// So many have come that this one cannot be remembered.
    Full,
}

impl ForwardedNames {
    pub fn take(&mut self, ask: OpId, now: Instant, until: Instant) -> Taken {
        if planted(Mutant::ForwardNamesPoisoned) {
            return self.take_by_number(ask);
        }
        while let Some((_, old)) = self.arrived.pop_front_if(|(until, _)| *until <= now) {
            self.asks.remove(&old);
        }
        if self.asks.contains(&ask) {
            return Taken::Again;
        }
        if self.asks.len() >= NAMES_MAX {
            return Taken::Full;
        }
        self.asks.insert(ask);
        self.arrived.push_back((until, ask));
        Taken::First
    }

    /// The bug that is planted: the lowest number is forgotten first, and with it all below.
    fn take_by_number(&mut self, ask: OpId) -> Taken {
        const REMEMBERED: usize = 64;
        if ask <= self.forgotten || !self.asks.insert(ask) {
            return Taken::Again;
        }
        if self.asks.len() > REMEMBERED {
            self.forgotten = self.asks.pop_first().unwrap_or_default();
        }
        Taken::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_once_until_its_time_is_over() {
        let mut names = ForwardedNames::default();
        assert_eq!(names.take(OpId(5), Instant(1), Instant(10)), Taken::First);
        assert_eq!(names.take(OpId(u64::MAX), Instant(1), Instant(10)), Taken::First);
        assert_eq!(names.take(OpId(5), Instant(9), Instant(19)), Taken::Again);
        assert_eq!(names.take(OpId(6), Instant(9), Instant(19)), Taken::First, "below one that was forged");
        assert_eq!(names.take(OpId(5), Instant(10), Instant(20)), Taken::First, "it is forgotten");
    }

    #[test]
    fn names_are_bounded_and_the_bound_ends_with_their_time() {
        let mut names = ForwardedNames::default();
        for number in 0..NAMES_MAX as u64 {
            assert_eq!(names.take(OpId(number), Instant(1), Instant(10)), Taken::First);
        }
        assert_eq!(names.take(OpId(u64::MAX), Instant(2), Instant(11)), Taken::Full);
        assert_eq!(names.take(OpId(7), Instant(2), Instant(11)), Taken::Again);
        assert_eq!(names.take(OpId(u64::MAX), Instant(10), Instant(20)), Taken::First);
    }
}
