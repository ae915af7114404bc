//! The time of revisions: marks that say which revision was the newest at which time of day. The leader proposes one
//! now and then while something changes, with the time in the command, so that all members keep the same; between two
//! marks the time is not known more precisely. Times never go back, whatever the clocks of leaders do. Marks are
//! rows, and memory holds the last one only. Rows in docs/formats/rows.md.

use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::put_signed;
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use std::ops::Bound::{Included, Unbounded};

const CLOCK_KEY: &[u8] = b"clock";

/// At this time, in milliseconds since 1970, this was the newest revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMark {
    pub revision: Revision,
    pub millis: i64,
}

#[derive(Debug, Default)]
pub(crate) struct RevisionClock {
    last: Option<TimeMark>,
    /// Not written yet.
    unwritten: Vec<TimeMark>,
}

impl RevisionClock {
    pub fn last(&self) -> Option<TimeMark> {
        self.last
    }

    /// Whether the last mark covers this revision.
    pub fn is_marked(&self, revision: Revision) -> bool {
        self.last.is_some_and(|last| last.revision >= revision)
    }

    /// The time that is marked: the one given, unless the clock has gone back.
    pub fn mark(&mut self, revision: Revision, millis: i64) -> i64 {
        let millis = self.last.map_or(millis, |last| last.millis.max(millis));
        if !self.is_marked(revision) {
            let mark = TimeMark { revision, millis };
            self.last = Some(mark);
            self.unwritten.push(mark);
        }
        millis
    }

    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        for mark in &self.unwritten {
            emit(Table::Clock, &row_key(mark.revision), Some(&encode_millis(mark.millis)));
        }
        if let Some(last) = self.unwritten.pop() {
            let mut value = vec![FORMAT];
            put_signed(&mut value, last.revision.0);
            put_signed(&mut value, last.millis);
            emit(Table::Meta, CLOCK_KEY, Some(&value));
        }
        self.unwritten.clear();
    }

    pub fn load(view: &dyn ReadView) -> Result<RevisionClock, CorruptRow> {
        let Some(row) = view.get(Table::Meta, CLOCK_KEY) else { return Ok(RevisionClock::default()) };
        let last = decode_mark(row).ok_or(CorruptRow::malformed(Table::Meta, CLOCK_KEY))?;
        Ok(RevisionClock { last: Some(last), unwritten: Vec::new() })
    }
}

/// The time by which a revision existed; `None` for the newest, and for what is too long ago.
pub(crate) fn millis_of(view: &dyn ReadView, revision: Revision) -> Result<Option<i64>, CorruptRow> {
    let mut found = Ok(None);
    view.scan(Table::Clock, Included(&row_key(revision)), Unbounded, &mut |key, value| {
        let mark = parse_row(key, value).ok_or_else(|| CorruptRow::malformed(Table::Clock, key));
        found = mark.map(|mark| Some(mark.millis));
        false
    });
    found
}

/// The newest revision of those that were there by that time, and the rows of the marks up to it, so many at most.
pub(crate) fn marks_until(
    view: &dyn ReadView,
    millis: i64,
    rows_max: usize,
) -> Result<Vec<TimeMark>, CorruptRow> {
    let mut marks = Vec::new();
    let mut outcome = Ok(());
    view.scan(Table::Clock, Unbounded, Unbounded, &mut |key, value| match parse_row(key, value) {
        Some(mark) if mark.millis <= millis && marks.len() < rows_max => {
            marks.push(mark);
            true
        }
        Some(_) => false,
        None => {
            outcome = Err(CorruptRow::malformed(Table::Clock, key));
            false
        }
    });
    outcome.map(|()| marks)
}

pub(crate) fn row_key(revision: Revision) -> [u8; 8] {
    revision.0.to_be_bytes()
}

fn encode_millis(millis: i64) -> Vec<u8> {
    let mut value = vec![FORMAT];
    put_signed(&mut value, millis);
    value
}

pub(crate) fn parse_row(key: &[u8], value: &[u8]) -> Option<TimeMark> {
    let revision = Revision(i64::from_be_bytes(key.try_into().ok()?));
    let mut reader = formatted(Bytes::copy_from_slice(value))?;
    let millis = reader.signed()?;
    reader.is_empty().then_some(TimeMark { revision, millis })
}

fn decode_mark(row: Bytes) -> Option<TimeMark> {
    let mut reader = formatted(row)?;
    let mark = TimeMark { revision: Revision(reader.signed()?), millis: reader.signed()? };
    reader.is_empty().then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_ahead_and_back_freezes_the_times_until_it_is_caught_up() {
        let mut clock = RevisionClock::default();
        let marked = [(1, 1_000), (2, 90_000), (3, 2_000), (4, 89_999), (5, 90_001)]
            .map(|(revision, millis)| clock.mark(Revision(revision), millis));
        assert_eq!(marked, [1_000, 90_000, 90_000, 90_000, 90_001]);
        assert_eq!(clock.last(), Some(TimeMark { revision: Revision(5), millis: 90_001 }));
    }
}
