//! Large ranges, read from the apply machine piece by piece at one revision. A reader first holds the revision; then
//! it surveys sizes and reads pages of keys, each with the values that are in memory and a note of those that are in
//! the store. While a hold blocks compaction, no sweep removes what its revision shows. A hold that is unused for
//! long ends when a compaction waits for it.

use super::Apply;
use crate::layered_history::LayeredHistory;
use crate::mutant::Mutant;
use base::limits::{HOLD_IDLE_MILLIS_MAX, LARGE_READS_MAX};
use base::mutant::planted;
use base::{Code, Instant, ReadView, Revision};
use bytes::Bytes;
use coord::Record;
use coord::pieces::{Content, Version, WalkEnd};
use coord::reply::RangeReply;
use coord::request::Range;
use std::collections::BTreeMap;
use std::time::Duration;

/// Versions of the past that one survey leaves to be measured by the store.
const UNMEASURED_MAX: usize = 512;

/// What an answer holds of a key beside key and value, about.
const KEY_OVERHEAD_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldId(pub u64);

/// How a hold and a compaction affect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// The sweep waits for the hold.
    BlocksCompaction,
    /// The compaction ends the hold.
    EndsWithCompaction,
}

struct RevisionHold {
    at: Revision,
    keep: HoldKind,
    used: Instant,
}

#[derive(Default)]
pub(super) struct RevisionHolds(BTreeMap<HoldId, RevisionHold>);

/// A page of a range whose revision is held.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    pub hold: HoldId,
    pub range: &'a Range,
    pub from: &'a Bytes,
    /// How many keys may be looked at.
    pub keys_max: usize,
}

/// The size of a key in an answer, by its length, revisions and content.
pub type Measure<'a> = dyn Fn(usize, &Version, Content) -> usize + 'a;

/// The sizes of some keys.
#[derive(Debug)]
pub struct SizeSurvey {
    pub bytes: u64,
    pub keys: u64,
    /// There is a key beyond the limit.
    pub more: bool,
    /// Counted among the keys but not in the bytes: only the store knows their sizes.
    pub unmeasured: Vec<(Bytes, Version)>,
    pub walked: WalkEnd,
}

/// Some keys in their order.
#[derive(Debug)]
pub struct Page {
    pub rows: Vec<PageRow>,
    pub walked: WalkEnd,
}

#[derive(Debug)]
pub struct PageRow {
    pub key: Bytes,
    pub version: Version,
    pub source: ValueSource,
}

/// Where the value of a row is.
#[derive(Debug)]
pub enum ValueSource {
    /// The value was not requested.
    NotRequested,
    Memory(Record),
    Store,
}

impl RevisionHolds {
    /// A compaction to this floor has to wait.
    pub fn block(&self, floor: Revision) -> bool {
        let firm = |hold: &RevisionHold| hold.keep == HoldKind::BlocksCompaction && hold.at < floor;
        self.0.values().any(firm) && !planted(Mutant::SweepIgnoresHolds)
    }

    /// The oldest revision that a reader holds and has used recently.
    pub fn oldest(&self, now: Instant) -> Option<Revision> {
        let idle_max = Duration::from_millis(HOLD_IDLE_MILLIS_MAX);
        let used = self.0.values().filter(|hold| now.since(hold.used) < idle_max);
        used.map(|hold| hold.at).min()
    }

    /// Every hold with its revision, and for how long it was unused.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = (HoldId, Revision, Duration)> {
        self.0.iter().map(move |(id, hold)| (*id, hold.at, now.since(hold.used)))
    }

    /// Ends holds that a compaction waits for and that were unused for long.
    pub fn expire(&mut self, now: Instant, floor: Revision) {
        let idle_max = Duration::from_millis(HOLD_IDLE_MILLIS_MAX);
        self.0.retain(|_, hold| hold.at >= floor || now.since(hold.used) < idle_max);
    }

    /// The state was replaced by one that does not show what lies below the floor.
    pub fn installed(&mut self, floor: Revision) {
        self.0.retain(|_, hold| hold.at >= floor);
    }

    /// A hold that has ended was ended for a compaction.
    fn touch(&mut self, now: Instant, id: HoldId, floor: Revision) -> Result<(), Code> {
        let hold = self.0.get_mut(&id).ok_or(Code::Compacted)?;
        if hold.keep == HoldKind::EndsWithCompaction && hold.at < floor {
            return Err(Code::Compacted);
        }
        hold.used = now;
        Ok(())
    }
}

