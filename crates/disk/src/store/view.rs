//! A pinned snapshot of the store, as `base::View` for pure crates. Tables are opened when they are first asked for.
//! A store that cannot be read stops the process: pure crates get no error.

use super::definition;
use base::{ReadView, Table};
use bytes::Bytes;
use redb::{
    AccessGuard, Database, Range, ReadOnlyTable, ReadTransaction, ReadableTableMetadata, StorageError,
};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

type Opened = ReadOnlyTable<&'static [u8], &'static [u8]>;
type RowResult<'r> = Result<(AccessGuard<'r, &'static [u8]>, AccessGuard<'r, &'static [u8]>), StorageError>;

pub struct StoreView {
    tables: [OnceLock<Opened>; Table::NUMBERS],
    txn: ReadTransaction,
    name: String,
    /// The engine shuts its file when it is dropped; a view must be able to outlive the store it came from.
    _db: Arc<Database>,
}

impl StoreView {
    pub(super) fn new(db: Arc<Database>, txn: ReadTransaction, name: &str) -> StoreView {
        StoreView { tables: Default::default(), txn, name: name.to_string(), _db: db }
    }

    pub(super) fn used_bytes(&self) -> Result<u64, redb::Error> {
        let mut used = 0;
        for table in Table::ALL {
            let stats = self.table(table).stats()?;
            used += stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
        }
        Ok(used)
    }

    fn table(&self, table: Table) -> &Opened {
        self.tables[table as usize]
            .get_or_init(|| self.read_or_panic(self.txn.open_table(definition(table)).map_err(Into::into)))
    }

    /// Visits the rows of a range from the last one down until the visitor answers `false`.
    pub fn scan_down(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        if let Some(rows) = self.range(table, from, to) {
            self.visit(rows.rev(), visit);
        }
    }

    /// None for bounds that exclude everything.
    fn range(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Option<Range<'_, &'static [u8], &'static [u8]>> {
        let range = || self.read_or_panic(self.table(table).range::<&[u8]>((from, to)).map_err(Into::into));
        (!is_empty(from, to)).then(range)
    }

    fn visit<'r>(
        &self,
        rows: impl Iterator<Item = RowResult<'r>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        for row in rows {
            let (key, value) = self.read_or_panic(row.map_err(Into::into));
            if !visit(key.value(), value.value()) {
                return;
            }
        }
    }

    fn read_or_panic<T>(&self, result: Result<T, redb::Error>) -> T {
        result.unwrap_or_else(|error| {
            panic!("store {} cannot be read, and nothing can be answered without it: {error}", self.name)
        })
    }
}

impl ReadView for StoreView {
    fn get(&self, table: Table, key: &[u8]) -> Option<Bytes> {
        let found = self.read_or_panic(self.table(table).get(key).map_err(Into::into));
        found.map(|value| Bytes::copy_from_slice(value.value()))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        if let Some(rows) = self.range(table, from, to) {
            self.visit(rows, visit);
        }
    }
}

/// Bounds that exclude everything; some engines refuse them instead of finding nothing.
fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}
