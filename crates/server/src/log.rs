//! The write-ahead log with what is to be written to it. Everything that gathered while the last sync was under
//! way is written as one frame and made durable by one sync.
//! Two threads write to it, never at once: the persist thread, which may sleep in a slow or a full disk, and the consensus
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
/// So many in a row mean that the disk is quick; one slower sync means that it is slow. A disk that another process keeps
/// busy now and then has a quick sync among slow ones, and waiting for the next would delay every request.
const QUICK_IN_A_ROW: u32 = 16;

pub(crate) struct Log {
    core: Arc<Core>,
    journal: Journal,
    /// To be written next.
    gathered: Vec<Persist>,
    pace: Pace,
    /// The size of the segments when it was last reported.
    size_bytes: u64,
}

/// How quick the disk was lately.
#[derive(Default)]
struct Pace {
    quick: u32,
}

impl Pace {
    fn note(&mut self, took: Duration) {
        self.quick = if took <= QUICK { self.quick.saturating_add(1) } else { 0 };
    }

    fn is_quick(&self) -> bool {
        self.quick >= QUICK_IN_A_ROW
    }
}

impl Log {
    pub fn new(core: Arc<Core>, journal: Journal) -> Log {
        let size_bytes = journal.size_bytes();
        core.board.set_wal_bytes(size_bytes);
        Log { core, journal, gathered: Vec::new(), pace: Pace::default(), size_bytes }
    }

    pub fn is_quick(&self) -> bool {
        self.pace.is_quick()
    }

    /// These can be written without extending the log, which may take time and on a full disk has to be
    /// waited for.
    pub fn fits(&self, persists: &[Persist]) -> bool {
        self.journal.fits(persists)
    }

    /// Makes these durable, in order, and returns the number of the last durable one; `None` if there were none.
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
        self.pace.note(took);
        self.core.metrics.wal_fsync_seconds.observe(took.as_secs_f64());
        self.tell_size();
        Some(seq)
    }

    /// Reports a new segment to the admission of requests before the next look at the disk, which may be late.
    fn tell_size(&mut self) {
        let size_bytes = self.journal.size_bytes();
        if size_bytes != self.size_bytes {
            self.core.board.take_free_bytes(size_bytes.saturating_sub(self.size_bytes));
            self.core.board.set_wal_bytes(size_bytes);
            self.size_bytes = size_bytes;
        }
    }

    /// The apply thread writes nothing of the old store to the new one.
    fn install(&mut self, at: Position) {
        let (done, wait) = mpsc::sync_channel(1);
        self.core.apply.queue.push(apply::Mail::Install { at, done });
        wait.recv().expect("the apply thread outlives this one");
    }

    pub fn release(&mut self, index: Index) {
        self.journal.release(index).unwrap_or_else(|error| fatal("shortening the write-ahead log", &error));
        self.tell_size();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_quick_after_a_row_of_quick_syncs_and_slow_after_one_that_is_not() {
        let mut pace = Pace::default();
        for round in 0..2 {
            for _ in 1..QUICK_IN_A_ROW {
                pace.note(QUICK);
                assert!(!pace.is_quick(), "round {round}");
            }
            pace.note(QUICK);
            assert!(pace.is_quick());
            pace.note(QUICK * 2);
            assert!(!pace.is_quick());
        }
    }
}
