//! The write-ahead log of raft, as the durable-log writer needs it: the install of a snapshot between two frames,
//! and what the log takes of the disk.

use crate::apply;
use crate::core::Core;
use crate::durable_log::LogFile;
use base::Index;
use engine::{Error, MemberLog};
use raft::Persist;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) struct RaftLog {
    core: Arc<Core>,
    member_log: MemberLog,
    /// What the segments took of the disk when it was last reported.
    size_bytes: u64,
}

impl RaftLog {
    pub fn new(core: Arc<Core>, member_log: MemberLog) -> RaftLog {
        let size_bytes = member_log.size_bytes();
        core.status.set_wal_bytes(size_bytes);
        RaftLog { core, member_log, size_bytes }
    }
}

impl LogFile for RaftLog {
    type Batch = Persist;
    type Seq = u64;
    type Released = Index;
    const NAME: &'static str = "the write-ahead log";

    fn seq(persist: &Persist) -> u64 {
        persist.seq
    }

    /// A snapshot's store is live before its records are written, and after everything before it is durable.
    fn needs_prepare(persist: &Persist) -> bool {
        persist.install.is_some()
    }

    /// The apply thread writes nothing of the old store to the new one.
    fn prepare(&mut self, persist: &Persist) {
        if let Some(at) = persist.install {
            let (done, wait) = mpsc::sync_channel(1);
            self.core.apply.queue.push(apply::ApplyMessage::Install { at, done });
            wait.recv().expect("the apply thread outlives this one");
        }
    }

    fn fits(&self, persists: &[Persist]) -> bool {
        self.member_log.fits(persists)
    }

    fn write(&mut self, persists: &[Persist]) -> Result<(), Error> {
        let start = std::time::Instant::now();
        self.member_log.write(persists)?;
        let metrics = &self.core.metrics.etcd;
        metrics.wal_write_seconds.observe(start.elapsed());
        metrics.wal_write_bytes.set(self.member_log.written_bytes() as i64);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.member_log.sync()
    }

    fn release(&mut self, index: Index) -> Result<(), Error> {
        self.member_log.release(index)
    }

    /// Admission of requests hears of a new segment before the disk is measured again, which may be late.
    fn report(&mut self, synced: Option<Duration>) {
        if let Some(took) = synced {
            self.core.metrics.wal_fsync_seconds.observe(took.as_secs_f64());
        }
        let size_bytes = self.member_log.size_bytes();
        if size_bytes != self.size_bytes {
            self.core.status.take_free_bytes(size_bytes.saturating_sub(self.size_bytes));
            self.core.status.set_wal_bytes(size_bytes);
            self.size_bytes = size_bytes;
        }
    }
}
