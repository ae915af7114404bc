//! Rewrites a store into a new file that has no free space inside, in pieces, while the store is written and read.
//! Rows are copied in the order of tables and keys. A write to the store also goes to the new file where the copy has
//! already passed; what lies ahead is copied later, as it is then. So both hold the same rows when the copy is through.
//! The new file takes the name of the store once it is durable: a crash leaves the old file or the new one. Views of the old
//! one stay readable until they are dropped, and only then is its space given back, in pieces as well.

#[cfg(test)]
mod tests;

use super::staging;
use super::{PutRow, Store, StoreView, fill_tables};
use crate::disk::{Disk, File};
use crate::error::Error;
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{ReadView, Table};
use redb::Database;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// Under this ending a store is rewritten until the new file is whole.
const REWRITE_SUFFIX: &str = ".rewrite";
/// The new file is only written while it is filled.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

pub(super) struct Rewrite {
    copy: Box<Store>,
    copied: CopiedRows,
}

/// How far the copy is: all tables before one, and the rows of that one up to and with a key.
#[derive(Clone, Default)]
struct CopiedRows {
    table_idx: usize,
    last: Option<Vec<u8>>,
}

/// The file of a store that was rewritten. It has no name any more.
pub struct ReplacedFile {
    /// Views hold it as well.
    db: Option<Arc<Database>>,
    file: Box<dyn File>,
    name: String,
}

impl Store {
    /// Begins a rewrite; one that is under way is given up.
    pub fn begin_rewrite(&mut self) -> Result<(), Error> {
        self.abandon_rewrite()?;
        let copy = Box::new(Store::build_empty(&self.disk, &rewrite_name(&self.name), CACHE_BYTES)?);
        self.rewrite = Some(Rewrite { copy, copied: CopiedRows::default() });
        Ok(())
    }

    /// Gives up the rewrite that is under way, if there is one.
    pub fn abandon_rewrite(&mut self) -> Result<(), Error> {
        let Some(Rewrite { copy, .. }) = self.rewrite.take() else { return Ok(()) };
        drop(copy);
        staging::discard(&*self.disk, &rewrite_name(&self.name))
    }

    /// Copies rows of about so many bytes; true when all are copied.
    pub fn rewrite_piece(&mut self, bytes: usize) -> Result<bool, Error> {
        let view = self.view()?;
        let rewrite = self.rewrite.as_mut().expect("a rewrite was begun");
        rewrite.copy_piece(&view, bytes)?;
        Ok(rewrite.copied.is_all())
    }

    /// Puts the new file, which holds all rows, in the place of the old one. Views from now on are of the new one.
    pub fn finish_rewrite(&mut self) -> Result<ReplacedFile, Error> {
        let Rewrite { copy, copied } = self.rewrite.take().expect("a rewrite was begun");
        assert!(copied.is_all(), "the new file holds all rows");
        // Durable as any commit of a live store, before the engine cuts off what is free at the end and closes the file.
        copy.write_with(&mut |_| {})?;
        drop(copy);
        let (disk, name) = (self.disk.clone(), rewrite_name(&self.name));
        disk.rename(&name, &self.name).map_err(Error::io("rename the rewritten store to", &self.name))?;
        disk.sync_dir().map_err(Error::io("sync the directory of", &self.name))?;
        let new = Store::open(disk, &self.name, self.cache_bytes)?;
        let Store { db, name, file, .. } = std::mem::replace(self, new);
        Ok(ReplacedFile { db: Some(db), file, name })
    }

    /// Commits of a file that is thrown away after a crash cost one sync each.
    fn fill_quickly(&self, fill: &mut dyn FnMut(&mut PutRow<'_>)) -> Result<(), Error> {
        let txn = self.db.begin_write().map_err(Error::store(&self.name))?;
        fill_tables(&txn, fill).map_err(Error::store(&self.name))?;
        txn.commit().map_err(Error::store(&self.name))
    }
}

/// What an interrupted rewrite left is thrown away at the next start.
pub(super) fn discard_left_over(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    staging::discard(disk, &rewrite_name(name))
}

fn rewrite_name(name: &str) -> String {
    format!("{name}{REWRITE_SUFFIX}")
}

impl Rewrite {
    /// Writes to the store; of the rows those that the copy has passed go to the new file as well.
    pub fn write_both(&self, store: &Store, fill: &mut dyn FnMut(&mut PutRow<'_>)) -> Result<(), Error> {
        let mut written = Ok(());
        self.copy.fill_quickly(&mut |copy| {
            written = store.write_alone(&mut |put| {
                fill(&mut |table, key, value| {
                    put(table, key, value);
                    if self.copied.has(table, key) && !planted(Mutant::RewriteMissesWrites) {
                        copy(table, key, value);
                    }
                });
            });
        })?;
        written
    }

    fn copy_piece(&mut self, view: &StoreView, bytes: usize) -> Result<(), Error> {
        let mut copied = self.copied.clone();
        let mut left_bytes = bytes;
        self.copy.fill_quickly(&mut |put| {
            while left_bytes > 0 && !copied.is_all() {
                copied = copied.after(view, &mut left_bytes, put);
            }
        })?;
        self.copied = copied;
        Ok(())
    }
}

impl CopiedRows {
    fn is_all(&self) -> bool {
        self.table_idx == Table::ALL.len()
    }

    fn has(&self, table: Table, key: &[u8]) -> bool {
        let last = self.last.as_deref();
        match Table::ALL.get(self.table_idx).map(|at| table.cmp(at)) {
            None | Some(Ordering::Less) => true,
            Some(Ordering::Equal) => last.is_some_and(|last| key <= last),
            Some(Ordering::Greater) => false,
        }
    }

    /// Copies rows of the table that is under way, until it ends or the bytes are used up.
    fn after(&self, view: &StoreView, left_bytes: &mut usize, put: &mut PutRow<'_>) -> CopiedRows {
        let table = Table::ALL[self.table_idx];
        let from = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        view.scan(table, from, Bound::Unbounded, &mut |key, value| {
            put(table, key, Some(value));
            *left_bytes = left_bytes.saturating_sub(key.len() + value.len());
            if *left_bytes == 0 {
                last = Some(key.to_vec());
            }
            last.is_none()
        });
        CopiedRows { table_idx: self.table_idx + usize::from(last.is_none()), last }
    }
}

impl ReplacedFile {
    /// Gives back up to so many bytes; true when nothing is left. Nothing is given back while a view reads the file.
    pub fn release(&mut self, bytes: u64) -> Result<bool, Error> {
        if let Some(db) = self.db.take() {
            match Arc::try_unwrap(db) {
                Ok(db) => drop(db),
                Err(db) => {
                    self.db = Some(db);
                    return Ok(false);
                }
            }
        }
        let left = self.file.len().map_err(Error::io("measure", &self.name))?.saturating_sub(bytes);
        self.file.set_len(left).map_err(Error::io("cut", &self.name))?;
        Ok(left == 0)
    }
}
