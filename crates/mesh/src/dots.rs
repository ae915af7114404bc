//! The node-wide counter that dots are taken from, reserved durably in blocks.
//! `take` returns nothing beyond the reserved bound; `next_bound` names the bound to persist, `reserved` reports that it is
//! durable. After a crash the counter continues above the last durable bound, so no number is assigned twice.

use crate::mutant::Mutant;

use base::mutant::planted;

/// How many numbers are reserved at a time.
const BLOCK: u64 = 65_536;

#[derive(Clone, Debug)]
pub struct DotAllocator {
    next: u64,
    reserved: u64,
    asked: u64,
}

impl DotAllocator {
    /// `reserved` is the durable bound of the earlier incarnation, zero for a new actor.
    pub fn resume(reserved: u64) -> DotAllocator {
        if planted(Mutant::DotsReused) {
            return DotAllocator { next: 1, reserved: reserved.max(BLOCK), asked: reserved.max(BLOCK) };
        }
        DotAllocator { next: reserved + 1, reserved, asked: reserved }
    }

    pub fn take(&mut self) -> Option<u64> {
        (self.next <= self.reserved).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// The first of so many numbers that follow each other.
    pub fn take_many(&mut self, n: u64) -> Option<u64> {
        (self.next + n <= self.reserved + 1).then(|| {
            self.next += n;
            self.next - n
        })
    }

    /// No dot can be given before more are reserved.
    pub fn is_exhausted(&self) -> bool {
        self.next > self.reserved
    }

    /// The last number that was given, or could have been in an earlier incarnation.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// The bound to persist now, if it is time: long before the last number is given.
    pub fn next_bound(&mut self) -> Option<u64> {
        let low = self.asked.saturating_sub(self.next) < BLOCK / 2;
        (low && self.asked == self.reserved).then(|| {
            self.asked = self.reserved + BLOCK;
            self.asked
        })
    }

    /// The bound that was last asked for.
    pub fn bound(&self) -> u64 {
        self.asked
    }

    /// A bound is durable.
    pub fn reserved(&mut self, upto: u64) {
        assert!(upto <= self.asked, "only what was asked for can be reserved");
        self.reserved = self.reserved.max(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_before_it_is_reserved() {
        let mut dots = DotAllocator::resume(0);
        assert_eq!(dots.take(), None);
        let bound = dots.next_bound().unwrap();
        assert_eq!((dots.take(), dots.next_bound()), (None, None), "asked once");
        dots.reserved(bound);
        assert_eq!((dots.take(), dots.take()), (Some(1), Some(2)));
        assert_eq!((dots.take_many(BLOCK), dots.take_many(BLOCK - 2)), (None, Some(3)));
    }

    #[test]
    fn a_crash_skips_the_rest_of_the_block() {
        let mut dots = DotAllocator::resume(BLOCK);
        let bound = dots.next_bound().unwrap();
        dots.reserved(bound);
        assert_eq!(dots.take(), Some(BLOCK + 1));
    }

    #[test]
    fn the_next_block_is_asked_for_before_this_one_ends() {
        let mut dots = DotAllocator::resume(0);
        let bound = dots.next_bound().unwrap();
        dots.reserved(bound);
        let mut given = 0;
        loop {
            assert!(dots.take().is_some());
            given += 1;
            if dots.next_bound().is_some() {
                break;
            }
        }
        assert!(given <= BLOCK / 2 + 1);
    }
}
