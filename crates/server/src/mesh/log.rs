//! The mesh's log with what is to be written to it. Two threads write to it, never at once: the mesh's own while the
//! disk is quick, because then waking another costs more than the sync, and otherwise this one, which may sleep in a
//! slow or a full disk. A write or sync that fails ends the process: what the disk holds is then unknown.

use crate::core::Core;
use crate::fatal::fatal;
use crate::mesh::node::Mail;
use engine::MeshLog;
use mesh::mesh::Persist;
use mesh::overlay::Seq;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A sync that takes no longer is worth waiting for.
const QUICK: Duration = Duration::from_micros(150);

pub(crate) struct Log {
    core: Arc<Core>,
    log: MeshLog,
    /// The last sync was.
    quick: bool,
}

/// What is asked of the thread.
pub(crate) enum Order {
    Write(Persist),
    /// Everything up to this batch is in the store.
    Release(Seq),
}

impl Log {
    pub fn new(core: Arc<Core>, log: MeshLog) -> Log {
        core.mesh.board.set_log_bytes(log.size_bytes(), log.spare_bytes());
        Log { core, log, quick: false }
    }

    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// This can be written without asking the disk for more room, which may take time and on a full disk has to be waited
    /// for.
    pub fn fits(&self, persist: &Persist) -> bool {
        self.log.fits(persist)
    }

    /// Makes these durable, in their order, and answers how far it is now; `None` if there were none.
    pub fn write(&mut self, persists: &[Persist]) -> Option<Seq> {
        let seq = persists.last()?.seq;
        self.log.write(persists).unwrap_or_else(|error| fatal("writing the log of the mesh", &error));
        let start = Instant::now();
        self.log.sync().unwrap_or_else(|error| fatal("syncing the log of the mesh", &error));
        let took = start.elapsed();
        self.quick = took <= QUICK;
        self.core.metrics.mesh.log_fsync_seconds.observe(took.as_secs_f64());
        self.show_size();
        Some(seq)
    }

    fn release(&mut self, upto: Seq) {
        self.log.release(upto).unwrap_or_else(|error| fatal("shortening the log of the mesh", &error));
        self.show_size();
    }

    fn show_size(&self) {
        self.core.mesh.board.set_log_bytes(self.log.size_bytes(), self.log.spare_bytes());
    }
}

/// The thread for slow disks.
pub(crate) fn run(core: &Core, log: &Mutex<Log>) {
    let mut orders = Vec::new();
    while core.mesh.log.take(&mut orders, None) {
        let mut persists = Vec::new();
        let mut released = None;
        for order in orders.drain(..) {
            match order {
                Order::Write(persist) => persists.push(persist),
                Order::Release(upto) => released = released.max(Some(upto)),
            }
        }
        let lock = || log.lock().expect("no thread panics while it holds the log");
        let durable = lock().write(&persists);
        // The log is free by then, so that what follows can be written at once if the disk is quick.
        if let Some(seq) = durable {
            core.mesh.tell(Mail::Persisted(seq), 0);
        }
        if let Some(upto) = released {
            lock().release(upto);
        }
    }
}
