//! The rows that compaction leaves: for every version that it removes, and for every delete, a row without the value.
//! The sweep moves lines of the log here; they leave when they are older than the window, when there are too many, or
//! when space is wanted, a bounded piece with each flush. Each member does so at its own pace, so they are no part of
//! what members must agree on. Memory holds their number only. Rows in docs/formats/rows.md.

use crate::clock;
use crate::compaction_times::CompactionTimes;
use crate::mutant::Mutant;
use crate::rows::{
    CorruptRow, Emit, FORMAT, LoggedChange, LoggedPut, Meta, formatted, log_key, log_value, parse_log_key,
};
use crate::state::{ChangePosition, State};
use base::codec::put_varint;
use base::limits::HISTORY_ANSWER_MAX;
use base::mutant::planted;
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Bound::Unbounded;

const HISTORY_KEY: &[u8] = b"history";

/// How much of the past is kept without its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryWindow {
    pub millis: i64,
    pub rows_max: u64,
}

impl HistoryWindow {
    pub const NONE: HistoryWindow = HistoryWindow { millis: 0, rows_max: 0 };

    pub fn is_none(self) -> bool {
        self.rows_max == 0 || self.millis <= 0
    }
}

/// One change of a key, as far as it is still known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastChange {
    pub revision: Revision,
    /// `None` for a delete.
    pub put: Option<LoggedPut>,
    /// By when it had happened, in milliseconds since 1970; `None` when that is not known (yet).
    pub millis: Option<i64>,
    pub compacted: CompactionState,
}

/// Whether the value of a change can still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionState {
    Readable,
    /// By this time, if it is known yet, no revision showed it any more.
    Compacted(Option<i64>),
}

#[derive(Debug, Default)]
pub(crate) struct HistoryRows {
    count: u64,
    changed: bool,
}

impl HistoryRows {
    pub fn keep(&mut self, (revision, sub): ChangePosition, line: &LoggedChange, emit: &mut Emit<'_>) {
        if line.put.is_none() && planted(Mutant::DeleteLeavesNoTrace) {
            return;
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        log_key(revision, sub, &mut key);
        log_value(line, &mut value);
        emit(Table::History, &key, Some(&value));
        self.count += 1;
        self.changed = true;
    }

    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        if std::mem::take(&mut self.changed) {
            let mut value = vec![FORMAT];
            put_varint(&mut value, self.count);
            emit(Table::Meta, HISTORY_KEY, Some(&value));
        }
    }

    pub fn load(view: &dyn ReadView) -> Result<HistoryRows, CorruptRow> {
        let Some(row) = view.get(Table::Meta, HISTORY_KEY) else { return Ok(HistoryRows::default()) };
        let count = formatted(row).and_then(|mut reader| reader.varint().filter(|_| reader.is_empty()));
        let count = count.ok_or(CorruptRow::malformed(Table::Meta, HISTORY_KEY))?;
        Ok(HistoryRows { count, changed: false })
    }
}

impl State {
    /// Removes what lies outside the window, so many rows at most. What this flush adds is counted, and removed by a
    /// later one.
    pub fn trim_history(
        &mut self,
        view: &dyn ReadView,
        window: HistoryWindow,
        rows_max: usize,
        emit: &mut Emit<'_>,
    ) -> Result<(), CorruptRow> {
        if self.history_rows.count == 0 && self.clock.last().is_none() {
            return Ok(());
        }
        let until =
            self.clock.last().map_or(i64::MIN, |last| last.millis.saturating_sub(window.millis.max(0)));
        let marks = clock::marks_until(view, until, rows_max)?;
        let aged = marks.last().map_or(Revision::ZERO, |mark| mark.revision);
        marks.iter().for_each(|mark| emit(Table::Clock, &clock::row_key(mark.revision), None));
        let mut surplus = self.history_rows.count.saturating_sub(window.rows_max);
        let mut doomed = Vec::new();
        view.scan(Table::History, Unbounded, Unbounded, &mut |key, _| {
            let old = parse_log_key(key).is_none_or(|(revision, _)| revision <= aged);
            let goes = doomed.len() < rows_max && (old || surplus > 0);
            if goes {
                surplus = surplus.saturating_sub(1);
                doomed.push(key.to_vec());
            }
            goes
        });
        self.history_rows.changed |= !doomed.is_empty();
        self.history_rows.count = self.history_rows.count.saturating_sub(doomed.len() as u64);
        doomed.iter().for_each(|key| emit(Table::History, key, None));
        Ok(())
    }

    /// How many rows without values are kept of the past.
    pub fn history_rows(&self) -> u64 {
        self.history_rows.count
    }
}

/// The last changes of a key that the store knows of, the oldest first, and whether there were more.
pub fn history_of(
    view: &dyn ReadView,
    key: &[u8],
    limit: usize,
) -> Result<(Vec<PastChange>, bool), CorruptRow> {
    let limit = limit.min(HISTORY_ANSWER_MAX);
    let mut removed = lines_of(view, Table::History, key, limit)?;
    let mut kept = lines_of(view, Table::Log, key, limit)?;
    let mut more = removed.1 || kept.1;
    let mut all: Vec<PastChange> = removed.0.drain(..).chain(kept.0.drain(..)).collect();
    all.sort_by_key(|past| past.revision);
    let surplus = all.len().saturating_sub(limit);
    more |= surplus > 0;
    all.drain(..surplus);
    for past in &mut all {
        past.millis = clock::millis_of(view, past.revision)?;
    }
    add_compactions(view, &mut all)?;
    Ok((all, more))
}

/// A version goes with the compaction that reaches the change after it, a delete with the one that reaches itself.
fn add_compactions(view: &dyn ReadView, changes: &mut [PastChange]) -> Result<(), CorruptRow> {
    let compacted = Meta::read(view)?.map_or(Revision::ZERO, |meta| meta.compacted);
    let times = CompactionTimes::load(view)?;
    let mut next = None;
    for past in changes.iter_mut().rev() {
        let hidden_at = if past.put.is_some() { next } else { Some(past.revision) };
        if let Some(hidden_at) = hidden_at.filter(|hidden_at| *hidden_at <= compacted) {
            past.compacted = CompactionState::Compacted(times.of(hidden_at));
        }
        next = Some(past.revision);
    }
    Ok(())
}

/// Both tables are ordered by revisions, so a key is found by looking at all rows; of its own the last are kept.
fn lines_of(
    view: &dyn ReadView,
    table: Table,
    wanted: &[u8],
    limit: usize,
) -> Result<(VecDeque<PastChange>, bool), CorruptRow> {
    let mut found = VecDeque::new();
    let mut more = false;
    let mut outcome = Ok(());
    view.scan(table, Unbounded, Unbounded, &mut |key, value| {
        // The key lies at the end of the value: most rows are passed over without being taken apart.
        if !value.ends_with(wanted) {
            return true;
        }
        let parsed = parse_log_key(key).zip(LoggedChange::from_row(Bytes::copy_from_slice(value)));
        let Some(((revision, _), logged)) = parsed else {
            outcome = Err(CorruptRow::malformed(table, key));
            return false;
        };
        if logged.key == wanted {
            let compacted = CompactionState::Readable;
            found.push_back(PastChange { revision, put: logged.put, millis: None, compacted });
            if found.len() > limit {
                found.pop_front();
                more = true;
            }
        }
        true
    });
    outcome.map(|()| (found, more))
}
