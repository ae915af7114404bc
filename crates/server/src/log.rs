//! The write-ahead log with what is to be written to it. Everything that gathered while the last sync was under
//! way is written as one frame and made durable by one sync.
//! Two threads write to it, never at once: the persist thread, which may sleep in a slow disk, and the consensus
//! thread itself while the disk is quick, because then waking another thread costs more than the sync. A write or
//! sync that fails ends the process: what the disk holds is then unknown.

use crate::apply;
use crate::core::Core;
use crate::fatal::fatal;
use base::{Index, Position};
use engine::Journal;
use raft::Persist;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A sync that takes no longer is worth waiting for.
const QUICK: Duration = Duration::from_micros(150);

pub(crate) struct Log {
    core: Arc<Core>,
    journal: Journal,
    /// To be written next.
    gathered: Vec<Persist>,
    /// The last sync was.
    quick: bool,
}

impl Log {
    pub fn new(core: Arc<Core>, journal: Journal) -> Log {
        core.board.set_wal_bytes(journal.size_bytes());
        Log { core, journal, gathered: Vec::new(), quick: false }
    }

    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// Makes these durable, in their order, and answers how far it is now; `None` if there were none.
    pub fn write(&mut self, persists: impl Iterator<Item = Persist>) -> Option<u64> {
        let mut durable = None;
        for persist in persists {
            // A snapshot's store is live before its records are written, and after everything before it is.
            if let Some(at) = persist.install {
                durable = self.write_gathered().or(durable);
                self.install(at);
            }
            self.gathered.push(persist);
        }
        self.write_gathered().or(durable)
    }

    fn write_gathered(&mut self) -> Option<u64> {
        let seq = self.gathered.last()?.seq;
        self.journal
            .write(&self.gathered)
            .unwrap_or_else(|error| fatal("writing the write-ahead log", &error));
        self.gathered.clear();
        let start = Instant::now();
        self.journal.sync().unwrap_or_else(|error| fatal("syncing the write-ahead log", &error));
        let took = start.elapsed();
        self.quick = took <= QUICK;
        self.core.metrics.wal_fsync_seconds.observe(took.as_secs_f64());
        self.core.board.set_wal_bytes(self.journal.size_bytes());
        Some(seq)
    }

    /// The apply thread sees to it that nothing of the old store is written to the new one.
    fn install(&mut self, at: Position) {
        let (done, wait) = mpsc::sync_channel(1);
        self.core.apply.queue.push(apply::Mail::Install { at, done });
        wait.recv().expect("the apply thread outlives this one");
    }

    pub fn release(&mut self, index: Index) {
        self.journal.release(index).unwrap_or_else(|error| fatal("shortening the write-ahead log", &error));
        self.core.board.set_wal_bytes(self.journal.size_bytes());
    }
}
