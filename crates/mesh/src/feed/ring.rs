//! The last changes of a node's records, in memory, in the order in which the node made them. It takes nothing while no
//! follower asks, and is bounded: a follower that comes too late gets an error.

use crate::feed::change::Change;
use crate::frame::Shard;
use base::limits::{MESH_FEED_RING_BYTES_MAX, MESH_FEED_RING_CHANGES_MAX};
use base::{Instant, rng};
use std::collections::VecDeque;
use std::time::Duration;

/// How long the ring is kept up after the last question.
const KEPT_UP: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct RingEntry {
    /// None for a conflict, which any node may have noticed.
    shard: Option<Shard>,
    change: Change,
}

#[derive(Debug)]
pub(crate) struct ChangeRing {
    /// The number of this start and of how often the ring was taken up; another number is another ring.
    seed: u64,
    taken_up: u64,
    is_on: bool,
    asked_at: Instant,
    first: u64,
    entries: VecDeque<RingEntry>,
    bytes: usize,
}

impl ChangeRing {
    pub fn new(seed: u64) -> ChangeRing {
        ChangeRing {
            seed,
            taken_up: 0,
            is_on: false,
            asked_at: Instant::ZERO,
            first: 0,
            entries: VecDeque::new(),
            bytes: 0,
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Never zero.
    pub fn log(&self) -> u64 {
        rng::mix(self.seed ^ self.taken_up << 48) | 1
    }

    /// The place of the next change.
    pub fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// A follower asks. True if the ring begins with this.
    pub fn asked(&mut self, now: Instant) -> bool {
        self.asked_at = now;
        let begins = !self.is_on;
        if begins {
            self.taken_up += 1;
            self.is_on = true;
        }
        begins
    }

    /// No follower has asked for long: nothing is kept for one.
    pub fn rest(&mut self, now: Instant) {
        if self.is_on && now >= self.asked_at.after(KEPT_UP) {
            self.is_on = false;
            (self.first, self.bytes) = (self.end(), 0);
            self.entries = VecDeque::new();
        }
    }

    /// What followers have to be told is not in this ring any more: another begins, and they ask for rows.
    pub fn begin_again(&mut self) {
        self.taken_up += 1;
        (self.first, self.bytes) = (self.end(), 0);
        self.entries.clear();
    }

    pub fn push(&mut self, shard: Option<Shard>, change: Change) {
        if !self.is_on {
            return;
        }
        self.bytes += change.bytes();
        self.entries.push_back(RingEntry { shard, change });
        while self.bytes > MESH_FEED_RING_BYTES_MAX || self.entries.len() > MESH_FEED_RING_CHANGES_MAX {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.change.bytes();
            self.first += 1;
        }
    }

    /// The changes from a place on; none if that place is not in this ring.
    pub fn from(&self, log: u64, from: u64) -> Option<impl Iterator<Item = (Option<Shard>, &Change)>> {
        let is_inside = log == self.log() && (self.first..=self.end()).contains(&from);
        let skipped = from.wrapping_sub(self.first) as usize;
        is_inside.then(|| self.entries.iter().skip(skipped).map(|entry| (entry.shard, &entry.change)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::change::ChangeKind;
    use crate::key::Key;
    use bytes::Bytes;

    fn change(n: u32) -> Change {
        let key = Key::new(0, format!("k{n}").as_bytes());
        Change { kind: ChangeKind::Record, key, value: Bytes::from(vec![0; 100]) }
    }

    #[test]
    fn it_takes_nothing_while_no_follower_asks() {
        let mut ring = ChangeRing::new(7);
        ring.push(None, change(1));
        assert_eq!(ring.end(), 0);
        assert!(ring.asked(Instant(1)) && !ring.asked(Instant(2)));
        let log = ring.log();
        ring.push(None, change(2));
        assert_eq!(ring.from(log, 0).unwrap().count(), 1);
        ring.rest(Instant(2).after(KEPT_UP));
        assert!(!ring.is_on() && ring.asked(Instant::ZERO));
        assert!(ring.from(log, 0).is_none() && ring.from(log, 1).is_none(), "it is another ring now");
    }

    #[test]
    fn what_is_too_old_goes_and_its_place_is_refused() {
        let mut ring = ChangeRing::new(7);
        ring.asked(Instant(1));
        let n = MESH_FEED_RING_CHANGES_MAX as u64 + 5;
        (0..n).for_each(|n| ring.push(None, change(n as u32)));
        assert!(ring.from(ring.log(), 4).is_none() && ring.from(ring.log(), n + 1).is_none());
        let kept: Vec<&Change> = ring.from(ring.log(), 5).unwrap().map(|(_, change)| change).collect();
        assert_eq!((kept.len(), kept[0]), (MESH_FEED_RING_CHANGES_MAX, &change(5)));
    }
}
