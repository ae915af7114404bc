//! What happens to the write-ahead log of raft: the install of a snapshot between two frames, and what the log takes of the
//! disk.

use crate::apply;
use crate::core::Core;
use crate::durable_log::LogObserver;
use engine::{LogFile, MemberLog};
use raft::Persist;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) struct RaftLogObserver {
    core: Arc<Core>,
    /// What the segments took of the disk when it was last reported.
    size_bytes: u64,
}

impl RaftLogObserver {
    pub fn new(core: Arc<Core>, log: &MemberLog) -> RaftLogObserver {
        let size_bytes = log.size_bytes();
        core.published.status.set_wal_bytes(size_bytes);
        core.published.log_formats.set_raft(log.is_of_earlier_release());
        RaftLogObserver { core, size_bytes }
    }
}

impl LogObserver<MemberLog> for RaftLogObserver {
    /// The apply thread writes nothing of the old store to the new one.
    fn prepare(&mut self, persist: &Persist) {
        if let Some(at) = persist.install {
            let (done, wait) = mpsc::sync_channel(1);
            self.core.coord.apply.post(apply::ApplyJob::Install { at, done });
            wait.recv().expect("the apply thread outlives this one");
        }
    }

    fn written(&mut self, log: &MemberLog, took: Duration) {
        let metrics = &self.core.metrics.etcd;
        metrics.wal_write_seconds.observe(took);
        metrics.wal_write_bytes.set(log.written_bytes() as i64);
    }

    /// Admission of requests hears of a new segment before the disk is measured again, which may be late.
    fn report(&mut self, log: &MemberLog, synced: Option<Duration>) {
        if let Some(took) = synced {
            self.core.metrics.wal_fsync_seconds.observe(took.as_secs_f64());
        }
        let size_bytes = log.size_bytes();
        if size_bytes != self.size_bytes {
            self.core.published.status.take_free_bytes(size_bytes.saturating_sub(self.size_bytes));
            self.core.published.status.set_wal_bytes(size_bytes);
            self.size_bytes = size_bytes;
        }
    }

    fn upgraded(&mut self, log: &MemberLog) {
        self.core.published.log_formats.set_raft(log.is_of_earlier_release());
    }
}
