//! redb's storage trait over a file of ours: a plain translation, call by call.
//! Locks are refused as unsupported: the directory is locked as a whole.

use crate::disk::File;
use redb::StorageBackend;
use std::fmt;
use std::io;

pub struct Backend(Box<dyn File>);

impl Backend {
    pub fn new(file: Box<dyn File>) -> Backend {
        Backend(file)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}
