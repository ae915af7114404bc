//! Follows topologies: those that peers tell, those that were agreed on, and what changes with them.

use crate::frame::{Frame, Shard};
use crate::mesh::membership::routes::Routes;
use crate::mesh::membership::witness::is_far_behind;
use crate::mesh::membership::{HELLO_INTERVAL, Readiness};
use crate::mesh::repair::hints::Hints;
use crate::mesh::{Mesh, MeshEvent, Then, Turn};
use crate::moves::MoveReport;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::rows;
use crate::topology::Topology;
use base::NodeId;
use base::mutant::planted;
use bytes::Bytes;

impl Mesh {
    pub(in crate::mesh) fn step_startup(&mut self, t: &mut Turn<'_>) {
        if self.membership.readiness.is_ready {
            return;
        }
        if self.membership.has_heard_majorities() {
            self.membership.readiness.is_ready = true;
            t.out.events.push(MeshEvent::Ready);
            return self.report_epoch(t);
        }
        if t.now.at >= self.membership.readiness.hello_at {
            self.membership.readiness.hello_at = t.now.at.after(HELLO_INTERVAL);
            let nodes = self.membership.topology.members().iter().map(|member| member.node);
            let others: Vec<NodeId> = nodes.filter(|node| *node != self.membership.me).collect();
            for node in others {
                self.send(t, node, Frame::Hello);
            }
        }
    }

    pub(in crate::mesh) fn step_welcome(&mut self, t: &mut Turn<'_>, from: NodeId) {
        self.membership.readiness.heard.insert(from);
        self.step_startup(t);
    }

    /// What another node says to follow. What the cluster has agreed on comes by `step_topology`.
    pub(in crate::mesh) fn step_peer_topology(&mut self, t: &mut Turn<'_>, from: NodeId, topology: Topology) {
        let is_news = topology.epoch > self.membership.topology.epoch
            && topology.region == self.membership.topology.region;
        if is_news && self.membership.witnesses.confirm(from, &topology, Some(&self.membership.topology)) {
            self.step_topology(t, topology);
        }
    }

    /// An agreed topology far behind the one that this node goes by shows that the latter was forged.
    pub(in crate::mesh) fn step_topology(&mut self, t: &mut Turn<'_>, topology: Topology) {
        let is_news = topology.epoch > self.membership.topology.epoch
            || is_far_behind(topology.epoch, self.membership.topology.epoch);
        if !is_news || topology.region != self.membership.topology.region {
            return;
        }
        if self.membership.readiness.unenrolled {
            return self.follow_unenrolled(t, topology);
        }
        let begins = topology.is_moving() && topology.began != self.membership.topology.began;
        let kept: Vec<Shard> =
            self.membership.all_shards().filter(|shard| self.membership.keeps(*shard)).collect();
        let was_stale = self.membership.is_stale();
        self.replica.storage.put_row(Bytes::from_static(rows::TOPOLOGY), Some(topology.encode()));
        self.membership.topology = topology;
        self.remote.remove_local(&self.membership.topology);
        self.membership.routes = Routes::of(&self.membership.topology);
        if begins {
            // What is left of an earlier time must not pass for what the move brings.
            let new: Vec<Shard> =
                self.membership.all_shards().filter(|shard| self.membership.is_newcomer(*shard)).collect();
            // This node does not know what the other replicas deleted before.
            if !new.is_empty() {
                self.replica.note_purged(self.replica.clock.last());
            }
            for shard in new {
                self.wipe(t, shard, usize::MAX);
            }
        }
        if self.membership.is_stale() && !was_stale {
            self.repair.forget_sources();
        }
        let lost: Vec<Shard> = kept.into_iter().filter(|shard| !self.membership.keeps(*shard)).collect();
        self.plan_exchanges(begins, lost);
        self.reroute_writes(t);
        self.reroute_reads(t);
        self.reroute_collections(t);
        self.reroute_proposals(t);
        self.report_epoch(t);
    }

    /// Reports the epoch once it is durable: other nodes rely on it that this one never follows an older epoch again, even after a crash.
    pub(in crate::mesh) fn report_epoch(&mut self, t: &mut Turn<'_>) {
        let report = MoveReport::At(self.membership.topology.epoch);
        if planted(Mutant::TopologyNotDurable) {
            return t.out.reports.push(report);
        }
        self.after(t, self.replica.storage.horizon(), Then::MoveReport(report));
    }

    /// An unenrolled node keeps, compares and reports nothing: only its routes change.
    fn follow_unenrolled(&mut self, t: &mut Turn<'_>, topology: Topology) {
        self.membership.topology = topology;
        self.membership.routes = Routes::of(&self.membership.topology);
        self.reroute_reads(t);
        self.reroute_collections(t);
        self.reroute_proposals(t);
    }

    /// The node starts with the topology that it followed while it was not enrolled.
    pub(in crate::mesh) fn step_enrolled(&mut self, wiped: bool) {
        if self.membership.readiness.unenrolled {
            self.membership.readiness = Readiness::new(false, wiped);
            self.repair.hints = Hints::of(&self.membership.topology, self.membership.me);
            self.membership.agreed_topology = Some(self.membership.topology.clone());
        }
    }

    /// Removes records of a shard, up to a number, and says how many there were.
    pub(in crate::mesh) fn wipe(&mut self, t: &mut Turn<'_>, shard: Shard, most: usize) -> usize {
        let (from, to) = (rows::records_from(shard.partition, b""), rows::records_end(shard.partition));
        let mut keys = Vec::new();
        self.replica.storage.scan(t.rows, &from, &to, &mut |row, _| {
            let key = rows::record_key(row).filter(|key| self.membership.shard_of(key) == Some(shard));
            keys.extend(key);
            keys.len() < most
        });
        for key in &keys {
            let local = self.replica.load(t, key);
            let is_collection = local.record.as_ref().is_some_and(Record::is_collection);
            if is_collection && !self.replica.remove_rows(t, key, most) {
                // The header goes with the last of its rows.
                return keys.len();
            }
            self.remove(t, key, shard, &local);
        }
        self.forget_undecided(t, shard);
        self.end_exchanges(t, shard);
        self.replica.shards.forget(shard);
        self.replica.storage.put_row(rows::mark(shard.partition, shard.copies), None);
        keys.len()
    }
}
