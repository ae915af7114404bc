//! What a member can tell operators of its state: watches, leases with their keys, and what pins compaction. Nothing is
//! changed, and every list has a bound.

use super::Apply;
use crate::compaction_round::RoundReport;
use base::limits::HOLD_IDLE_MILLIS_MAX;
use base::{Instant, LeaseId, Revision};
use bytes::Bytes;
use coord::watch::{StreamId, WatchDescription, WatchId, WatchPositionCounts, WatchSelection};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Keys that are listed of one lease.
const LEASE_KEYS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseDescription {
    pub id: LeaseId,
    pub ttl: i64,
    /// In milliseconds since 1970; zero while it is not known.
    pub granted_ms: i64,
    /// The first of its keys.
    pub keys: Vec<Bytes>,
    pub key_count: usize,
}

/// What keeps the past from being compacted, as far as this member knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionDescription {
    pub revision: Revision,
    pub compacted: Revision,
    /// The newest revision that the retention allows to compact to; none while that is not known, or compaction is
    /// left to clients.
    pub goal: Option<Revision>,
    /// Everything from here on is needed on this member.
    pub needed: Revision,
    /// Readers that need less than this delay nothing any more.
    pub lag_bound: Revision,
    /// Rows of an earlier compaction are still being removed.
    pub is_sweeping: bool,
    pub pins: Vec<CompactionPin>,
    /// The last round that this member led in its term.
    pub last_round: Option<RoundReport>,
}

/// A reader that needs the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPin {
    pub reader: PinReader,
    pub needs: Revision,
    /// The reader is too far behind, or was silent for too long, and delays no compaction any more.
    pub is_given_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinReader {
    Watch { stream: StreamId, watch: WatchId },
    LargeRead { unused: Duration },
}

/// The oldest revision that readers of each kind need; none without such a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestNeeded {
    pub watches: Option<Revision>,
    pub large_reads: Option<Revision>,
}

impl Apply {
    pub fn oldest_needed(&self, now: Instant) -> OldestNeeded {
        OldestNeeded { watches: self.hub.oldest_needed(), large_reads: self.holds.oldest(now) }
    }

    pub fn count_large_reads(&self, now: Instant) -> usize {
        self.holds.iter(now).count()
    }

    pub fn count_watch_positions(&self) -> WatchPositionCounts {
        self.hub.count_positions()
    }

    /// Watches of this member.
    pub fn describe_watches(&self, selection: &WatchSelection) -> Vec<WatchDescription> {
        self.hub.describe(selection)
    }

    /// How many watches each of these streams has.
    pub fn sizes_of_streams(&self, streams: &BTreeSet<StreamId>) -> BTreeMap<StreamId, usize> {
        self.hub.sizes_of(streams)
    }

    /// The leases after this one by their ids, so many at most.
    pub fn describe_leases(&self, after: LeaseId, at_most: usize) -> Vec<LeaseDescription> {
        let leases = self.state.leases_after(after).take(at_most);
        leases
            .map(|(id, lease)| LeaseDescription {
                id,
                ttl: lease.ttl,
                granted_ms: lease.granted_at.millis(),
                keys: lease.keys().take(LEASE_KEYS_MAX).map(Bytes::copy_from_slice).collect(),
                key_count: lease.keys().count(),
            })
            .collect()
    }

    /// What pins compaction here, so many readers at most, those that need the oldest revisions first.
    pub fn describe_compaction(&self, now: Instant, at_most: usize) -> CompactionDescription {
        let lag_bound = self.lag_bound(now);
        let idle_max = Duration::from_millis(HOLD_IDLE_MILLIS_MAX);
        let watches = self.hub.describe_behind().map(|it| CompactionPin {
            reader: PinReader::Watch { stream: it.stream, watch: it.watch },
            needs: it.next,
            is_given_up: it.next < lag_bound,
        });
        let reads = self.holds.iter(now).map(|(_, at, unused)| CompactionPin {
            reader: PinReader::LargeRead { unused },
            needs: at,
            is_given_up: at < lag_bound || unused >= idle_max,
        });
        let mut pins: Vec<CompactionPin> = watches.chain(reads).collect();
        pins.sort_by_key(|pin| pin.needs);
        pins.truncate(at_most);
        CompactionDescription {
            revision: self.state.revision(),
            compacted: self.state.compacted(),
            goal: self.retention_goal(now),
            needed: self.needed(now),
            lag_bound,
            is_sweeping: self.state.is_sweeping(),
            pins,
            last_round: self.retention.compactor.last_round().cloned(),
        }
    }

    fn retention_goal(&self, now: Instant) -> Option<Revision> {
        let keep = self.params.compaction.keep?;
        let by_count = Revision(self.state.revision().0.saturating_sub_unsigned(keep.revisions));
        Some(self.retention.ages.aged(now)?.min(by_count))
    }
}
