//! Restores the raft state from the records of the write-ahead log and the position of the store. Records come in the
//! order they were written; the store's position is the truth about what was applied, because a store is durable
//! before the log is told that a snapshot was installed.

use crate::config::Config;
use crate::entry::Entry;
use crate::machine::Doubt;
use crate::mutant::Mutant;
use crate::record::Record;
use base::mutant::planted;
use base::{Boot, Index, NodeId, Position, Term};

/// Gathers records as they are replayed.
#[derive(Debug, Default)]
pub struct LogReplay {
    base: Position,
    entries: Vec<Entry>,
    term: Term,
    vote: Option<NodeId>,
    commit: Index,
    boot: Boot,
    doubted: Doubt,
    accepted_loss: Option<NodeId>,
}

/// The state that a member starts from.
#[derive(Debug)]
pub struct RestoredState {
    pub(crate) base: Position,
    pub(crate) entries: Vec<Entry>,
    pub(crate) term: Term,
    pub(crate) vote: Option<NodeId>,
    pub(crate) commit: Index,
    /// The last start that was recorded; zero on an empty log.
    pub boot: Boot,
    /// What an earlier start doubted, and has not caught up with since.
    pub(crate) doubted: Doubt,
    /// The member whose loss an operator accepted last.
    pub accepted_loss: Option<NodeId>,
    /// What the store holds.
    pub applied: Position,
    /// The log starts over behind the store, and does not say so yet: to be recorded before anything else,
    /// or the entries that follow will leave a gap.
    pub to_record: Option<Record>,
    /// The configuration at `applied`, where the store knows one.
    pub config: Option<Config>,
}

/// The log does not reach back to the store: entries that the store lacks are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGap {
    pub store: Index,
    pub log_first: Index,
}

impl LogReplay {
    pub fn add(&mut self, record: Record) {
        match record {
            Record::Vote { term, vote, commit } => {
                self.term = term;
                self.vote = vote;
                self.commit = self.commit.max(commit);
            }
            Record::Entries(entries) => self.append(entries),
            Record::Installed(at) => {
                self.base = at;
                self.entries.clear();
            }
            Record::Boot(boot) => self.boot = boot,
            Record::Doubt(doubted) => self.doubted = doubted,
            Record::AcceptedLoss(id) => self.accepted_loss = Some(id),
        }
    }

