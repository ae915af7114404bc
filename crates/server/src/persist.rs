//! The thread that owns the write-ahead log. Everything that gathered while the last sync was under way is
//! written as one frame and made durable by one sync; then the consensus machine hears how far it is.
//! A write or sync that fails ends the process: what the disk holds is then unknown.

use crate::apply;
use crate::core::Core;
use crate::fatal::fatal;
use base::{Index, Position};
use engine::Journal;
use node::Input;
use raft::Persist;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

/// What one turn of the consensus machine asks of the log.
pub(crate) struct Mail {
    pub persists: Vec<Persist>,
    pub released: Option<Index>,
}

pub(crate) struct Loop {
    core: Arc<Core>,
    journal: Journal,
    /// To be written next.
    gathered: Vec<Persist>,
}

impl Loop {
    pub fn new(core: Arc<Core>, journal: Journal) -> Loop {
        core.board.set_wal_bytes(journal.size_bytes());
        Loop { core, journal, gathered: Vec::new() }
    }

    pub fn run(mut self) {
        let mut mail = Vec::new();
        while self.core.persist.take(&mut mail, None) {
            let released = mail.iter().filter_map(|item: &Mail| item.released).max();
            for persist in mail.drain(..).flat_map(|item| item.persists) {
                self.gather(persist);
            }
            self.write_gathered();
            if let Some(index) = released {
                self.release(index);
            }
        }
    }

    /// A snapshot's store is live before its records are written, and after everything before it is.
    fn gather(&mut self, persist: Persist) {
        if let Some(at) = persist.install {
            self.write_gathered();
            self.install(at);
        }
        self.gathered.push(persist);
    }

    fn write_gathered(&mut self) {
        let Some(last) = self.gathered.last() else { return };
        let seq = last.seq;
        self.journal
            .write(&self.gathered)
            .unwrap_or_else(|error| fatal("writing the write-ahead log", &error));
        self.gathered.clear();
        let start = Instant::now();
        self.journal.sync().unwrap_or_else(|error| fatal("syncing the write-ahead log", &error));
        self.core.metrics.wal_fsync_seconds.observe(start.elapsed().as_secs_f64());
        self.core.report(Input::Persisted(seq));
        self.core.board.set_wal_bytes(self.journal.size_bytes());
    }

    /// The apply thread sees to it that nothing of the old store is written to the new one.
    fn install(&mut self, at: Position) {
        let (done, wait) = mpsc::sync_channel(1);
        self.core.apply.push(apply::Mail::Install { at, done });
        wait.recv().expect("the apply thread outlives this one");
    }

    fn release(&mut self, index: Index) {
        self.journal.release(index).unwrap_or_else(|error| fatal("shortening the write-ahead log", &error));
        self.core.board.set_wal_bytes(self.journal.size_bytes());
    }
}
