//! What goes wrong in the mesh's world. No more disks are lost at a time than a write may lose and stay: the next goes
//! when the node that lost the last one serves again.

use super::host::Host;
use super::world::{Event, MS, World};
use base::NodeId;
use disk::SimDisk;
use mesh::Epoch;

const YEAR_MS: i64 = 365 * 24 * 3_600 * 1_000;
const NODES_MAX: usize = 6;

impl World {
    pub fn strike(&mut self) {
        if self.is_calm {
            return;
        }
        let next = self.rng.between(100 * MS, 900 * MS);
        self.after(next, Event::Fault);
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        let node = *self.rng.pick(&nodes);
        match self.rng.between(0, 14) {
            0 | 1 => self.stop(node, false),
            2 | 3 => self.stop(node, true),
            4 => self.cut_power_soon(node),
            5 => self.hosts[&node].disk.fail_next_sync(),
            6 => self.lose_disk(node),
            7 => self.split(node),
            8 => self.heal(),
            9 => {
                self.loss_per_million = self.rng.between(0, 150_000);
                self.delay_max = self.rng.between(MS, 120 * MS);
                self.sync_max = self.rng.between(MS, 60 * MS);
            }
            10 => self.set_clock(node),
            11 => self.pause(node),
            12 => self.leader = node,
            _ => self.change_the_ring(node),
        }
    }

    fn stop(&mut self, node: NodeId, power_cut: bool) {
        if self.hosts[&node].process.is_some() {
            let power_cut = power_cut || self.hosts[&node].disk.has_lost_power();
            self.end(node, power_cut);
            let away = self.rng.between(20 * MS, 2_500 * MS);
            self.after(away, Event::Start(node));
        }
    }

    /// In the midst of whatever the disk does next.
    fn cut_power_soon(&mut self, node: NodeId) {
        let ops = self.rng.between(0, 12);
        self.hosts[&node].disk.fail_after_ops(ops);
    }

    fn lose_disk(&mut self, node: NodeId) {
        if self.hosts.values().any(|host| host.is_refilling) {
            return;
        }
        if self.hosts[&node].process.is_some() {
            self.end(node, true);
        }
        self.tally.wipes += 1;
        let seed = self.rng.next_u64();
        let host: &mut Host = self.host(node);
        (host.disk, host.is_refilling, host.reported) = (SimDisk::new(seed), true, Epoch::default());
        let away = self.rng.between(20 * MS, 1_500 * MS);
        self.after(away, Event::Start(node));
    }

    /// One node, or one with another, cannot be reached; sometimes only one way.
    fn split(&mut self, node: NodeId) {
        self.tally.splits += 1;
        let one_way = self.rng.chance(250_000);
        let with =
            self.hosts.keys().copied().find(|other| *other > node).filter(|_| self.rng.chance(300_000));
        let inside = |other: NodeId| other == node || Some(other) == with;
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        for one in nodes.iter().filter(|one| inside(**one)) {
            for other in nodes.iter().filter(|other| !inside(**other)) {
                self.cut.insert((*one, *other));
                if !one_way {
                    self.cut.insert((*other, *one));
                }
            }
        }
    }

    /// Clocks disagree a little, and one may be a year ahead. Where all replicas of a key are ahead, that is the time.
    fn set_clock(&mut self, node: NodeId) {
        let others = self.hosts.iter().any(|(other, host)| *other != node && host.was_ahead);
        let year = self.rng.chance(250_000) && !others;
        let little = self.rng.between(0, 600) as i64 - 300;
        let host = self.host(node);
        host.was_ahead |= year;
        host.skew_ms = if year { YEAR_MS } else { little };
    }

    fn pause(&mut self, node: NodeId) {
        let paused = self.hosts[&node].paused;
        self.host(node).paused = !paused;
    }

    /// Somebody comes, or is told to go, or to stay after all.
    fn change_the_ring(&mut self, node: NodeId) {
        let Some(plan) = self.document.clone() else { return };
        self.tally.moves += 1;
        if self.hosts.len() < NODES_MAX && self.rng.chance(400_000) {
            let new = NodeId(self.hosts.len() as u64 + 1);
            self.members.insert(new);
            return self.add(new);
        }
        let leaves = |node: NodeId| plan.nodes.get(&node).is_some_and(|enrolled| enrolled.leaving);
        let stays = plan.topology.members().iter().filter(|member| !leaves(member.node)).count();
        if plan.topology.member(node).is_none() && !leaves(node) || stays <= 3 && !leaves(node) {
            return;
        }
        let mut next = plan.with(plan.topology.renewed(plan.next_epoch()));
        let enrolled = next.nodes.entry(node).or_default();
        enrolled.leaving = !enrolled.leaving;
        self.after(MS, Event::Propose { expect: plan.epoch().0, plan: next });
    }
}
