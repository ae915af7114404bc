//! What happens to the log of the mesh, for metrics.

use crate::core::Core;
use crate::durable_log::LogObserver;
use engine::{LogFile, MeshLog};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct MeshLogObserver {
    core: Arc<Core>,
}

impl MeshLogObserver {
    pub fn new(core: Arc<Core>, log: &MeshLog) -> MeshLogObserver {
        let mut new = MeshLogObserver { core };
        new.upgraded(log);
        new.report(log, None);
        new
    }
}

impl LogObserver<MeshLog> for MeshLogObserver {
    fn report(&mut self, log: &MeshLog, synced: Option<Duration>) {
        if let Some(took) = synced {
            self.core.metrics.mesh.log_fsync_seconds.observe(took.as_secs_f64());
        }
        self.core.mesh.status.set_log_bytes(log.size_bytes(), log.spare_bytes());
    }

    fn upgraded(&mut self, log: &MeshLog) {
        self.core.published.log_formats.set_mesh(log.is_of_earlier_release());
    }
}