impl Apply {
    /// Holds the revision of a range, and counts its keys there.
    pub fn hold(&mut self, now: Instant, id: HoldId, range: &Range, keep: HoldKind) -> Result<u64, Code> {
        if range.revision < self.state.compacted() {
            return Err(Code::Compacted);
        }
        if self.holds.0.len() >= LARGE_READS_MAX {
            return Err(Code::TooManyRequests);
        }
        self.holds.0.insert(id, RevisionHold { at: range.revision, keep, used: now });
        Ok(self.state.count_held(range))
    }

    pub fn release(&mut self, id: HoldId) {
        self.holds.0.remove(&id);
    }

    /// Sums up the sizes of the keys from a place on, `keys_left` of them at most.
    pub fn survey(
        &mut self,
        now: Instant,
        place: PageRequest<'_>,
        keys_left: u64,
        measure: &Measure<'_>,
    ) -> Result<SizeSurvey, Code> {
        self.holds.touch(now, place.hold, self.state.compacted())?;
        let (mut bytes, mut keys, mut more) = (0, 0, false);
        let mut unmeasured = Vec::new();
        let walked = self.state.walk(place.range, place.from, place.keys_max, &mut |key, shown| {
            if keys == keys_left || unmeasured.len() == UNMEASURED_MAX {
                more = keys == keys_left;
                return false;
            }
            keys += 1;
            let in_memory =
                || self.flusher.overlay.find(key, shown.version.modified).as_ref().map(content_of);
            let content = if place.range.keys_only {
                Some(Content::default())
            } else {
                shown.content.or_else(in_memory)
            };
            match content {
                Some(content) => bytes += measure(key.len(), &shown.version, content) as u64,
                None => unmeasured.push((Bytes::copy_from_slice(key), shown.version)),
            }
            true
        });
        Ok(SizeSurvey { bytes, keys, more, unmeasured, walked })
    }

    /// The keys from a place on, about `bytes_max` of them with their values, and one at least.
    pub fn page(&mut self, now: Instant, place: PageRequest<'_>, bytes_max: usize) -> Result<Page, Code> {
        self.holds.touch(now, place.hold, self.state.compacted())?;
        let mut rows = Vec::new();
        let mut bytes = 0;
        let in_memory_from = self.flusher.overlay.first_revision();
        let walked = self.state.walk(place.range, place.from, place.keys_max, &mut |key, shown| {
            bytes += KEY_OVERHEAD_BYTES
                + key.len()
                + shown.content.map_or(0, |content| content.value_len as usize);
            if bytes > bytes_max && !rows.is_empty() {
                return false;
            }
            let modified = shown.version.modified;
            let recent = in_memory_from.is_some_and(|from| modified >= from);
            let source = if place.range.keys_only {
                ValueSource::NotRequested
            } else if recent {
                self.flusher.overlay.find(key, modified).map_or(ValueSource::Store, ValueSource::Memory)
            } else {
                ValueSource::Store
            };
            rows.push(PageRow { key: Bytes::copy_from_slice(key), version: shown.version, source });
            true
        });
        Ok(Page { rows, walked })
    }

    /// The whole answer to a range that is held.
    pub fn whole(
        &mut self,
        now: Instant,
        view: &dyn ReadView,
        hold: HoldId,
        range: &Range,
    ) -> Result<RangeReply, Code> {
        self.holds.touch(now, hold, self.state.compacted())?;
        Ok(self.state.range_held(&LayeredHistory { overlay: &self.flusher.overlay, view }, range))
    }
}

fn content_of(record: &Record) -> Content {
    let value_len = u32::try_from(record.value.len()).expect("a value is far below 4 GiB");
    Content { lease: record.lease, value_len }
}
