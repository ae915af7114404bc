//! The log of the mesh: batches of rows in, durability out.
//! Several batches that gathered while the disk was busy become one frame and one sync.

use crate::error::Error;
use ::mesh::{Persist, Seq};
use disk::{RecordStream, Wal, WalRecord};

pub struct MeshLog {
    wal: Wal,
    /// The last position before this start.
    base: u64,
}

impl MeshLog {
    pub(super) fn new(wal: Wal, base: u64) -> MeshLog {
        MeshLog { wal, base }
    }

    /// Writes all batches as one frame; they are durable after `sync`.
    pub fn write(&mut self, persists: &[Persist]) -> Result<(), Error> {
        let record = |persist: &Persist| WalRecord {
            stream: RecordStream::Mesh,
            position: self.base + persist.seq.0,
            sticky: None,
            payload: persist.batch.clone(),
        };
        let records: Vec<WalRecord> = persists.iter().map(record).collect();
        Ok(self.wal.write(&records)?)
    }

    /// Whether all this can be written without asking the disk for more room, which on a full one has to be waited for.
    pub fn fits(&self, persists: &[Persist]) -> bool {
        self.wal.has_space_for(persists.iter().map(|persist| persist.batch.len()))
    }

    pub fn sync(&mut self) -> Result<(), Error> {
        Ok(self.wal.sync()?)
    }

    /// Everything up to this batch is in the store.
    pub fn release(&mut self, upto: Seq) -> Result<(), Error> {
        Ok(self.wal.release(RecordStream::Mesh, self.base + upto.0)?)
    }

    pub fn size_bytes(&self) -> u64 {
        self.wal.size_bytes()
    }

    /// The bytes of its spare segments.
    pub fn spare_bytes(&self) -> u64 {
        self.wal.spare_bytes()
    }
}
