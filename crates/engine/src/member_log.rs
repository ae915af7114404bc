//! The raft side of the write-ahead log: records in, durability out.
//! Several persists that gathered while the disk was busy become one frame and one sync.

use crate::error::Error;
use crate::log_file::LogFile;
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Index, NodeId, Term};
use disk::{RecordStream, Wal};
use raft::{Persist, Record};

pub struct MemberLog {
    wal: Wal,
    /// The last vote in the log.
    vote: Option<(Term, Option<NodeId>)>,
    /// A vote or a term was written that is not sealed yet.
    unsealed: bool,
    written_bytes: u64,
}

/// The size of the sealing frame, as the payload of a record.
const SEAL_BYTES: usize = 16;

impl MemberLog {
    pub(crate) fn new(wal: Wal) -> MemberLog {
        MemberLog { wal, vote: None, unsealed: false, written_bytes: 0 }
    }

    fn note_vote(&mut self, record: &Record) {
        if let Record::Vote { term, vote, .. } = record {
            let vote = Some((*term, *vote));
            self.unsealed |= self.vote != vote && !planted(Mutant::VotesNotSealed);
            self.vote = vote;
        }
    }

    pub fn size_bytes(&self) -> u64 {
        self.wal.size_bytes()
    }

    /// The bytes of the records that were written since the start.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }
}

impl LogFile for MemberLog {
    type Batch = Persist;
    type Seq = u64;
    /// The raft log was cut here.
    type Released = Index;
    const NAME: &'static str = "the write-ahead log";

    fn seq(persist: &Persist) -> u64 {
        persist.seq
    }

    /// A snapshot's store is live before its records are written, and after everything before it is durable.
    fn needs_prepare(persist: &Persist) -> bool {
        persist.install.is_some()
    }

    fn fits(&self, persists: &[Persist]) -> bool {
        let records = persists.iter().flat_map(|persist| &persist.records);
        self.wal.has_space_for(records.map(Record::size_max).chain([SEAL_BYTES]))
    }

    fn write(&mut self, persists: &[Persist]) -> Result<(), Error> {
        let records: Vec<_> = persists.iter().flat_map(|persist| &persist.records).map(to_disk).collect();
        self.wal.write(&records)?;
        self.written_bytes += records.iter().map(|record| record.payload.len() as u64).sum::<u64>();
        for persist in persists {
            persist.records.iter().for_each(|record| self.note_vote(record));
        }
        Ok(())
    }

    /// A vote or a term that was sent to others is never in the last frame, the only frame whose loss can go unnoticed.
    fn sync(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.unsealed) { Ok(self.wal.seal()?) } else { Ok(self.wal.sync()?) }
    }

    fn release(&mut self, index: Index) -> Result<(), Error> {
        Ok(self.wal.release(RecordStream::Raft, index.0)?)
    }

    fn is_of_earlier_release(&self) -> bool {
        self.wal.is_of_earlier_release()
    }

    fn upgrade(&mut self) -> Result<(), Error> {
        Ok(self.wal.upgrade()?)
    }
}

pub(crate) fn to_disk(record: &Record) -> disk::WalRecord {
    disk::WalRecord {
        stream: RecordStream::Raft,
        position: record.position().0,
        sticky: record.sticky(),
        payload: record.encode(),
    }
}
