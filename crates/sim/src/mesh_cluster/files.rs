//! What the threads of a host's files do, a step at a time, so that a crash may fall between any two; and how a process
//! ends and comes back from what its disk has.

use super::{Event, MS, MeshCluster};
use base::NodeId;
use engine::LogFile;
use mesh::{CatchUp, Epoch};
use mesh_node::Input;

/// What a process does to its disk before it can be told from one that has run for long.
const FIRST_OPS: u64 = 5;
/// How long the first sync takes on which the power is about to go: a node serves by then.
const DOOMED_SYNC: u64 = 500 * MS;

impl MeshCluster {
    /// All that gathered is one write.
    pub(super) fn write_log(&mut self, node: NodeId, pid: u64) {
        let sync_max = self.sync_max;
        let Some(process) = &mut self.host(node).process else { return };
        process.written = std::mem::take(&mut process.to_write);
        match process.log.write(&process.written) {
            Ok(()) => {
                let doomed = self.hosts[&node].doomed;
                let span = if doomed { DOOMED_SYNC } else { 1 + self.rng.between(0, sync_max) };
                self.after(span, Event::SyncLog(node, pid));
            }
            Err(_) => self.die(node),
        }
    }

    pub(super) fn sync_log(&mut self, node: NodeId, pid: u64) {
        let host = self.host(node);
        host.doomed = false;
        let Some(process) = &mut host.process else { return };
        if process.log.sync().is_err() {
            return self.die(node);
        }
        let last = process.written.last().map(|persist| persist.seq);
        process.written.clear();
        if !process.to_write.is_empty() {
            self.after(1, Event::WriteLog(node, pid));
        }
        if let Some(seq) = last {
            self.step(node, Input::Persisted(seq));
        }
    }

    /// The log goes when the store has what it held.
    pub(super) fn flush(&mut self, node: NodeId) {
        let Some(process) = &mut self.host(node).process else { return };
        let Some(flush) = process.flush.take() else { return };
        match process.store.flush(&flush).and_then(|()| process.log.release(flush.upto)) {
            Ok(()) => self.step(node, Input::Flushed(flush.number)),
            Err(_) => self.die(node),
        }
    }

    /// Trouble with the disk ends the process; it is started again.
    pub(super) fn die(&mut self, node: NodeId) {
        self.counts.disk_errors += 1;
        let lost_power = self.hosts[&node].disk.has_lost_power();
        self.end(node, lost_power);
        let span = self.rng.between(10 * MS, 800 * MS);
        self.after(span, Event::Start(node));
    }

    /// The process ends, with the machine or alone.
    pub fn end(&mut self, node: NodeId, power_cut: bool) {
        self.counts.crashes += 1;
        let host = self.host(node);
        host.pid += 1;
        (host.paused, host.doomed) = (false, false);
        host.queued.clear();
        if power_cut {
            host.disk.crash()
        } else {
            host.disk.kill()
        }
        host.process = None;
        (host.leads, host.learns_at) = (false, None);
        self.disconnect(node, power_cut);
    }

    pub(super) fn start(&mut self, node: NodeId) {
        if self.hosts[&node].process.is_some() {
            return;
        }
        self.n_incarnations += 1;
        let fresh = self.n_incarnations;
        let settings = self.settings(node);
        let host = self.host(node);
        host.pid += 1;
        let (pid, failed) = (host.pid, host.disk.counters().syncs_failed);
        let opened = host.open(fresh, settings);
        let is_damaged = host.is_damaged;
        host.is_damaged &= opened.is_err();
        if let Ok(process) = &opened
            && host.incarnation != process.incarnation_file.get().number
        {
            // Another life has said nothing yet.
            (host.incarnation, host.reported) = (process.incarnation_file.get().number, Epoch::default());
        }
        match opened {
            Ok(process) if process.driver.kept_epoch() < host.reported => {
                let (reported, kept) = (host.reported.0, process.driver.kept_epoch().0);
                let forgot =
                    format!("epochs: node {} said to follow {reported} and comes back at {kept}", node.0);
                self.violation = Some(forgot);
                return;
            }
            Ok(process) => {
                host.process = Some(process);
                if host.doomed {
                    let (ops, disk) = (self.rng.between(0, FIRST_OPS), &self.hosts[&node].disk);
                    disk.fail_after_ops(ops);
                }
            }
            Err(_) if host.disk.has_lost_power() || host.disk.counters().syncs_failed > failed => {
                return self.die(node);
            }
            // The operator does what the message says.
            Err(_) if is_damaged => return self.replace_disk(node),
            Err(error) => {
                self.violation = Some(format!("restart: node {} does not come back: {error}", node.0));
                return;
            }
        }
        self.after(1, Event::Documents(node, pid));
        self.after(2, Event::Tick(node, pid));
        self.connect(node);
    }

    pub(super) fn write_incarnation(&mut self, node: NodeId, catch_up: CatchUp) {
        let Some(process) = &mut self.host(node).process else { return };
        match process.incarnation_file.set_catch_up(catch_up) {
            Ok(()) => self.step(node, Input::IncarnationWritten(catch_up)),
            Err(_) => self.die(node),
        }
    }
}
