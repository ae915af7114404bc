//! A disk with a reserve file: the file is removed when a write finds the disk full, so that the write succeeds. The
//! member should have stopped accepting writes long before; the reserve covers what was under way. The file is
//! created again when plenty of space is free. Without it a full disk is an error.

use crate::disk::{DirLock, Disk, File};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

const RESERVE_NAME: &str = "reserve";
/// The file is created again when so many times its size are free.
const PLENTY: u64 = 3;

pub struct ReserveDisk(Arc<Inner>);

struct Inner {
    below: Arc<dyn Disk>,
    bytes: u64,
    /// The file exists.
    held: Mutex<bool>,
}

impl ReserveDisk {
    /// Reserves so many bytes, if there is space for them.
    pub fn over(below: Arc<dyn Disk>, bytes: u64) -> io::Result<ReserveDisk> {
        let mut held = below.exists(RESERVE_NAME)?;
        if held && below.open(RESERVE_NAME)?.len()? != bytes {
            below.remove(RESERVE_NAME)?;
            held = false;
        }
        let inner = Inner { below, bytes, held: Mutex::new(held) };
        inner.refill(inner.below.free_bytes()?);
        Ok(ReserveDisk(Arc::new(inner)))
    }
}

impl Inner {
    /// True when the reserve existed.
    fn release(&self) -> io::Result<bool> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *held) {
            self.below.remove(RESERVE_NAME)?;
            self.below.sync_dir()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// A missing reserve is no error.
    fn refill(&self, free_bytes: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if *held || self.bytes == 0 || free_bytes / PLENTY < self.bytes {
            return;
        }
        let made = self.below.create(RESERVE_NAME).and_then(|file| file.allocate(self.bytes));
        *held = made.is_ok();
        if made.is_err() {
            // A partial file would prevent the next attempt.
            let _ = self.below.remove(RESERVE_NAME);
        }
    }

    /// Runs an operation that needs space, if need be with the space of the reserve.
    fn with_space<T>(&self, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.release()? => act(),
            done => done,
        }
    }
}

impl Disk for ReserveDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = self.0.below.open(name)?;
        Ok(Box::new(ReserveFile { file, reserve: self.0.clone() }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = self.0.with_space(|| self.0.below.create(name))?;
        Ok(Box::new(ReserveFile { file, reserve: self.0.clone() }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.0.below.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.with_space(|| self.0.below.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.below.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.0.below.list()?;
        names.retain(|name| name != RESERVE_NAME);
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.below.sync_dir()
    }

    fn lock(&self) -> io::Result<Box<dyn DirLock>> {
        self.0.below.lock()
    }

    /// The reserve does not count, and is filled up when there is plenty.
    fn free_bytes(&self) -> io::Result<u64> {
        let free_bytes = self.0.below.free_bytes()?;
        self.0.refill(free_bytes);
        Ok(free_bytes)
    }
}

/// A file that may use the reserve.
struct ReserveFile {
    file: Box<dyn File>,
    reserve: Arc<Inner>,
}

impl File for ReserveFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.reserve.with_space(|| self.file.write_at(offset, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.reserve.with_space(|| self.file.set_len(len))
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        self.file.taken_bytes()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.reserve.with_space(|| self.file.allocate(len))
    }

    fn await_space(&self, tried: u32) -> bool {
        self.file.await_space(tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::{RowRef, SimDisk};
    use base::{ReadView, Table};

    const KIB: u64 = 1024;

    fn small(kib: u64, reserve_kib: u64) -> (SimDisk, Arc<ReserveDisk>) {
        let below = SimDisk::new(7);
        below.set_space(kib * KIB);
        let reserve = ReserveDisk::over(Arc::new(below.clone()), reserve_kib * KIB).unwrap();
        (below, Arc::new(reserve))
    }

    #[test]
    fn a_write_that_finds_the_disk_full_gets_the_reserve() {
        let (below, disk) = small(100, 20);
        assert_eq!(disk.free_bytes().unwrap(), 80 * KIB);
        let file = disk.create("data").unwrap();
        file.write_at(0, &[1; 80 * KIB as usize]).unwrap();
        assert!(below.exists(RESERVE_NAME).unwrap());
        file.write_at(80 * KIB, &[2; 20 * KIB as usize]).unwrap();
        assert!(!below.exists(RESERVE_NAME).unwrap());
        assert_eq!(file.write_at(100 * KIB, &[3]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(disk.list().unwrap() == ["data"]);
    }

    #[test]
    fn the_reserve_comes_back_when_there_is_plenty() {
        let (below, disk) = small(100, 20);
        let file = disk.create("data").unwrap();
        file.write_at(0, &[1; 90 * KIB as usize]).unwrap();
        assert!(!below.exists(RESERVE_NAME).unwrap());
        file.set_len(50 * KIB).unwrap();
        disk.free_bytes().unwrap();
        assert!(!below.exists(RESERVE_NAME).unwrap(), "that is not plenty");
        file.set_len(10 * KIB).unwrap();
        assert_eq!(disk.free_bytes().unwrap(), 90 * KIB);
        assert!(below.exists(RESERVE_NAME).unwrap());
    }

    #[test]
    fn a_disk_without_space_for_a_reserve_is_used_as_it_is() {
        let (below, disk) = small(30, 20);
        assert!(!below.exists(RESERVE_NAME).unwrap());
        disk.create("data").unwrap().write_at(0, &[1; 30 * KIB as usize]).unwrap();
    }

    /// The storage engine never gets an error for the full disk, and so goes on.
    #[test]
    fn a_store_that_fills_its_disk_goes_on_in_the_reserve() {
        // The engine doubles its file, and the simulated disk counts what is not written yet.
        let (below, disk) = small(12 * KIB, 5 * KIB);
        let store = Store::open(disk.clone(), "store", 256 * KIB as usize).unwrap();
        let mut written = 0_u32;
        while below.exists(RESERVE_NAME).unwrap() {
            let (key, value) = (written.to_be_bytes(), [7; 4_000]);
            let row = RowRef { table: Table::Log, key: &key, value: Some(&value) };
            store.write_rows(&mut [row].into_iter()).unwrap();
            written += 1;
        }
        let view = store.view().unwrap();
        assert!((0..written).all(|nth| view.get(Table::Log, &nth.to_be_bytes()).is_some()));
        drop(view);
        for nth in 0..written {
            let row = RowRef { table: Table::Log, key: &nth.to_be_bytes(), value: None };
            store.write_rows(&mut [row].into_iter()).unwrap();
        }
    }
}
