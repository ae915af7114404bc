//! The raft side of the write-ahead log: records in, durability out.
//! Several persists that gathered while the disk was busy become one frame and one sync.

use crate::error::Error;
use base::Index;
use disk::{Stream, Wal};
use raft::{Persist, Record};

pub struct Journal {
    wal: Wal,
}

impl Journal {
    pub(crate) fn new(wal: Wal) -> Journal {
        Journal { wal }
    }

    /// Writes the records of all persists as one frame; they are durable after `sync`.
    pub fn write(&mut self, persists: &[Persist]) -> Result<(), Error> {
        let records: Vec<_> = persists.iter().flat_map(|persist| &persist.records).map(to_disk).collect();
        Ok(self.wal.write(&records)?)
    }

    pub fn sync(&mut self) -> Result<(), Error> {
        Ok(self.wal.sync()?)
    }

    /// Whether all this can be written without asking the disk for more room.
    pub fn fits(&self, persists: &[Persist]) -> bool {
        let records = persists.iter().flat_map(|persist| &persist.records);
        self.wal.has_place_for(records.map(Record::size_max))
    }

    /// The raft log was cut here.
    pub fn release(&mut self, index: Index) -> Result<(), Error> {
        Ok(self.wal.release(Stream::Raft, index.0)?)
    }

    pub fn size_bytes(&self) -> u64 {
        self.wal.size_bytes()
    }
}

pub(crate) fn to_disk(record: &Record) -> disk::Record {
    disk::Record {
        stream: Stream::Raft,
        position: record.position().0,
        sticky: record.sticky(),
        payload: record.encode(),
    }
}