    /// The first segments of the log may have been freed, so the first entries met need not start at 1:
    /// what lies before them is in the store, which `finish` checks.
    fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        let first = first.at.index;
        let last = self.last_index();
        if self.entries.is_empty() && first.0 > last.0 + 1 || first <= self.base.index {
            // The position before the first entry has an unknown term; `finish` makes only the store's own position,
            // whose term is known, the base of a log without entries.
            self.base = Position { term: Term::ZERO, index: Index(first.0 - 1) };
            self.entries.clear();
        } else {
            assert!(first <= last.next(), "entries from {first} leave a gap in a log that ends at {last}");
            self.entries.truncate((first.0 - self.base.index.0 - 1) as usize);
        }
        self.entries.extend(entries);
    }

    fn last_index(&self) -> Index {
        self.entries.last().map_or(self.base.index, |entry| entry.at.index)
    }

    /// Joins the log with the store that was found beside it.
    pub fn finish(mut self, store: Position) -> Result<RestoredState, LogGap> {
        if self.base.index > store.index {
            return Err(LogGap { store: store.index, log_first: self.base.index.next() });
        }
        let in_log = self.entries.get((store.index.0 - self.base.index.0).wrapping_sub(1) as usize);
        let agrees = store == self.base
            || store.index == self.base.index && self.base.term == Term::ZERO
            || in_log.is_some_and(|entry| entry.at == store);
        let to_record = (!agrees).then_some(Record::Installed(store));
        if agrees {
            self.forget_unknown_base(store);
        } else {
            // The store is ahead of the log, or of another branch of it: a snapshot was installed and the process
            // ended before the log recorded it.
            self.base = store;
            self.entries.clear();
        }
        let term = self.term.max(store.term);
        Ok(RestoredState {
            vote: self.vote.filter(|_| term == self.term),
            term,
            commit: self.commit.max(store.index).max(self.known_committed()).min(self.last_index()),
            base: self.base,
            entries: self.entries,
            boot: self.boot,
            doubted: self.doubted,
            accepted_loss: self.accepted_loss,
            applied: store,
            to_record,
            config: None,
        })
    }

    /// Up to here the log itself says that it is committed. A leader orders a change of the cluster only when it has
    /// applied the one before it; so a member that has both knows that the first is committed, and uses it before it
    /// campaigns. Its majorities then intersect those of every member with a later configuration (ADR 35).
    fn known_committed(&self) -> Index {
        let changes = self.entries.iter().rev().filter(|entry| entry.reconfigures);
        let before_the_last = changes.skip(1).find(|_| !planted(Mutant::StandsOnOldConfig));
        before_the_last.map_or(Index::ZERO, |entry| entry.at.index)
    }

    /// A base whose term is unknown cannot be matched against a leader; move it up to the first entry, or to
    /// the store's position, whose terms are known. The store covers both.
    fn forget_unknown_base(&mut self, store: Position) {
        if self.base.index == Index::ZERO || self.base.term != Term::ZERO {
            return;
        }
        if store.index == self.base.index {
            self.base = store;
        } else {
            self.base = self.entries.remove(0).at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn at(term: u64, index: u64) -> Position {
        Position { term: Term(term), index: Index(index) }
    }

    fn entries(term: u64, indexes: std::ops::RangeInclusive<u64>) -> Record {
        Record::Entries(
            indexes
                .map(|index| Entry { at: at(term, index), data: Bytes::new(), reconfigures: false })
                .collect(),
        )
    }

    fn restore(records: Vec<Record>, store: Position) -> Result<RestoredState, LogGap> {
        let mut restoring = LogReplay::default();
        records.into_iter().for_each(|record| restoring.add(record));
        restoring.finish(store)
    }

    #[test]
    fn a_later_entry_replaces_the_tail_behind_it() {
        let restored = restore(vec![entries(1, 1..=5), entries(2, 3..=3)], at(1, 2)).unwrap();
        assert_eq!(restored.entries.last().unwrap().at, at(2, 3));
        assert_eq!(restored.entries.len(), 3);
        assert_eq!(restored.commit, Index(2), "what the store applied was committed");
    }

    #[test]
    fn a_change_of_the_cluster_vouches_for_the_one_before_it() {
        let change = |index| Entry { at: at(1, index), data: Bytes::new(), reconfigures: true };
        let restored = restore(vec![entries(1, 1..=1), Record::Entries(vec![change(2)])], at(1, 1)).unwrap();
        assert_eq!(restored.commit, Index(1), "nothing is known of the last");
        let log = vec![
            Record::Entries(vec![change(1), change(2)]),
            entries(1, 3..=4),
            Record::Entries(vec![change(5)]),
        ];
        assert_eq!(restore(log, Position::ORIGIN).unwrap().commit, Index(2));
        let replaced = vec![Record::Entries(vec![change(1), change(2)]), entries(2, 2..=3)];
        assert_eq!(restore(replaced, Position::ORIGIN).unwrap().commit, Index::ZERO);
    }

    #[test]
    fn a_log_whose_head_was_freed_starts_where_terms_are_known() {
        let restored = restore(vec![entries(1, 11..=15)], at(1, 12)).unwrap();
        assert_eq!(restored.base, at(1, 11));
        assert_eq!(restored.entries.len(), 4);
        let restored = restore(vec![entries(2, 11..=15)], at(1, 10)).unwrap();
        assert_eq!(restored.base, at(1, 10));
        assert_eq!(restored.entries.len(), 5);
    }

    #[test]
    fn a_store_ahead_of_the_log_restarts_the_log_behind_it() {
        let vote = Record::Vote { term: Term(1), vote: Some(NodeId(3)), commit: Index(4) };
        let restored = restore(vec![vote, entries(1, 1..=5)], at(2, 9)).unwrap();
        assert_eq!((restored.base, restored.entries.len()), (at(2, 9), 0));
        assert_eq!((restored.term, restored.vote), (Term(2), None), "no vote was cast in the newer term");
        assert_eq!(restored.commit, Index(9));
        assert_eq!(restored.to_record, Some(Record::Installed(at(2, 9))));
    }

    #[test]
    fn a_store_on_another_branch_wins_over_the_log() {
        let restored = restore(vec![entries(1, 1..=9)], at(2, 5)).unwrap();
        assert_eq!((restored.base, restored.entries.len()), (at(2, 5), 0));
    }

    #[test]
    fn an_installed_snapshot_starts_the_log_over() {
        let records = vec![entries(1, 1..=5), Record::Installed(at(3, 20)), entries(3, 21..=22)];
        let restored = restore(records, at(3, 20)).unwrap();
        assert_eq!((restored.base, restored.entries.len()), (at(3, 20), 2));
    }

    #[test]
    fn a_log_that_does_not_reach_back_to_the_store_is_a_gap() {
        let gap = restore(vec![entries(1, 11..=15)], at(1, 5)).unwrap_err();
        assert_eq!(gap, LogGap { store: Index(5), log_first: Index(11) });
    }
}
