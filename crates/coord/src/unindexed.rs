//! Keys that changed since the rows of the index were last written. A row of the index lies wherever its key sorts,
//! so writing one for each change costs the store more than the change itself. They are written rarely and many at
//! once instead; until then the log says the same, and a start reads it from there. The writer of the store keeps
//! this, notes every change it writes, and writes the index rows when they are due, or when a compaction is about to
//! remove lines of the log.

use crate::change::{Change, ChangeKind};
use crate::entry::Current;
use crate::mutant::Mutant;
use crate::rows::{CorruptRow, Emit, FORMAT, LoggedChange, formatted, index_value, log_key, parse_log_key};
use base::codec::put_signed;
use base::mutant::planted;
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// The row in `Table::Meta` that says which revision the index shows; without it, none.
pub(crate) const INDEXED_KEY: &[u8] = b"indexed";

#[derive(Debug, Default)]
pub struct Unindexed {
    /// What the index shall say: the current version of a live key, nothing for one that ended. Keys are copied:
    /// they would keep whole entries of the log in memory.
    keys: BTreeMap<Box<[u8]>, Option<Current>>,
    changes: usize,
    /// The last one noted.
    revision: Revision,
}

impl Unindexed {
    /// What the log of a store says beyond its index.
    pub fn load(view: &dyn ReadView) -> Result<Unindexed, CorruptRow> {
        let mut unindexed = Unindexed { revision: indexed(view)?, ..Unindexed::default() };
        let mut start = Vec::new();
        log_key(unindexed.revision.next(), 0, &mut start);
        let mut outcome = Ok(());
        view.scan(Table::Log, Included(&start), Unbounded, &mut |key, value| {
            let logged = LoggedChange::from_row(Bytes::copy_from_slice(value));
            match parse_log_key(key).zip(logged) {
                Some(((revision, _), logged)) => {
                    unindexed.set(&logged.key, revision, logged.current(revision));
                }
                None => outcome = Err(CorruptRow::malformed(Table::Log, key)),
            }
            outcome.is_ok()
        });
        outcome.map(|()| unindexed)
    }

    pub fn note(&mut self, change: &Change) {
        let current = match &change.kind {
            ChangeKind::Put(record) => Some(Current {
                create: record.create,
                modified: change.revision,
                version: record.version,
                lease: record.lease,
                value_len: record.value.len() as u32,
            }),
            ChangeKind::Delete => None,
        };
        self.set(&change.key, change.revision, current);
    }

    fn set(&mut self, key: &[u8], revision: Revision, current: Option<Current>) {
        match self.keys.get_mut(key) {
            Some(known) => *known = current,
            None => drop(self.keys.insert(key.into(), current)),
        }
        self.changes += 1;
        self.revision = revision;
    }

    /// Changes noted since the rows were last written.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// Different keys among them.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Every key with what the index shall say of it, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&Current>)> {
        self.keys.iter().map(|(key, current)| (key.as_ref(), current.as_ref()))
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// The rows of the index that bring it up to the last change noted.
    pub fn write(&mut self, emit: &mut Emit<'_>) {
        let mut value = Vec::new();
        for (key, current) in std::mem::take(&mut self.keys) {
            value.clear();
            let row = current.map(|current| {
                index_value(&current, &mut value);
                value.as_slice()
            });
            if row.is_some() || !planted(Mutant::IndexKeepsEnded) {
                emit(Table::Index, &key, row);
            }
        }
        self.changes = 0;
        write_indexed(self.revision, emit);
    }
}

/// The revision that the index shows.
pub(crate) fn indexed(view: &dyn ReadView) -> Result<Revision, CorruptRow> {
    let Some(row) = view.get(Table::Meta, INDEXED_KEY) else { return Ok(Revision::ZERO) };
    let revision = formatted(row).and_then(|mut reader| {
        let revision = Revision(reader.signed()?);
        reader.is_empty().then_some(revision)
    });
    revision.filter(|revision| revision.0 >= 0).ok_or(CorruptRow::malformed(Table::Meta, INDEXED_KEY))
}

pub(crate) fn write_indexed(revision: Revision, emit: &mut Emit<'_>) {
    let mut value = vec![FORMAT];
    put_signed(&mut value, revision.0);
    emit(Table::Meta, INDEXED_KEY, Some(&value));
}
