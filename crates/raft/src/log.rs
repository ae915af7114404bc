//! The in-memory tail of the raft log that the library reads from: everything since the last cut.
//! Entries are here before they are durable (the adapter holds back what would vouch for them), and they
//! leave only when the store has flushed their effect, so a follower can be caught up from here or, if it is
//! further behind, from a snapshot of the store.

use crate::config::Config;
use base::limits::{LOG_BYTES_MAX, LOG_HOLD_BYTES, LOG_KEEP_BYTES};
use base::{Index, Position, Term};
use raft_rs::eraftpb::{Entry, HardState, Snapshot};
use raft_rs::{Error, GetEntriesContext, RaftState, Storage, StorageError, util};
use std::collections::VecDeque;

pub(crate) struct Log {
    /// The position just before the first entry held.
    base: Position,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// What the store has flushed: a snapshot may be taken there, and the log may be cut up to there.
    flushed: Position,
    hard_state: HardState,
    config: Config,
}

impl Log {
    pub fn new(base: Position, entries: Vec<Entry>, hard_state: HardState, config: Config) -> Log {
        let bytes = entries.iter().map(|entry| entry.data.len()).sum();
        Log { base, entries: entries.into(), bytes, flushed: base, hard_state, config }
    }

    pub fn first(&self) -> u64 {
        self.base.index.0 + 1
    }

    pub fn last(&self) -> u64 {
        self.base.index.0 + self.entries.len() as u64
    }

    /// Appends entries, replacing whatever was there from the first of them on.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(
            first.index >= self.first() && first.index <= self.last() + 1,
            "appended entries must touch the log: {} not in {}..={}",
            first.index,
            self.first(),
            self.last() + 1
        );
        while self.last() >= first.index {
            let gone = self.entries.pop_back().expect("last() counts the entries");
            self.bytes -= gone.data.len();
        }
        for entry in entries {
            self.bytes += entry.data.len();
            self.entries.push_back(entry.clone());
        }
    }

    /// The configuration of this member until the store reports another.
    pub fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Starts over behind an installed snapshot.
    pub fn reset(&mut self, at: Position) {
        self.base = at;
        self.flushed = at;
        self.entries.clear();
        self.bytes = 0;
    }

    /// The store now holds everything up to `at`. Cuts the log behind it, keeping up to `keep` entries (and
    /// a bounded number of bytes) for followers that lag, and, within a wider bound, everything behind the
    /// snapshot at `held` that a follower is being sent: it would need another when it has this one. Returns
    /// the new cut if it moved.
    pub fn flush_to(&mut self, at: Position, keep: u64, held: Option<Index>) -> Option<Index> {
        if at.index > self.flushed.index {
            self.flushed = at;
        }
        let before = self.base.index;
        let is_held =
            |log: &Log| held.is_some_and(|held| log.base.index >= held) && log.bytes <= LOG_HOLD_BYTES;
        while self.base.index < self.flushed.index
            && (self.flushed.index.0 - self.base.index.0 > keep || self.bytes > LOG_KEEP_BYTES)
            && !is_held(self)
        {
            let Some(gone) = self.entries.pop_front() else { break };
            self.bytes -= gone.data.len();
            self.base = Position { term: Term(gone.term), index: Index(gone.index) };
        }
        (self.base.index > before).then_some(self.base.index)
    }

    /// Whether this member is the only voter.
    pub fn is_of_one(&self) -> bool {
        self.config.voters.len() + self.config.learners.len() == 1 && !self.config.is_joint()
    }

    /// No more can be taken in until the store has flushed and the log is cut.
    pub fn is_full(&self) -> bool {
        self.bytes >= LOG_BYTES_MAX
    }

    pub fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.index.0 {
            return Some(self.base.term.0);
        }
        if index < self.first() {
            return None;
        }
        self.entries.get((index - self.first()) as usize).map(|entry| entry.term)
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft_rs::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.config.to_library()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft_rs::Result<Vec<Entry>> {
        if low < self.first() {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "entries {low}..{high} lie beyond the last, {}", self.last());
        let from = (low - self.first()) as usize;
        let to = (high - self.first()) as usize;
        let mut entries: Vec<Entry> = self.entries.range(from..to).cloned().collect();
        util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft_rs::Result<u64> {
        match self.term_at(index) {
            Some(term) => Ok(term),
            None if index < self.first() => Err(Error::Store(StorageError::Compacted)),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft_rs::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft_rs::Result<u64> {
        Ok(self.last())
    }

    /// A snapshot is only announced here; its rows are streamed by the shell from the store, which by then
    /// may be further along; its configuration goes with them.
    fn snapshot(&self, request_index: u64, _to: u64) -> raft_rs::Result<Snapshot> {
        if self.flushed.index.0 == 0 || self.flushed.index.0 < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let meta = snapshot.mut_metadata();
        meta.index = self.flushed.index.0;
        meta.term = self.flushed.term.0;
        *meta.mut_conf_state() = self.config.to_library();
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, data: Bytes::from_static(b"data"), ..Entry::default() }
    }

    fn log_of(last: u64) -> Log {
        let entries = (1..=last).map(|index| entry(index, 1)).collect();
        Log::new(Position::ORIGIN, entries, HardState::default(), Config::default())
    }

    #[test]
    fn appending_replaces_a_conflicting_tail() {
        let mut log = log_of(5);
        log.append(&[entry(3, 2), entry(4, 2)]);
        assert_eq!(log.last(), 4);
        assert_eq!(log.term_at(2), Some(1));
        assert_eq!(log.term_at(3), Some(2));
        assert_eq!(log.bytes, 16);
    }

    #[test]
    fn the_cut_keeps_what_lagging_followers_may_need_and_never_passes_the_flushed_state() {
        let mut log = log_of(10);
        let at = Position { term: Term(1), index: Index(6) };
        assert_eq!(log.flush_to(at, 4, None), Some(Index(2)));
        assert_eq!((log.first(), log.last()), (3, 10));
        assert_eq!(log.term_at(2), Some(1), "the term before the first entry is kept for matching");
        assert_eq!(log.flush_to(at, 0, None), Some(Index(6)));
        assert_eq!(log.flush_to(at, 0, None), None, "the entries after the flushed state stay");
        assert_eq!(log.first(), 7);
    }

    #[test]
    fn what_follows_a_snapshot_on_its_way_is_held() {
        let mut log = log_of(10);
        let at = |index| Position { term: Term(1), index: Index(index) };
        assert_eq!(log.flush_to(at(9), 0, Some(Index(4))), Some(Index(4)));
        assert_eq!(log.flush_to(at(9), 0, Some(Index(4))), None);
        assert_eq!(log.flush_to(at(9), 0, None), Some(Index(9)), "the snapshot arrived");
    }

    #[test]
    fn a_snapshot_is_announced_at_the_flushed_position() {
        let mut log = log_of(10);
        assert!(log.snapshot(0, 2).is_err(), "nothing is flushed yet");
        log.flush_to(Position { term: Term(1), index: Index(6) }, 0, None);
        let snapshot = log.snapshot(0, 2).unwrap();
        assert_eq!((snapshot.get_metadata().index, snapshot.get_metadata().term), (6, 1));
        assert!(log.snapshot(7, 2).is_err());
    }
}
