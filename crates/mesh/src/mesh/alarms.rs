//! Timers of operations. A timer whose operation has ended stays in the heap until it is due, or until most timers are
//! stale and the heap is rebuilt.

use crate::frame::Ask;
use base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stale timers that are tolerated.
const SPENT_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// The first on top.
    heap: BinaryHeap<Reverse<(Instant, Ask)>>,
}

impl Alarms {
    pub fn set(&mut self, at: Instant, ask: Ask) {
        self.heap.push(Reverse((at, ask)));
    }

    /// The first that is due, by time and then by the order in which the operations began.
    pub fn ring(&mut self, now: Instant) -> Option<Ask> {
        let Reverse(first) = *self.heap.peek().filter(|Reverse((at, _))| *at <= now)?;
        while self.heap.peek() == Some(&Reverse(first)) {
            self.heap.pop();
        }
        Some(first.1)
    }

    /// Whether most timers belong to ended operations, with so many in progress.
    pub fn are_mostly_spent(&self, n_operations: usize) -> bool {
        self.heap.len() > 2 * n_operations + SPENT_MAX
    }

    pub fn keep(&mut self, is_under_way: impl Fn(Ask) -> bool) {
        self.heap.retain(|Reverse((_, ask))| is_under_way(*ask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_and_once() {
        let mut alarms = Alarms::default();
        for (at, ask) in [(5, 1), (3, 9), (3, 2), (3, 9), (8, 4)] {
            alarms.set(Instant(at), Ask(ask));
        }
        let mut rung = Vec::new();
        while let Some(ask) = alarms.ring(Instant(5)) {
            rung.push(ask);
        }
        assert_eq!(rung, [Ask(2), Ask(9), Ask(1)]);
        assert_eq!(alarms.ring(Instant(7)), None);
        assert_eq!(alarms.ring(Instant(8)), Some(Ask(4)));
    }

    #[test]
    fn those_of_ended_operations_go_when_they_are_most() {
        let mut alarms = Alarms::default();
        (0..=SPENT_MAX as u64 + 2).for_each(|n| alarms.set(Instant(n), Ask(n)));
        assert!(alarms.are_mostly_spent(1) && !alarms.are_mostly_spent(2));
        alarms.keep(|ask| ask == Ask(700));
        assert!(!alarms.are_mostly_spent(0));
        assert_eq!((alarms.ring(Instant(9_999)), alarms.ring(Instant(9_999))), (Some(Ask(700)), None));
    }
}
