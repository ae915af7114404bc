//! The rows of versions against the index: every row can be read, and every key that is there has its own.
//! A state and the view it was loaded from go in; a count, or the row that does not fit, comes out. A start does
//! not do this, because it would read every value.

use crate::rows::{CorruptRow, content_in_row, parse_version_key, read_record, version_key};
use crate::state::State;
use base::{KeyRange, RangeEnd, ReadView, Revision, Table};
use bytes::Bytes;
use std::ops::Bound::Unbounded;

impl State {
    /// How many versions there are.
    pub fn check_versions(&self, view: &dyn ReadView) -> Result<u64, CorruptRow> {
        let mut versions = 0;
        let mut outcome = Ok(());
        view.scan(Table::Versions, Unbounded, Unbounded, &mut |key, value| {
            versions += 1;
            let within = |revision: Revision| revision > Revision::ZERO && revision <= self.revision;
            let sound = parse_version_key(key).is_some_and(|(_, revision)| within(revision))
                && content_in_row(value).is_some();
            if !sound {
                outcome = Err(CorruptRow::malformed(Table::Versions, key));
            }
            sound
        });
        outcome?;
        let all = KeyRange { start: Bytes::new(), end: RangeEnd::Open };
        for (key, current) in self.index.iter(&all) {
            let record = read_record(view, key, current.modified)?;
            let fits = record.is_some_and(|record| {
                let same = (record.create, record.version, record.lease);
                same == (current.create, current.version, current.lease)
                    && record.value.len() == current.value_len as usize
            });
            if !fits {
                let mut row = Vec::new();
                version_key(key, current.modified, &mut row);
                let what = "the current version of a key is missing or another";
                return Err(CorruptRow::new(Table::Versions, &row, what));
            }
        }
        Ok(versions)
    }
}
