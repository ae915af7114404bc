//! Timers of operations. A timer whose operation has ended stays in the heap until it is due, or until most timers are
//! stale and the heap is rebuilt.

use crate::frame::OpId;
use base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stale timers that are tolerated.
const STALE_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(in crate::mesh) struct Timers {
    /// The first on top.
    heap: BinaryHeap<Reverse<(Instant, OpId)>>,
}

impl Timers {
    pub fn set(&mut self, at: Instant, id: OpId) {
        self.heap.push(Reverse((at, id)));
    }

    /// The first that is due, by time and then by the order in which the operations began.
    pub fn pop_due(&mut self, now: Instant) -> Option<OpId> {
        let Reverse(first) = *self.heap.peek().filter(|Reverse((at, _))| *at <= now)?;
        while self.heap.peek() == Some(&Reverse(first)) {
            self.heap.pop();
        }
        Some(first.1)
    }

    /// Whether most timers belong to ended operations, with so many in progress.
    pub fn are_mostly_stale(&self, n_operations: usize) -> bool {
        self.heap.len() > 2 * n_operations + STALE_MAX
    }

    pub fn retain(&mut self, is_under_way: impl Fn(OpId) -> bool) {
        self.heap.retain(|Reverse((_, id))| is_under_way(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_once() {
        let mut timers = Timers::default();
        for (at, id) in [(5, 1), (3, 9), (3, 2), (3, 9), (8, 4)] {
            timers.set(Instant(at), OpId(id));
        }
        let mut rung = Vec::new();
        while let Some(id) = timers.pop_due(Instant(5)) {
            rung.push(id);
        }
        assert_eq!(rung, [OpId(2), OpId(9), OpId(1)]);
        assert_eq!(timers.pop_due(Instant(7)), None);
        assert_eq!(timers.pop_due(Instant(8)), Some(OpId(4)));
    }

    #[test]
    fn timers_of_ended_operations_are_dropped_when_they_are_most() {
        let mut timers = Timers::default();
        (0..=STALE_MAX as u64 + 2).for_each(|n| timers.set(Instant(n), OpId(n)));
        assert!(timers.are_mostly_stale(1) && !timers.are_mostly_stale(2));
        timers.retain(|id| id == OpId(700));
        assert!(!timers.are_mostly_stale(0));
        assert_eq!((timers.pop_due(Instant(9_999)), timers.pop_due(Instant(9_999))), (Some(OpId(700)), None));
    }
}
