//! The tables of one transaction while it is being filled: rows go in one by one, and all are there after `finish`.
//! Removed rows are gathered and removed together. Where many neighbours are removed at once, as after a compaction,
//! the engine then rewrites each page once instead of once for every row.

use super::{RowRef, definition};
use base::Table;
use redb::WriteTransaction;

/// Rows whose keys begin with numbers that are no further apart are taken for neighbours: rows that are kept in the order
/// of revisions begin with theirs.
const NEIGHBOURS_APART_MAX: u64 = 64;
/// Fewer neighbours are removed one by one.
const RUN_MIN: usize = 4;

/// Tables stay open over the rows of a transaction.
#[derive(Default)]
pub(super) struct OpenTables<'txn>([Option<OpenTable<'txn>>; Table::NUMBERS]);

struct OpenTable<'txn> {
    rows: redb::Table<'txn, &'static [u8], &'static [u8]>,
    /// Keys to be removed, in the order in which they came.
    to_remove: Vec<Box<[u8]>>,
}

impl<'txn> OpenTables<'txn> {
    pub fn put(&mut self, txn: &'txn WriteTransaction, row: RowRef<'_>) -> Result<(), redb::Error> {
        let slot = &mut self.0[row.table as usize];
        let table = match slot {
            Some(table) => table,
            None => {
                let rows = txn.open_table(definition(row.table))?;
                slot.insert(OpenTable { rows, to_remove: Vec::new() })
            }
        };
        match row.value {
            Some(value) => {
                // The row may be among those to be removed; the later operation counts.
                table.remove_rows()?;
                drop(table.rows.insert(row.key, value)?);
            }
            None => table.to_remove.push(row.key.into()),
        }
        Ok(())
    }

    /// Removes the rows that are still to be removed.
    pub fn finish(mut self) -> Result<(), redb::Error> {
        self.0.iter_mut().flatten().try_for_each(OpenTable::remove_rows)
    }
}

impl OpenTable<'_> {
    fn remove_rows(&mut self) -> Result<(), redb::Error> {
        let mut to_remove = std::mem::take(&mut self.to_remove);
        to_remove.sort_unstable();
        for run in to_remove.chunk_by(|before, after| are_neighbours(before, after)) {
            match run {
                [first, .., last] if run.len() >= RUN_MIN => {
                    let mut rest = run.iter().map(AsRef::as_ref).peekable();
                    self.rows.retain_in(first.as_ref()..=last.as_ref(), |key, _| !is_next(&mut rest, key))?;
                }
                few => {
                    for key in few {
                        drop(self.rows.remove(key.as_ref())?);
                    }
                }
            }
        }
        Ok(())
    }
}

fn are_neighbours(before: &[u8], after: &[u8]) -> bool {
    let number = |key: &[u8]| key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let apart = number(before).zip(number(after)).map(|(before, after)| after - before);
    apart.is_some_and(|apart| apart <= NEIGHBOURS_APART_MAX)
}

/// Whether a key is the next of a sorted list, of which those before it are passed over: they are not there.
fn is_next<'k>(rest: &mut std::iter::Peekable<impl Iterator<Item = &'k [u8]>>, key: &[u8]) -> bool {
    while rest.next_if(|to_remove| *to_remove < key).is_some() {}
    rest.next_if(|to_remove| *to_remove == key).is_some()
}
