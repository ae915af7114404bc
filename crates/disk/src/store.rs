//! The store: the ordered tables of `base::Table` in one redb file on a `Disk`.
//! Rows go in by one atomic, durable transaction; pinned snapshots of all tables come out.
//! After a crash the file holds the state before or after a transaction, never one between. After a failed
//! write the engine refuses further work, and the server stops the process. See docs/formats/store.md.

mod backend;
pub mod chunk;
mod rewrite;
pub mod staging;
mod tables;
#[cfg(test)]
mod tests;
mod view;

pub use rewrite::ReplacedFile;
pub use view::StoreView;

use crate::disk::Disk;
use crate::error::Error;
use crate::guard;
use backend::Backend;
use base::{Row, Table};
use redb::{Builder, Database, ReadableDatabase, TableDefinition, TableError, WriteTransaction};
use rewrite::Rewrite;
use std::sync::Arc;
use tables::OpenTables;

/// Raised with every change to the tables that an older release could not read.
pub const VERSION: u64 = 2;

const FORMAT: TableDefinition<'static, &str, u64> = TableDefinition::new("format");
const FORMAT_VERSION: &str = "version";

/// Under this ending a store is built until it is whole.
const FRESH_SUFFIX: &str = ".fresh";

pub struct Store {
    db: Arc<Database>,
    disk: Arc<dyn Disk>,
    name: String,
    cache_bytes: usize,
    /// A second handle, for the length of the file.
    file: Box<dyn crate::disk::File>,
    rewrite: Option<Rewrite>,
}

/// One row to be written (`Some`) or removed (`None`), borrowed from its owner.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    pub table: Table,
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// Takes one row: table, key, and the value or its absence.
pub type PutRow<'a> = dyn FnMut(Table, &[u8], Option<&[u8]>) + 'a;

impl<'a> From<&'a Row> for RowRef<'a> {
    fn from(row: &'a Row) -> RowRef<'a> {
        RowRef { table: row.table, key: &row.key, value: row.value.as_deref() }
    }
}

impl Store {
    /// Opens the store of that name, or creates an empty one: built under another name and renamed when it
    /// is whole, so a crash cannot leave half a store behind.
    pub fn open(disk: Arc<dyn Disk>, name: &str, cache_bytes: usize) -> Result<Store, Error> {
        if disk.exists(name).map_err(Error::io("look for", name))? {
            rewrite::discard_left_over(&*disk, name)?;
            return guard::catch_damage(name, || {
                let store = Store::attach(&disk, name, cache_bytes)?;
                store.check_format()?;
                store.add_missing_tables()?;
                Ok(store)
            })
            .map_err(Error::or_unreadable);
        }
        let fresh = format!("{name}{FRESH_SUFFIX}");
        let store = Store::build_empty(&disk, &fresh, cache_bytes)?;
        disk.rename(&fresh, name).map_err(Error::io("rename the new store to", name))?;
        disk.sync_dir().map_err(Error::io("sync the directory of", name))?;
        Ok(Store { name: name.to_string(), ..store })
    }

    /// A store without rows; what was left under the name is thrown away.
    fn build_empty(disk: &Arc<dyn Disk>, name: &str, cache_bytes: usize) -> Result<Store, Error> {
        let store = Store::build(disk, name, cache_bytes)?;
        let txn = store.begin()?;
        prepare(&txn).map_err(Error::store(name))?;
        txn.commit().map_err(Error::store(name))?;
        Ok(store)
    }

    /// An engine on an empty file; what was left under the name is thrown away.
    fn build(disk: &Arc<dyn Disk>, name: &str, cache_bytes: usize) -> Result<Store, Error> {
        staging::discard(&**disk, name)?;
        disk.create(name).map_err(Error::io("create", name))?;
        Store::attach(disk, name, cache_bytes)
    }

    fn attach(disk: &Arc<dyn Disk>, name: &str, cache_bytes: usize) -> Result<Store, Error> {
        let open = || disk.open(name).map_err(Error::io("open", name));
        let db = Builder::new()
            .set_cache_size(cache_bytes)
            .create_with_backend(Backend::open(open()?).map_err(Error::io("read", name))?)
            .map_err(Error::store(name))?;
        Ok(Store {
            db: Arc::new(db),
            disk: disk.clone(),
            name: name.to_string(),
            cache_bytes,
            file: open()?,
            rewrite: None,
        })
    }

