//! What a node does without disk space: it accepts nothing that grows, from clients or peers, and says so. It serves all
//! reads, and deletes of existing keys while there is more space than the log's next segment needs. Hints and anti-entropy
//! bring what it missed once there is space again.

use crate::disk_space::{DiskSpace, PendingWrites};
use crate::key::Key;
use crate::mesh::replica::Replica;
use crate::mesh::{MeshEvent, Params, Turn};
use crate::mutant::Mutant;
use crate::op::{BoundedOp, Op};
use crate::record::Record;
use crate::request::Write;
use base::mutant::planted;
use std::time::Duration;

/// The space that a full node must have again before it reports that the disk has space.
const AGAIN_BYTES: u64 = 1024 * 1024;

/// A flush is worthwhile when what waits for it takes this part of the free space.
const CROWDED_PART: u64 = 4;

const FULL_FLUSH_EVERY: Duration = Duration::from_secs(2);

/// Pages that a flush has freed are reused by a later one, when no reader needs them any more.
const FLUSHES_UNTIL_REUSED: usize = 3;

/// A record, and where it is found.
const ROWS_OF_ONE: u64 = 3;

/// What a deleted key's record comes to, beside its name.
const TOMBSTONE_BYTES: usize = 64;

/// What a change does to what is stored, in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Grows,
    /// Until it is in the store it takes space nevertheless.
    Shrinks,
}

#[derive(Debug)]
pub(super) struct SpaceState {
    /// What is to stay free of the disk, and what even of deletes.
    low_bytes: u64,
    least_bytes: u64,
    flush_every: Duration,
    /// Unlimited until something was measured.
    disk_space: Option<DiskSpace>,
    /// The flush that is under way.
    flushing: PendingWrites,
    /// What the records came to when the last flushes were cut, the newest last.
    stored_bytes: [u64; FLUSHES_UNTIL_REUSED],
    /// Something was refused, and there was no space since.
    full: bool,
}

impl SpaceState {
    pub fn new(params: &Params) -> SpaceState {
        SpaceState {
            low_bytes: params.low_bytes,
            least_bytes: params.least_bytes,
            flush_every: params.flush_every,
            disk_space: None,
            flushing: PendingWrites::default(),
            stored_bytes: [0; FLUSHES_UNTIL_REUSED],
            full: false,
        }
    }
}

impl Replica {
    /// The store has a flush.
    pub(in crate::mesh) fn step_flushed(&mut self, t: &mut Turn<'_>, number: u64) {
        t.out.flushed_rows = self.storage.flushed(number);
        self.space_state.flushing = PendingWrites::default();
    }

    pub(in crate::mesh) fn step_disk_space(&mut self, t: &mut Turn<'_>, disk_space: DiskSpace) {
        self.space_state.disk_space = Some(disk_space);
        if self.space_state.full && self.has_space_for(AGAIN_BYTES, Effect::Grows) {
            self.space_state.full = false;
            t.out.events.push(MeshEvent::SpaceAgain);
        }
    }

    /// Something was refused for lack of space, and there was none since.
    pub(in crate::mesh) fn is_full(&self) -> bool {
        self.space_state.full
    }

    /// A flush is cut, of all that has gathered.
    pub(in crate::mesh) fn note_flush(&mut self) {
        let bytes = std::mem::take(&mut self.storage.unflushed_bytes);
        self.space_state.flushing = PendingWrites { bytes, rows: self.storage.n_flushing() };
        self.space_state.stored_bytes.rotate_left(1);
        self.space_state.stored_bytes[FLUSHES_UNTIL_REUSED - 1] = self.stored_bytes();
    }

    /// Until all rows were counted the store's file counts as full.
    fn stored_bytes(&self) -> u64 {
        self.shards.stored_bytes().unwrap_or(u64::MAX)
    }

    /// The bytes that records need in the store's file, including removed ones whose pages are not free yet.
    fn needed_bytes(&self) -> u64 {
        self.space_state.stored_bytes.into_iter().fold(self.stored_bytes(), u64::max)
    }

    /// Flushes free space by themselves, although there may be nothing to flush.
    pub(in crate::mesh) fn is_settling(&self) -> bool {
        self.space_state.full && self.needed_bytes() > self.stored_bytes()
    }

    /// Where there is no space, flushes free what was deleted.
    pub(in crate::mesh) fn flush_every(&self) -> Duration {
        let usual = self.space_state.flush_every;
        if self.space_state.full { usual.min(FULL_FLUSH_EVERY) } else { usual }
    }

