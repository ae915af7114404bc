//! Names of writes that one node has forwarded to this one, so that a frame which comes twice is carried out once.
//! A name is remembered for as long as its write may be carried out; a frame that comes later is refused because of its stamp.
//! Names are forgotten by time and never by number: one forged number would otherwise put all names of the real peer below it
//! out of use.

use crate::frame::OpId;
use crate::mutant::Mutant;
use base::Instant;
use base::mutant::planted;
use std::collections::{BTreeSet, VecDeque};

/// Names of one node that are remembered: more than a node forwards in the time.
const NAMES_MAX: usize = 1 << 18;

#[derive(Debug, Default)]
pub(in crate::mesh) struct ForwardedNames {
    names: BTreeSet<OpId>,
    /// In order of arrival, with the moment after which the name is forgotten.
    arrived: VecDeque<(Instant, OpId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) enum ForwardVerdict {
    First,
    /// The name has come before.
    Repeated,
    /// Too many names are remembered for one more.
    Full,
}

impl ForwardedNames {
    pub fn take(&mut self, name: OpId, now: Instant, until: Instant) -> ForwardVerdict {
        while let Some((_, old)) = self.arrived.pop_front_if(|(until, _)| *until <= now) {
            self.names.remove(&old);
        }
        let below = planted(Mutant::ForwardNamesPoisoned) && self.names.last() > Some(&name);
        if below || self.names.contains(&name) {
            return ForwardVerdict::Repeated;
        }
        if self.names.len() >= NAMES_MAX {
            return ForwardVerdict::Full;
        }
        self.names.insert(name);
        self.arrived.push_back((until, name));
        ForwardVerdict::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_once_until_its_time_is_over() {
        let mut names = ForwardedNames::default();
        assert_eq!(names.take(OpId(5), Instant(1), Instant(10)), ForwardVerdict::First);
        assert_eq!(names.take(OpId(u64::MAX), Instant(1), Instant(10)), ForwardVerdict::First);
        assert_eq!(names.take(OpId(5), Instant(9), Instant(19)), ForwardVerdict::Repeated);
        assert_eq!(
            names.take(OpId(6), Instant(9), Instant(19)),
            ForwardVerdict::First,
            "below one that was forged"
        );
        assert_eq!(names.take(OpId(5), Instant(10), Instant(20)), ForwardVerdict::First, "it is forgotten");
    }

    #[test]
    fn names_are_bounded_and_the_bound_ends_with_their_time() {
        let mut names = ForwardedNames::default();
        for number in 0..NAMES_MAX as u64 {
            assert_eq!(names.take(OpId(number), Instant(1), Instant(10)), ForwardVerdict::First);
        }
        assert_eq!(names.take(OpId(u64::MAX), Instant(2), Instant(11)), ForwardVerdict::Full);
        assert_eq!(names.take(OpId(7), Instant(2), Instant(11)), ForwardVerdict::Repeated);
        assert_eq!(names.take(OpId(u64::MAX), Instant(10), Instant(20)), ForwardVerdict::First);
    }
}
