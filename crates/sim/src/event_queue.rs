//! What will happen, in the order of true time; equal times keep the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub struct EventQueue<E> {
    now: u64,
    planned: u64,
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<E>>,
    free: Vec<usize>,
}

impl<E> EventQueue<E> {
    pub fn new() -> EventQueue<E> {
        EventQueue { now: 0, planned: 0, heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new() }
    }

    /// True time in microseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    pub fn after(&mut self, delay: u64, event: E) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(event);
        self.planned += 1;
        self.heap.push(Reverse((self.now + delay, self.planned, slot)));
    }

    /// The next event not later than `until`; time moves to it.
    pub fn next(&mut self, until: u64) -> Option<E> {
        let Reverse((time, _, _)) = self.heap.peek()?;
        if *time > until {
            return None;
        }
        let Reverse((time, _, slot)) = self.heap.pop()?;
        self.now = time;
        self.free.push(slot);
        self.slots[slot].take()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue::new()
    }
}
