//! A store that is being received: filled beside the live one, and put in its place when it is whole.
//! Rows go in by chunks, all in one transaction; `finish` makes them durable, `install` renames.
//! A crash at any point leaves the old store or the new one under the live name, never a mixture.

use super::{RowRef, Store, prepare, put_rows};
use crate::disk::Disk;
use crate::error::Error;
use base::Row;
use redb::WriteTransaction;
use std::sync::Arc;

pub struct Staging {
    // Before the store: a transaction ends before the engine that it belongs to.
    txn: WriteTransaction,
    store: Store,
}

/// A staged store that is whole and durable.
#[derive(Debug)]
pub struct Staged {
    name: String,
}

impl Staging {
    /// Begins with an empty store; what an earlier attempt left under the name is thrown away.
    pub fn begin(disk: Arc<dyn Disk>, name: &str, cache_bytes: usize) -> Result<Staging, Error> {
        let store = Store::build(&disk, name, cache_bytes)?;
        let txn = store.begin()?;
        prepare(&txn).map_err(Error::store(name))?;
        Ok(Staging { txn, store })
    }

    pub fn add(&mut self, rows: &[Row]) -> Result<(), Error> {
        put_rows(&self.txn, &mut rows.iter().map(RowRef::from)).map_err(Error::store(&self.store.name))
    }

    /// Makes it durable and closes it.
    pub fn finish(self) -> Result<Staged, Error> {
        self.txn.commit().map_err(Error::store(&self.store.name))?;
        Ok(Staged { name: self.store.name })
    }
}

/// Puts the staged store in the place of the live one, durably. Views of the old one stay readable until they are
/// dropped; a `Store` opened before still refers to the old file, so open it again.
pub fn install(disk: &dyn Disk, staged: Staged, live: &str) -> Result<(), Error> {
    disk.rename(&staged.name, live).map_err(Error::io("rename the received store to", live))?;
    disk.sync_dir().map_err(Error::io("sync the directory of", live))
}

/// Removes what an interrupted attempt left; to be called at start.
pub fn discard(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    if disk.exists(name).map_err(Error::io("look for", name))? {
        disk.remove(name).map_err(Error::io("remove", name))?;
    }
    Ok(())
}
