//! What can go wrong with hosts and between them, in any world. Which of it happens, how often and to whom is the
//! world's to choose; in the end all of it is put right.

use super::{Event, MS, MeshCluster};
use crate::damaged_logs::Damage;
use base::NodeId;
use disk::SimDisk;
use disk::wal::{self, RecoveryReport};
use mesh::Epoch;

const PAUSE_MIN: u64 = 500 * MS;
/// Most pauses are short.
const PAUSES_MAX: [u64; 4] = [2_000 * MS, 2_000 * MS, 5_000 * MS, 15_000 * MS];
/// Frames that wait for a process that is stopped; the rest is lost with its senders' buffers.
const QUEUED_MAX: usize = 8_192;

impl MeshCluster {
    pub fn stop(&mut self, node: NodeId, power_cut: bool) {
        if self.hosts[&node].process.is_some() {
            let power_cut = power_cut || self.hosts[&node].disk.has_lost_power();
            self.end(node, power_cut);
            let away = self.rng.between(20 * MS, 2_500 * MS);
            self.after(away, Event::Start(node));
        }
    }

    /// In the midst of whatever the disk does next.
    pub fn cut_power_soon(&mut self, node: NodeId) {
        let ops = self.rng.between(0, 12);
        self.hosts[&node].disk.fail_after_ops(ops);
    }

    /// It comes back, and the power goes while its disk gets the first that this life relies on: who it is, which of its
    /// names are taken.
    pub fn cut_power_after_start(&mut self, node: NodeId) {
        self.stop(node, false);
        self.host(node).doomed = true;
    }

    /// The process ends with its disk, and all that it has noted. Within a region the next goes only when the node that
    /// lost the last one serves again: a write may lose no more disks and stay.
    pub fn lose_disk(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        if self.hosts.values().any(|host| host.region == region && host.is_refilling) {
            return;
        }
        if self.hosts[&node].process.is_some() {
            self.end(node, true);
        }
        self.replace_disk(node);
    }

    pub(super) fn replace_disk(&mut self, node: NodeId) {
        self.counts.wipes += 1;
        self.noted_on_lost.extend(self.noted.remove(&node).unwrap_or_default());
        let seed = self.rng.next_u64();
        let host = self.host(node);
        (host.disk, host.is_refilling, host.reported) = (SimDisk::new(seed), true, Epoch::default());
        host.is_damaged = false;
        host.clear_disk();
        let away = self.rng.between(20 * MS, 1_500 * MS);
        self.after(away, Event::Start(node));
    }

    /// The machine loses its power, and comes back with a log that is not what it was. One at a time, as with disks.
    pub fn damage_log(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        let is_refilling = self.hosts.values().any(|host| host.region == region && host.is_refilling);
        if is_refilling || self.hosts[&node].process.is_none() {
            return;
        }
        self.stop(node, true);
        let disk = self.hosts[&node].disk.clone();
        let Ok(RecoveryReport { newest: Some(newest), .. }) = wal::inspect(&disk.fork(), &mut |_| {}) else {
            return;
        };
        self.counts.logs_damaged += 1;
        self.noted_on_lost.extend(self.noted.remove(&node).unwrap_or_default());
        let host = self.host(node);
        (host.is_damaged, host.is_refilling) = (true, true);
        Damage::any(&mut self.rng).apply(&mut self.rng, &disk, &newest);
    }

    /// Nothing comes out from those inside, nor in unless it is one way only.
    pub fn cut_around(&mut self, inside: impl Fn(NodeId) -> bool, one_way: bool) {
        self.counts.splits += 1;
        let nodes = self.nodes();
        for one in nodes.iter().filter(|one| inside(**one)) {
            for other in nodes.iter().filter(|other| !inside(**other)) {
                self.cut.insert((*one, *other));
                if !one_way {
                    self.cut.insert((*other, *one));
                }
            }
        }
    }

    /// Frames are lost and take their time, and so do disks.
    pub fn worsen(&mut self, loss_max_per_million: u64) {
        self.loss_per_million = self.rng.between(0, loss_max_per_million);
        self.delay_max = self.rng.between(MS, 120 * MS);
        self.sync_max = self.rng.between(MS, 60 * MS);
    }

    /// A disk has no space any more, or has some again.
    pub fn fill_disk(&mut self, node: NodeId) {
        let MeshCluster { rng, hosts, counts, .. } = self;
        let host = hosts.get_mut(&node).expect("it is there");
        host.fill_disk(rng);
        counts.full_disks += u64::from(host.is_full());
    }

    /// The process stops for a while, as by SIGSTOP; what comes for it waits in its sockets.
    pub fn pause(&mut self, node: NodeId) {
        let longest = *self.rng.pick(&PAUSES_MAX);
        let span = self.rng.between(PAUSE_MIN, longest);
        self.pause_for(node, span);
    }

    pub fn pause_for(&mut self, node: NodeId, span: u64) {
        let host = self.host(node);
        if host.process.is_none() || host.paused {
            return;
        }
        host.paused = true;
        let pid = host.pid;
        self.counts.pauses += 1;
        self.after(span, Event::Resume(node, pid));
    }

    /// It goes on with everything that has queued up. Whether its timers or its sockets are served first is chance.
    pub(super) fn resume(&mut self, node: NodeId) {
        let host = self.host(node);
        // It hears at once who leads coord by now.
        host.leads &= !host.paused;
        host.paused = false;
        let queued = std::mem::take(&mut host.queued);
        let (timers, rest): (Vec<Event>, Vec<Event>) =
            queued.into_iter().partition(|event| matches!(event, Event::Tick(..)));
        let (first, last) = if self.rng.chance(500_000) { (timers, rest) } else { (rest, timers) };
        first.into_iter().chain(last).for_each(|event| self.after(1, event));
    }

    /// What comes for a process that is stopped, as far as buffers hold it.
    pub(super) fn queue(&mut self, node: NodeId, event: Event) {
        let host = self.host(node);
        let is_frame = matches!(event, Event::Deliver { .. } | Event::Message { .. });
        if !is_frame || host.queued.len() < QUEUED_MAX {
            host.queued.push(event);
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        (self.loss_per_million, self.delay_max, self.sync_max) = (0, 3 * MS, 4 * MS);
    }

    /// Nothing goes wrong any more, and all nodes run.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.heal();
        for node in self.nodes() {
            let host = self.host(node);
            host.disk.cancel_faults();
            host.clear_disk();
            host.doomed = false;
            self.resume(node);
            self.after(1, Event::Start(node));
        }
    }
}
