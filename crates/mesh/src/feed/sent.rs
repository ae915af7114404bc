//! What a follower has sent lately, by key: replicas make the same change at different times, and one that takes over from
//! another sends some of it again. A subscription that was there the first time is spared the second.

use crate::actor::Dot;
use crate::conflict::Conflict;
use crate::context::Context;
use crate::feed::change::ChangeKind;
use crate::feed::follower::FeedChange;
use crate::hlc::Stamp;
use crate::record::Record;
use base::limits::MESH_FEED_TOLD_MAX;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
struct SentEntry {
    /// Counts what was sent.
    seq: u64,
    kind: ChangeKind,
    dot: Dot,
    stamp: Stamp,
    era: u32,
    /// Whether one of two writes wins: an earlier one shows nothing that a later one did not.
    last_wins: bool,
    context: Context,
}

#[derive(Debug, Default)]
pub(super) struct SentChanges {
    entries: BTreeMap<Bytes, SentEntry>,
    conflicts: BTreeMap<Bytes, u64>,
    /// Changes in the order in which they were sent.
    order: VecDeque<(u64, Bytes)>,
}

impl SentChanges {
    /// When the change was sent before, if that is remembered; otherwise it is noted as sent now.
    pub fn record(&mut self, seq: u64, key: &Bytes, kind: ChangeKind, change: &FeedChange) -> Option<u64> {
        let before = match change {
            FeedChange::Record(record) => self.record_change(seq, key, kind, record),
            FeedChange::Conflict(conflict) => self.record_conflict(seq, conflict),
        };
        if before.is_none() {
            self.order.push_back((seq, key.clone()));
            self.prune();
        }
        before
    }

    /// When the change was sent to all followers, if that is remembered.
    pub fn when(&self, key: &Bytes, kind: ChangeKind, change: &FeedChange) -> Option<u64> {
        match change {
            FeedChange::Record(record) => {
                self.entries.get(key).filter(|sent| sent.includes(kind, record)).map(|sent| sent.seq)
            }
            FeedChange::Conflict(conflict) => self.conflicts.get(&conflict.row().key).copied(),
        }
    }

    fn record_change(&mut self, seq: u64, key: &Bytes, kind: ChangeKind, record: &Record) -> Option<u64> {
        let before = self.entries.get(key);
        if let Some(sent) = before.filter(|sent| sent.includes(kind, record)) {
            return Some(sent.seq);
        }
        let mut context = record.context.clone();
        if let Some(sent) = before {
            context.join(&sent.context);
        }
        let header = &record.header;
        let (dot, stamp, era) = (header.dot, header.stamp, record.era);
        let last_wins = record.kind.is_last_write_wins();
        self.entries.insert(key.clone(), SentEntry { seq, kind, dot, stamp, era, last_wins, context });
        None
    }

    fn record_conflict(&mut self, seq: u64, conflict: &Conflict) -> Option<u64> {
        let row = conflict.row().key;
        let before = self.conflicts.get(&row).copied();
        if before.is_none() {
            if self.conflicts.len() >= MESH_FEED_TOLD_MAX {
                self.conflicts.pop_first();
            }
            self.conflicts.insert(row, seq);
        }
        before
    }

    /// Forgets the oldest changes when there are too many.
    fn prune(&mut self) {
        while self.order.len() > MESH_FEED_TOLD_MAX {
            let Some((seq, key)) = self.order.pop_front() else { return };
            if self.entries.get(&key).is_some_and(|sent| sent.seq == seq) {
                self.entries.remove(&key);
            }
        }
    }
}

impl SentEntry {
    fn includes(&self, kind: ChangeKind, record: &Record) -> bool {
        let header = &record.header;
        if kind != ChangeKind::Record {
            return self.kind == kind && self.dot == header.dot;
        }
        let is_seen = self.context.dominates(&record.context) && self.context.covers(header.dot);
        let has_lost = self.last_wins
            && record.kind.is_last_write_wins()
            && (record.era, header.stamp) < (self.era, self.stamp);
        is_seen || has_lost
    }
}
