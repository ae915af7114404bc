//! A member puts the store that it was sent in the place of its own.
//! What is read and written on the way may find the power gone; then the process ends, as a real one would.

use crate::crash_points::Point;
use crate::nemesis::ProcessEnd;
use crate::oracle::{Checker, Violation};
use crate::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl World {
    /// False if the host did not live to see it.
    pub fn install(&mut self, host: usize, at: base::Position) -> Result<bool, Violation> {
        let now = self.local_now(host);
        let member_store = &mut self.process(host).member.member_store;
        let installed = catch_unwind(AssertUnwindSafe(|| member_store.install(at)));
        let installed = match installed {
            // What cannot be read for want of power ends the process as what cannot be written does.
            Err(_) if self.hosts[host].disk.has_lost_power() => {
                self.counts.disk_errors += 1;
                self.stop(host, ProcessEnd::DiskError);
                return Ok(false);
            }
            Err(panic) => resume_unwind(panic),
            Ok(installed) => installed,
        };
        if self.unless_disk_error(host, installed).is_none() {
            return Ok(false);
        }
        let process = self.process(host);
        // The flush under way was for the store that is gone.
        process.flush = None;
        let member = &mut process.member;
        if let Err(corrupt) = member.apply.install(now, member.member_store.view()) {
            let what = format!("an installed snapshot cannot be read: {corrupt}");
            return Err(Violation { checker: Checker::Restart, what });
        }
        let hash = member.apply.state_hash();
        let id = self.hosts[host].id;
        self.oracle.applied(id, at.index, hash)?;
        self.reach(host, Point::SnapshotInstalled);
        Ok(true)
    }
}
