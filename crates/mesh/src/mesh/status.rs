//! The status of a node for operators and metrics: its topology, how far its records are replicated, which peers it takes for
//! down. Nothing is decided by it.

use crate::frame::Shard;
use crate::hlc::Stamp;
use crate::mesh::Mesh;
use crate::topology::Epoch;
use base::NodeId;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineStatus {
    pub epoch: Epoch,
    pub is_serving: bool,
    /// The disk has no space, so nothing that grows is accepted.
    pub is_full: bool,
    /// Shards that this node keeps.
    pub n_shards: usize,
    /// How many of those shards it is still taking over.
    pub n_filling: usize,
    /// Everything up to this stamp is on every replica of every shard of this node.
    pub repaired_upto: Stamp,
    /// The digest of all records of this node; none while it is computed.
    pub digest: Option<u64>,
    pub down: Vec<NodeId>,
    /// For whom hints wait.
    pub hinted: Vec<NodeId>,
    /// Rows in memory that are not flushed yet.
    pub overlay_bytes: usize,
    pub n_operations: usize,
    /// Writes of this node that some region may not have yet: their bytes, and the numbers of the first and last.
    pub log_bytes: u64,
    pub log_begins: u64,
    pub log_ends: u64,
}

impl Mesh {
    /// A digest of each shard that this node keeps: the same on every replica that holds the same. None while they
    /// are counted.
    pub fn digests(&self) -> Option<BTreeMap<Shard, u64>> {
        let kept = self.membership.all_shards().filter(|shard| self.membership.keeps(*shard));
        self.replica
            .shards
            .are_built()
            .then(|| kept.map(|shard| (shard, self.replica.shards.sum(shard))).collect())
    }

    /// Gives dots and answers readers.
    pub fn is_serving(&self) -> bool {
        self.membership.is_serving()
    }

    /// The time of the newest stamp that this node has given or believed.
    pub fn clock_ms(&self) -> u64 {
        self.replica.clock.last().ms()
    }

    pub fn status(&self) -> MachineStatus {
        let kept: Vec<Shard> =
            self.membership.all_shards().filter(|shard| self.membership.keeps(*shard)).collect();
        let others = self.membership.topology.members().iter().map(|member| member.node);
        MachineStatus {
            epoch: self.membership.topology.epoch,
            is_serving: self.membership.is_serving(),
            is_full: self.replica.is_full(),
            n_shards: kept.len(),
            n_filling: kept.iter().filter(|shard| self.membership.is_newcomer(**shard)).count(),
            repaired_upto: kept
                .iter()
                .map(|shard| self.replica.shards.marks(*shard).of(self.params.actor.region))
                .min()
                .unwrap_or_default(),
            digest: self.replica.shards.are_built().then(|| self.replica.shards.digest()),
            down: others.filter(|node| self.membership.peers.is_down(*node)).collect(),
            hinted: self.repair.hints.waiting().collect(),
            overlay_bytes: self.replica.storage.bytes(),
            n_operations: self.coordinator.operations.len(),
            log_bytes: self.remote.log.bytes,
            log_begins: self.remote.log.trimmed,
            log_ends: self.remote.log.last,
        }
    }
}
