//! The log of the mesh, as the durable-log writer needs it.

use crate::core::Core;
use crate::durable_log::LogFile;
use engine::{Error, MeshLog};
use mesh::{Persist, Seq};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct RowLog {
    core: Arc<Core>,
    log: MeshLog,
}

impl RowLog {
    pub fn new(core: Arc<Core>, log: MeshLog) -> RowLog {
        let mut new = RowLog { core, log };
        new.report(None);
        new
    }
}

impl LogFile for RowLog {
    type Batch = Persist;
    type Seq = Seq;
    /// Everything up to this batch is in the store.
    type Released = Seq;
    const NAME: &'static str = "the log of the mesh";

    fn seq(persist: &Persist) -> Seq {
        persist.seq
    }

    fn needs_prepare(_: &Persist) -> bool {
        false
    }

    fn prepare(&mut self, _: &Persist) {}

    fn fits(&self, persists: &[Persist]) -> bool {
        self.log.fits(persists)
    }

    fn write(&mut self, persists: &[Persist]) -> Result<(), Error> {
        self.log.write(persists)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.log.sync()
    }

    fn release(&mut self, upto: Seq) -> Result<(), Error> {
        self.log.release(upto)
    }

    fn report(&mut self, synced: Option<Duration>) {
        if let Some(took) = synced {
            self.core.metrics.mesh.log_fsync_seconds.observe(took.as_secs_f64());
        }
        self.core.mesh.status_board.set_log_bytes(self.log.size_bytes(), self.log.spare_bytes());
    }
}