    /// Writes all rows in one transaction that is durable when this returns. Rows in key order are fastest.
    pub fn write_rows<'a>(&self, rows: &mut dyn Iterator<Item = RowRef<'a>>) -> Result<(), Error> {
        self.write_with(&mut |put| rows.for_each(|row| put(row.table, row.key, row.value)))
    }

    /// The same for rows that their owner hands over one by one.
    pub fn write_with(&self, fill: &mut dyn FnMut(&mut PutRow<'_>)) -> Result<(), Error> {
        match &self.rewrite {
            None => self.write_alone(fill),
            Some(rewrite) => rewrite.write_both(self, fill),
        }
    }

    fn write_alone(&self, fill: &mut dyn FnMut(&mut PutRow<'_>)) -> Result<(), Error> {
        let txn = self.begin()?;
        fill_tables(&txn, fill).map_err(Error::store(&self.name))?;
        txn.commit().map_err(Error::store(&self.name))
    }

    /// A snapshot of all tables; later writes do not change it, and it keeps their old pages alive.
    pub fn view(&self) -> Result<StoreView, Error> {
        let txn = self.db.begin_read().map_err(Error::store(&self.name))?;
        Ok(StoreView::new(self.db.clone(), txn, &self.name))
    }

    /// Bytes of pages that hold rows now; the rest of the file is free or kept for views. Walks all pages: for
    /// maintenance, not for a metric that is read every second.
    pub fn used_bytes(&self) -> Result<u64, Error> {
        self.view()?.used_bytes().map_err(Error::store(&self.name))
    }

    /// The length of the file; space that was freed inside it is used again.
    pub fn file_bytes(&self) -> Result<u64, Error> {
        self.file.len().map_err(Error::io("measure", &self.name))
    }

    /// The bytes of the disk that the file takes.
    pub fn taken_bytes(&self) -> Result<u64, Error> {
        self.file.taken_bytes().map_err(Error::io("measure", &self.name))
    }

    /// The free bytes of the disk.
    pub fn free_bytes(&self) -> Result<u64, Error> {
        self.disk.free_bytes().map_err(Error::io("measure the disk of", &self.name))
    }

    /// Reads every page that the file refers to, and compares it with its checksum. Only while there is no view.
    pub fn check_pages(&mut self) -> Result<(), Error> {
        let db = Arc::get_mut(&mut self.db).expect("there is no view of a store that is being checked");
        let name = &self.name;
        let checked = guard::catch_damage(name, || db.check_integrity().map_err(Error::store(name)));
        if checked.map_err(Error::or_unreadable)? { Ok(()) } else { Err(Error::Pages { file: name.clone() }) }
    }

    fn begin(&self) -> Result<WriteTransaction, Error> {
        let mut txn = self.db.begin_write().map_err(Error::store(&self.name))?;
        // Saves the allocator's state with each commit: after a crash the file opens without being walked.
        txn.set_quick_repair(true);
        Ok(txn)
    }

    /// A store that an earlier release made has fewer tables.
    fn add_missing_tables(&self) -> Result<(), Error> {
        let view = self.db.begin_read().map_err(Error::store(&self.name))?;
        let is_missing =
            |table| matches!(view.open_table(definition(table)), Err(TableError::TableDoesNotExist(_)));
        if Table::ALL.into_iter().any(is_missing) {
            let txn = self.begin()?;
            prepare(&txn).map_err(Error::store(&self.name))?;
            txn.commit().map_err(Error::store(&self.name))?;
        }
        Ok(())
    }

    fn check_format(&self) -> Result<(), Error> {
        let txn = self.db.begin_read().map_err(Error::store(&self.name))?;
        let table = txn.open_table(FORMAT).map_err(Error::store(&self.name))?;
        let found = table.get(FORMAT_VERSION).map_err(Error::store(&self.name))?;
        match found.map_or(0, |version| version.value()) {
            VERSION => Ok(()),
            found => Err(Error::Version { file: self.name.clone(), found, known: VERSION }),
        }
    }
}

/// Makes all tables, so that no reader meets a missing one.
fn prepare(txn: &WriteTransaction) -> Result<(), redb::Error> {
    for table in Table::ALL {
        txn.open_table(definition(table))?;
    }
    txn.open_table(FORMAT)?.insert(FORMAT_VERSION, VERSION)?;
    Ok(())
}

fn put_rows<'a>(
    txn: &WriteTransaction,
    rows: &mut dyn Iterator<Item = RowRef<'a>>,
) -> Result<(), redb::Error> {
    let mut tables = OpenTables::default();
    for row in rows {
        tables.put(txn, row)?;
    }
    tables.finish()
}

fn fill_tables(txn: &WriteTransaction, fill: &mut dyn FnMut(&mut PutRow<'_>)) -> Result<(), redb::Error> {
    let mut tables = OpenTables::default();
    let mut result = Ok(());
    fill(&mut |table, key, value| {
        if result.is_ok() {
            result = tables.put(txn, RowRef { table, key, value });
        }
    });
    result.and_then(|()| tables.finish())
}

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(match table {
        Table::Meta => "0-meta",
        Table::Versions => "1-versions",
        Table::Log => "2-log",
        Table::Index => "3-index",
        Table::Origins => "4-origins",
        Table::Leases => "5-leases",
        Table::Sessions => "6-sessions",
        Table::Claims => "7-claims",
        Table::Fences => "8-fences",
        Table::Mesh => "9-mesh",
        Table::Clock => "10-clock",
        Table::History => "11-history",
        Table::Auth => "12-auth",
    })
}