    /// What waits for the next flush.
    fn waiting(&self) -> PendingWrites {
        PendingWrites { bytes: self.storage.unflushed_bytes, rows: self.storage.n_growing() }
    }

    /// What waits for the store would soon be in the way of what grows, or at least of deletes: with a flush it takes less.
    pub(in crate::mesh) fn is_crowded(&self) -> bool {
        let (nothing, waits) = (PendingWrites::default(), self.waiting().times(CROWDED_PART));
        let is_crowded =
            |effect| self.has_space_beside(nothing, effect) && !self.has_space_beside(waits, effect);
        is_crowded(Effect::Grows) || is_crowded(Effect::Shrinks)
    }

    fn has_space_for(&self, bytes: u64, effect: Effect) -> bool {
        let under_way = self.waiting().and(self.space_state.flushing);
        self.has_space_beside(under_way.and(PendingWrites { bytes, rows: ROWS_OF_ONE }), effect)
    }

    fn has_space_beside(&self, under_way: PendingWrites, effect: Effect) -> bool {
        let Some(disk_space) = &self.space_state.disk_space else { return true };
        let left_bytes = match effect {
            Effect::Grows => self.space_state.low_bytes,
            Effect::Shrinks => self.space_state.least_bytes.saturating_add(disk_space.lacking_bytes),
        };
        disk_space.holds(under_way, self.needed_bytes(), left_bytes) && disk_space.feeds_log(under_way)
    }

    /// Whether a client's write may be begun here.
    pub(in crate::mesh) fn may_begin(&mut self, t: &mut Turn<'_>, write: &Write) -> bool {
        let bytes = match &write.op {
            Op::Delete => TOMBSTONE_BYTES,
            Op::Add(_) | Op::Assign(_) => size_of::<i128>(),
            Op::Bounded(_) => size_of::<BoundedOp>(),
            op => op.value_bytes(),
        };
        let bytes = bytes + write.key.bytes().len();
        if self.has_space_for(bytes as u64, Effect::Grows) {
            return true;
        }
        let here = self.live_bytes(t, &write.key);
        match &write.op {
            Op::Delete if here > 0 => self.admit(t, bytes, Effect::Shrinks),
            // The rest of the value is written again.
            Op::Remove(_) if here > 0 => self.admit(t, here, Effect::Shrinks),
            // The trace of a delete is more than nothing.
            _ => self.admit(t, bytes, Effect::Grows),
        }
    }

    /// Whether a record of another node may be stored under a key.
    pub(in crate::mesh) fn may_take(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        record: &Record,
        bytes: usize,
    ) -> bool {
        if self.has_space_for(bytes as u64, Effect::Grows) {
            return true;
        }
        let here = self.live_bytes(t, key);
        let merges = !record.kind.is_last_write_wins() && bytes <= here;
        let shrinks = here > 0 && (record.is_tombstone() || merges);
        self.admit(t, bytes, if shrinks { Effect::Shrinks } else { Effect::Grows })
    }

    /// Whether a hint of so many bytes may be kept for another node.
    pub(in crate::mesh) fn may_keep(&mut self, t: &mut Turn<'_>, bytes: usize) -> bool {
        self.admit(t, bytes, Effect::Grows)
    }

    /// The bytes of the record under a key, if it is not deleted; zero if there is none.
    fn live_bytes(&self, t: &Turn<'_>, key: &Key) -> usize {
        let local = self.load(t, key);
        let is_live = local.record.is_some_and(|record| !record.is_tombstone());
        local.bytes.filter(|_| is_live).map_or(0, |row| row.len())
    }

    fn admit(&mut self, t: &mut Turn<'_>, bytes: usize, effect: Effect) -> bool {
        let ignored = match effect {
            Effect::Grows => Mutant::FullMeshDiskIgnored,
            Effect::Shrinks => Mutant::DeletesUnbounded,
        };
        if planted(ignored) || self.has_space_for(bytes as u64, effect) {
            return true;
        }
        if self.has_space_beside(PendingWrites { bytes: bytes as u64, rows: ROWS_OF_ONE }, effect) {
            // Only what waits for the store is in the way: it is a matter of a moment.
            self.storage.flush_due = true;
        } else if !std::mem::replace(&mut self.space_state.full, true) {
            t.out.events.push(MeshEvent::NoSpace);
        }
        self.storage.flush_due |= self.is_settling();
        false
    }
}
