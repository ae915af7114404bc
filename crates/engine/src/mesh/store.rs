//! The store of the mesh: flushed to, and read through pinned views, which move forward with every flush.
//! Each flush writes down in the same transaction how far into the log it reaches, so that a start knows which
//! batches the store lacks: to apply an older one again would bring back what a newer one has replaced.

use crate::StoreOwner;
use crate::error::Error;
use crate::mutant::Mutant;
use ::mesh::{
    Flush,
    rows::{self, Rows},
};
use base::mutant::planted;
use base::{ReadView, Table};
use bytes::Bytes;
use disk::{Disk, Store, StoreView};
use std::ops::Bound;
use std::sync::Arc;

pub(super) const LIVE: &str = "store.redb";

pub struct MeshStore {
    store: Store,
    view: Arc<MeshView>,
    /// The last position of the log before this start.
    base: u64,
}

/// Everything flushed up to some flush.
pub struct MeshView(StoreView);

impl MeshStore {
    pub(super) fn open(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<MeshStore, Error> {
        let store = Store::open(disk, LIVE, cache_bytes)?;
        // Writes of an earlier process may be in the page cache alone; the log is cut by the position of the store.
        store.write_with(&mut |_| {})?;
        let view = Arc::new(MeshView(store.view()?));
        Ok(MeshStore { store, view, base: 0 })
    }

    /// How far into the log the store reaches.
    pub(super) fn flushed(&self) -> Result<u64, Error> {
        flushed(&self.view)
    }

    pub(super) fn count_from(&mut self, base: u64) {
        self.base = base;
    }

    pub fn view(&self) -> Arc<MeshView> {
        self.view.clone()
    }

    /// Writes a flush as one durable transaction and moves the view to it.
    pub fn flush(&mut self, flush: &Flush) -> Result<(), Error> {
        let overstated = u64::from(planted(Mutant::FlushOverstated));
        let upto = (self.base + flush.upto.0 + overstated).to_le_bytes();
        self.store.write_with(&mut |put| {
            put(Table::Mesh, rows::FLUSHED, Some(&upto));
            for (key, value) in flush.rows() {
                put(Table::Mesh, key, value.map(Bytes::as_ref));
            }
        })?;
        self.view = Arc::new(MeshView(self.store.view()?));
        Ok(())
    }
}

impl StoreOwner for MeshStore {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    fn renew_view(&mut self) -> Result<(), Error> {
        self.view = Arc::new(MeshView(self.store.view()?));
        Ok(())
    }
}

pub(super) fn flushed(view: &MeshView) -> Result<u64, Error> {
    let Some(row) = view.get(rows::FLUSHED) else { return Ok(0) };
    row.as_ref().try_into().map(u64::from_le_bytes).map_err(|_| Error::MeshRow { row: rows::FLUSHED.into() })
}

impl MeshView {
    pub(super) fn of(view: StoreView) -> MeshView {
        MeshView(view)
    }
}

impl Rows for MeshView {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(Table::Mesh, key)
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        self.0.scan(Table::Mesh, from, to, &mut |key, value| visit(key, &Bytes::copy_from_slice(value)));
    }

    fn scan_down(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        self.0.scan_down(Table::Mesh, from, to, &mut |key, value| visit(key, &Bytes::copy_from_slice(value)));
    }
}
