//! Decides when applied changes are flushed to the store, and what a flush contains: the rows of changes and of the
//! state, and the removal of some of what was compacted. One flush is under way at a time. The space of removed rows
//! is reusable after the next flush, so removing ends with a flush that may be empty.

use super::{Apply, ApplyOutput, Flush};
use crate::file_usage::FileUsage;
use crate::mutant::Mutant;
use crate::overlay::Overlay;
use base::limits::SWEEP_LINES_PER_FLUSH;
use base::mutant::planted;
use base::{Index, Instant, Position, ReadView, Revision, Row, Table};
use coord::rows;

/// While something is being swept and little else is to be written, flushes come so many times as often.
const SWEEPS_PER_INTERVAL: u32 = 8;
/// That much waiting for its flush is not little: requests come first and need the disk for their log, so the sweep
/// runs only with flushes that are due anyway, and sweeps less in each. A line swept costs half as much as a put.
const SWEEPS_YIELD_BYTES: usize = 16 * 1024;
/// A sweep that is so far behind no longer yields: unswept rows take space.
const SWEEP_BEHIND_MAX: u64 = 5_000_000;
/// A flush begins with this part of what may wait. Larger ones cost no less for each change, and what waits is
/// memory; the rest absorbs changes while a disk is slow.
const FLUSHES_WAITING: usize = 2;

/// What is applied and not in the store yet, and when it was last written.
pub(super) struct Flusher {
    pub overlay: Overlay,
    file_usage: FileUsage,
    flushed: Position,
    last_flush: Instant,
    /// The number of the last flush.
    number: u64,
    /// The last revision with which a flush demanded that the index be up to date.
    indexed: Revision,
}

impl Flusher {
    pub fn new(now: Instant, applied: Position) -> Flusher {
        Flusher {
            overlay: Overlay::default(),
            file_usage: FileUsage::default(),
            flushed: applied,
            last_flush: now,
            number: 0,
            indexed: Revision::ZERO,
        }
    }

    /// The store was replaced. The number increases, so that the report of a flush of the old store is ignored.
    pub fn installed(&mut self, now: Instant, applied: Position) {
        let number = self.number + 1;
        *self = Flusher { number, ..Flusher::new(now, applied) };
    }

    /// The flush of this number is durable; false for one of a store that was replaced.
    pub fn on_flushed(&mut self, number: u64) -> bool {
        let current = number == self.number;
        if current {
            self.overlay.flushed();
            self.file_usage.flushed();
        }
        current
    }
}

impl Apply {
    pub(super) fn flush_when_due(&mut self, now: Instant, view: &dyn ReadView, out: &mut ApplyOutput) {
        if self.flusher.overlay.is_flushing() {
            return;
        }
        let worth_while = self.flusher.overlay.bytes() >= self.params.flush_bytes / FLUSHES_WAITING;
        if worth_while || self.next_flush().is_some_and(|due| due <= now) {
            out.flush = Some(self.freeze(now, Some(view)));
        }
    }

    /// When a flush is due if no more changes come.
    pub fn next_flush(&self) -> Option<Instant> {
        let removes = self.can_sweep() || self.held_bytes() > self.stored_bytes();
        let something_new = self.applied.index > self.flusher.flushed.index || removes;
        // Little at a time and often: a long sweep delays requests.
        let often = if removes && self.is_calm() { SWEEPS_PER_INTERVAL } else { 1 };
        let interval = self.params.flush_interval / often;
        (something_new && !self.flusher.overlay.is_flushing())
            .then(|| self.flusher.last_flush.after(interval))
    }

    fn is_calm(&self) -> bool {
        self.flusher.overlay.bytes() < SWEEPS_YIELD_BYTES
    }

    /// Compacted rows can be removed: no reader needs them any more.
    fn can_sweep(&self) -> bool {
        self.state.is_sweeping() && !self.holds.block(self.state.compacted())
    }

    fn sweep_lines(&self) -> usize {
        match self.state.sweep_behind() {
            behind if behind > SWEEP_BEHIND_MAX => 2 * SWEEP_LINES_PER_FLUSH,
            _ if self.is_calm() => SWEEP_LINES_PER_FLUSH,
            _ => SWEEP_LINES_PER_FLUSH / 2,
        }
    }

    /// Everything applied so far, as one write, and with a view some of what was compacted removed.
    fn freeze(&mut self, now: Instant, view: Option<&dyn ReadView>) -> Flush {
        let sweep_lines = self.sweep_lines();
        self.flusher.number += 1;
        self.flusher.last_flush = now;
        self.flusher.flushed = self.applied;
        self.flusher.file_usage.flush(self.stored_bytes());
        let mut state = Vec::new();
        let mut emit = |table, key: &[u8], value: Option<&[u8]>| {
            state.push(Row {
                table,
                key: key.to_vec().into(),
                value: value.map(|value| value.to_vec().into()),
            });
        };
        let ahead = u64::from(planted(Mutant::AppliedIndexAhead));
        let applied = Position { index: Index(self.applied.index.0 + ahead), ..self.applied };
        rows::state_rows(&self.state, applied, &mut emit);
        // The sweep removes lines of the log, and an orderly shutdown should allow a quick start.
        let index =
            view.is_none() || self.state.is_sweeping() && self.flusher.indexed < self.state.compacted();
        if index {
            self.flusher.indexed = self.state.revision();
        }
        if let Some(view) = view.filter(|_| self.can_sweep()) {
            let window = self.window();
            let swept = self.state.sweep(view, window, sweep_lines, &mut |table, key, value| {
                self.counts.versions_swept += u64::from(table == Table::Versions);
                emit(table, key, value);
            });
            swept.unwrap_or_else(|corrupt| panic!("{corrupt}"));
        }
        if let Some(view) = view {
            let window = self.window();
            let trimmed = self.state.trim_history(view, window, SWEEP_LINES_PER_FLUSH, &mut emit);
            trimmed.unwrap_or_else(|corrupt| panic!("{corrupt}"));
        }
        self.state.take_rows(&mut emit);
        let index = index && !planted(Mutant::SweptBeforeIndexed);
        self.flusher.overlay.freeze(self.flusher.number, self.applied, index, state)
    }

    /// The last flush of an orderly shutdown, if there is anything to flush.
    pub fn flush_now(&mut self, now: Instant) -> Option<Flush> {
        let due = self.applied.index > self.flusher.flushed.index && !self.flusher.overlay.is_flushing();
        due.then(|| self.freeze(now, None))
    }

    /// So much waits for the store that the caller should wait too.
    pub fn is_full(&self) -> bool {
        self.flusher.overlay.is_flushing() && self.flusher.overlay.bytes() >= 2 * self.params.flush_bytes
    }

    /// Something that was compacted is still to be removed.
    pub fn is_sweeping(&self) -> bool {
        self.state.is_sweeping()
    }

    /// What rows take of the store's file, those included whose space cannot be reused yet.
    pub fn held_bytes(&self) -> u64 {
        self.flusher.file_usage.bytes(self.stored_bytes())
    }

    /// What is still to be written to the store.
    pub fn unflushed_bytes(&self) -> usize {
        self.flusher.overlay.unflushed_bytes()
    }
}
