//! What goes wrong between and within regions. Regions are cut apart for long; within one, no more disks are lost at a
//! time than a write may lose and stay. In some worlds of three regions one goes for good and is evicted by the others.

use super::world::{Event, MS, World};
use base::NodeId;
use disk::SimDisk;

impl World {
    pub fn strike(&mut self) {
        if self.is_calm {
            return;
        }
        let next = self.rng.between(100 * MS, 900 * MS);
        self.after(next, Event::Fault);
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        let node = *self.rng.pick(&nodes);
        match self.rng.between(0, 16) {
            0 => self.stop(node, false),
            1 | 2 => self.stop(node, true),
            3 => self.cut_power_soon(node),
            4 => self.hosts[&node].disk.fail_next_sync(),
            5 | 6 => self.lose_disk(node),
            7 => self.isolate(node),
            8..=10 => self.cut_region(node),
            11 => self.heal(),
            12 => {
                self.loss_per_million = self.rng.between(0, 60_000);
                self.delay_max = self.rng.between(MS, 120 * MS);
                self.sync_max = self.rng.between(MS, 60 * MS);
            }
            13 => self.host(node).skew_ms = self.rng.between(0, 800) as i64 - 400,
            14 => self.pause(node),
            _ => self.elect(node),
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

    fn cut_power_soon(&mut self, node: NodeId) {
        let ops = self.rng.between(0, 12);
        self.hosts[&node].disk.fail_after_ops(ops);
    }

    /// A sender's disk dies with its log.
    fn lose_disk(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        if self.hosts.values().any(|host| host.region == region && host.is_refilling) {
            return;
        }
        if self.hosts[&node].process.is_some() {
            self.end(node, true);
        }
        self.tally.wipes += 1;
        self.forget_noted(node);
        let seed = self.rng.next_u64();
        let host = self.host(node);
        (host.disk, host.is_refilling) = (SimDisk::new(seed), true);
        let away = self.rng.between(20 * MS, 1_500 * MS);
        self.after(away, Event::Start(node));
    }

    fn cut_between(&mut self, inside: impl Fn(NodeId) -> bool) {
        self.tally.splits += 1;
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        for one in nodes.iter().filter(|one| inside(**one)) {
            for other in nodes.iter().filter(|other| !inside(**other)) {
                self.cut.extend([(*one, *other), (*other, *one)]);
            }
        }
    }

    fn isolate(&mut self, node: NodeId) {
        self.cut_between(|other| other == node);
    }

    fn cut_region(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        let inside: Vec<NodeId> = self.nodes_of(region);
        self.cut_between(|node| inside.contains(&node));
    }

    fn pause(&mut self, node: NodeId) {
        let paused = self.hosts[&node].paused;
        self.host(node).paused = !paused;
    }

    fn elect(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        self.realm(region).leader = node;
    }

    /// Its machines are gone, and the others are told so.
    pub fn evict(&mut self) {
        let regions: Vec<_> = self.realms.keys().copied().collect();
        if self.is_calm || regions.len() < 3 {
            return;
        }
        let gone = *self.rng.pick(&regions);
        self.tally.evictions += 1;
        self.gone = Some(gone);
        for node in self.nodes_of(gone) {
            if self.hosts[&node].process.is_some() {
                self.end(node, true);
            }
            self.hosts.remove(&node);
        }
        self.realms.remove(&gone);
        self.clients.begin_sessions_anew();
        for region in self.realms.keys().copied().collect::<Vec<_>>() {
            let realm = self.realm(region);
            realm.table = realm.table.without(gone).expect("it was listed");
            self.spread_documents(region);
        }
    }
}
