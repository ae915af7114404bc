//! What goes wrong in the mesh's world, and how the ring changes meanwhile.

use super::world::World;
use crate::mesh_cluster::{Event, MS, WorldEvent};
use base::NodeId;
use mesh::documents;

const YEAR_MS: i64 = 365 * 24 * 3_600 * 1_000;
const NODES_MAX: usize = 6;
const LOSS_MAX_PER_MILLION: u64 = 150_000;

impl World {
    pub fn strike(&mut self) {
        let cluster = &mut self.cluster;
        if cluster.is_calm {
            return;
        }
        let next = cluster.rng.between(100 * MS, 900 * MS);
        cluster.schedule(next, WorldEvent::Fault);
        let nodes = cluster.nodes();
        let node = *cluster.rng.pick(&nodes);
        if self.scenario.judges_answer_times {
            return self.strike_alone(node);
        }
        if self.scenario.damages_logs && cluster.rng.chance(300_000) {
            // A key with one copy is gone with its log.
            if cluster.rng.chance(250_000) {
                nodes.into_iter().for_each(|node| cluster.stop(node, true));
            } else if self.copies > 1 {
                cluster.damage_log(node);
            }
            return;
        }
        match cluster.rng.between(0, 17) {
            0 | 1 => cluster.stop(node, false),
            2 | 3 => cluster.stop(node, true),
            4 => cluster.cut_power_soon(node),
            5 | 6 => cluster.cut_power_after_start(node),
            7 => cluster.hosts[&node].disk.fail_next_sync(),
            // A key with one copy is gone with its disk.
            8 if self.copies > 1 => cluster.lose_disk(node),
            9 => self.split(node),
            10 => cluster.heal(),
            11 => cluster.worsen(LOSS_MAX_PER_MILLION),
            12 if !self.scenario.clocks_agree => self.set_clock(node),
            12 | 13 => cluster.pause(node),
            14 => cluster.fill_disk(node),
            15 => self.region_coord().leader = node,
            16 => self.change_the_ring(node),
            _ => {}
        }
    }

    /// One node gets into trouble, if all are well.
    fn strike_alone(&mut self, node: NodeId) {
        let cluster = &mut self.cluster;
        cluster.heal();
        if !self.answer_times.are_well(cluster.now) {
            return;
        }
        match cluster.rng.between(0, 4) {
            0 => cluster.stop(node, false),
            1 => cluster.stop(node, true),
            2 => cluster.cut_around(|other| other == node, false),
            _ => cluster.pause(node),
        }
        self.answer_times.look(cluster);
    }

    /// One node, or one with another, cannot be reached; sometimes only one way.
    fn split(&mut self, node: NodeId) {
        let one_way = self.cluster.rng.chance(250_000);
        let mut later = self.cluster.nodes().into_iter().filter(|other| *other > node);
        let with = later.next().filter(|_| self.cluster.rng.chance(300_000));
        self.cluster.cut_around(|other| other == node || Some(other) == with, one_way);
    }

    /// Clocks disagree a little, and one may be a year ahead. Where all replicas of a key are ahead, that is the time; of
    /// two replicas one that is ahead is all of them while the other refills its disk.
    fn set_clock(&mut self, node: NodeId) {
        let others = self.cluster.hosts.iter().any(|(other, host)| *other != node && host.was_ahead);
        let year = self.cluster.rng.chance(250_000) && !others && self.copies > 2;
        let little = self.cluster.rng.between(0, 600) as i64 - 300;
        let host = self.cluster.host(node);
        host.was_ahead |= year;
        host.skew_ms = if year { YEAR_MS } else { little };
    }

    /// A node joins, or is asked to leave, or to stay after all.
    fn change_the_ring(&mut self, node: NodeId) {
        let Some(plan) = self.region_coord().plan() else { return };
        self.cluster.counts.moves += 1;
        if self.cluster.hosts.len() < NODES_MAX && self.cluster.rng.chance(400_000) {
            let new = NodeId(self.cluster.hosts.len() as u64 + 1);
            self.region_coord().members.insert(new);
            return self.cluster.add(new, self.region);
        }
        let stays = plan.topology.members().iter().filter(|member| !plan.is_leaving(member.node)).count();
        let leaving = !plan.is_leaving(node);
        if leaving && (plan.topology.member(node).is_none() || stays <= usize::from(self.copies).max(3)) {
            return;
        }
        let Ok(Some(next)) = plan.with_leaving(node, leaving) else { return };
        let (region, name, expect) = (self.region, documents::PLAN.to_owned(), plan.epoch().0);
        self.cluster.after(MS, Event::Propose { region, name, expect, bytes: next.encode() });
    }
}
