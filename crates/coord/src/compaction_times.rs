//! When revisions were compacted, by the clock of this member: a few marks, each of which says that everything up to a
//! revision was compacted by that time. Each member notes its own, so they are no part of what members must agree on.
//! Bounded in number: the oldest go, and what they told is then told by the next. One row of Meta; in docs/formats/rows.md.

use crate::clock::TimeMark;
use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::{put_signed, put_varint};
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use std::collections::VecDeque;

const KEY: &[u8] = b"compacted-at";
const MARKS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct CompactionTimes {
    /// By rising revisions and times.
    marks: VecDeque<TimeMark>,
    changed: bool,
}

impl CompactionTimes {
    /// Everything up to this revision is compacted now. Times never go back.
    pub fn note(&mut self, revision: Revision, millis: i64) {
        let last = self.marks.back().copied();
        if revision <= last.map_or(Revision::ZERO, |last| last.revision) {
            return;
        }
        let millis = last.map_or(millis, |last| last.millis.max(millis));
        self.marks.push_back(TimeMark { revision, millis });
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
        self.changed = true;
    }

    /// By when this revision was compacted; none if it is not noted yet.
    pub fn of(&self, revision: Revision) -> Option<i64> {
        let at = self.marks.partition_point(|mark| mark.revision < revision);
        self.marks.get(at).map(|mark| mark.millis)
    }

    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        if std::mem::take(&mut self.changed) {
            let mut row = vec![FORMAT];
            put_varint(&mut row, self.marks.len() as u64);
            for mark in &self.marks {
                put_signed(&mut row, mark.revision.0);
                put_signed(&mut row, mark.millis);
            }
            emit(Table::Meta, KEY, Some(&row));
        }
    }

    pub fn load(view: &dyn ReadView) -> Result<CompactionTimes, CorruptRow> {
        let Some(row) = view.get(Table::Meta, KEY) else { return Ok(CompactionTimes::default()) };
        let marks = decode(row).ok_or(CorruptRow::malformed(Table::Meta, KEY))?;
        Ok(CompactionTimes { marks, changed: false })
    }
}

fn decode(row: Bytes) -> Option<VecDeque<TimeMark>> {
    let mut reader = formatted(row)?;
    let count = reader.count()?;
    if count > MARKS_MAX {
        return None;
    }
    let mut marks: VecDeque<TimeMark> = VecDeque::new();
    for _ in 0..count {
        let mark = TimeMark { revision: Revision(reader.signed()?), millis: reader.signed()? };
        let rises =
            marks.back().is_none_or(|last| last.revision < mark.revision && last.millis <= mark.millis);
        if !rises {
            return None;
        }
        marks.push_back(mark);
    }
    reader.is_empty().then_some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_told_by_the_next() {
        let mut times = CompactionTimes::default();
        for nth in 1..=300 {
            times.note(Revision(nth * 10), nth * 1_000);
        }
        times.note(Revision(7), 0);
        times.note(Revision(3_010), 5);
        assert_eq!(times.marks.len(), MARKS_MAX);
        assert_eq!(times.of(Revision(1)), Some(46_000), "the oldest that is left");
        assert_eq!(times.of(Revision(2_991)), Some(300_000));
        assert_eq!(times.of(Revision(3_010)), Some(300_000), "times do not go back");
        assert_eq!(times.of(Revision(3_011)), None);
        let mut rows = Vec::new();
        times.take_rows(&mut |_, _, row| rows.push(Bytes::copy_from_slice(row.unwrap())));
        times.take_rows(&mut |_, _, _| panic!("nothing has changed"));
        assert_eq!(decode(rows[0].clone()), Some(times.marks));
        assert!((0..rows[0].len()).all(|cut| decode(rows[0].slice(..cut)).is_none()));
    }
}
