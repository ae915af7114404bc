//! The log of the mesh: batches of rows in, durability out.
//! Several batches that gathered while the disk was busy become one frame and one sync.

use crate::error::Error;
use crate::log_file::LogFile;
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

    pub fn size_bytes(&self) -> u64 {
        self.wal.size_bytes()
    }

    /// The bytes of its spare segments.
    pub fn spare_bytes(&self) -> u64 {
        self.wal.spare_bytes()
    }
}

impl LogFile for MeshLog {
    type Batch = Persist;
    type Seq = Seq;
    /// Everything up to this batch is in the store.
    type Released = Seq;
    const NAME: &'static str = "the log of the mesh";

    fn seq(persist: &Persist) -> Seq {
        persist.seq
    }

    fn fits(&self, persists: &[Persist]) -> bool {
        self.wal.has_space_for(persists.iter().map(|persist| persist.batch.len()))
    }

    fn write(&mut self, persists: &[Persist]) -> Result<(), Error> {
        let record = |persist: &Persist| WalRecord {
            stream: RecordStream::Mesh,
            position: self.base + persist.seq.0,
            sticky: None,
            payload: persist.batch.clone(),
        };
        let records: Vec<WalRecord> = persists.iter().map(record).collect();
        Ok(self.wal.write(&records)?)
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(self.wal.sync()?)
    }

    fn release(&mut self, upto: Seq) -> Result<(), Error> {
        Ok(self.wal.release(RecordStream::Mesh, self.base + upto.0)?)
    }

    fn is_of_earlier_release(&self) -> bool {
        self.wal.is_of_earlier_release()
    }

    fn upgrade(&mut self) -> Result<(), Error> {
        Ok(self.wal.upgrade()?)
    }
}
