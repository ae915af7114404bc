//! The interface to a disk: one flat directory of files that are read and written at offsets. Bytes are durable after
//! `File::sync`, names after `Disk::sync_dir`, and before that a power cut may keep any part of them.
//! Implementations: `RealDisk` (a directory) and `SimDisk` (memory, with faults).

use std::io;

/// A directory. Names are plain file names: there are no directories below it.
pub trait Disk: Send + Sync {
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Creates an empty file; it is an error when the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    fn exists(&self, name: &str) -> io::Result<bool>;

    /// Replaces `to` if it exists. Open files stay open under any name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes every creation, renaming and removal so far durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Keeps every other process out for as long as the lock lives; refused with `WouldBlock` when another process
    /// holds it.
    fn lock(&self) -> io::Result<Box<dyn DirLock>>;

    /// The bytes that may still be written, by all files together.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An open file. Reads and writes are whole or an error; there is no cursor.
pub trait File: Send + Sync {
    /// Fills `out`, or fails with `UnexpectedEof`.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes behind the end lengthen the file; a gap reads as zeroes.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes contents and length durable. After an error the contents of the disk are unknown: never retried.
    fn sync(&self) -> io::Result<()>;

    fn len(&self) -> io::Result<u64>;

    /// Cuts, or lengthens with zeroes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The disk space that the file takes: less than its length where nothing was written yet.
    fn taken_bytes(&self) -> io::Result<u64> {
        self.len()
    }

    /// Lengthens the file and reserves the space.
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    /// A write found the disk full, `tried` times by now. Waits a moment; returns whether to try again.
    fn await_space(&self, _tried: u32) -> bool {
        false
    }

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Held while a process owns the directory; dropping it releases the directory.
pub trait DirLock: Send + Sync {}
