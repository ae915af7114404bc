//! How a node is doing, for people and for metrics: where it stands in its topology, how far its records are
//! known to be everywhere, whom it takes for down. Nothing decides by it.

use super::Mesh;
use crate::conflict::Conflict;
use crate::frame::Shard;
use crate::hlc::Stamp;
use crate::rows::{self, Rows};
use crate::topology::Epoch;
use base::NodeId;
use base::limits::MESH_PAGE_KEYS_MAX;
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub epoch: Epoch,
    pub is_serving: bool,
    /// Shards that this node keeps.
    pub n_shards: usize,
    /// Of those, shards that it is still taking over.
    pub n_filling: usize,
    /// Everything up to this stamp is on every replica of every shard of this node.
    pub repaired_upto: Stamp,
    pub down: Vec<NodeId>,
    /// For whom hints wait.
    pub hinted: Vec<NodeId>,
    /// Rows in memory that are not flushed yet.
    pub overlay_bytes: usize,
    pub n_operations: usize,
    /// Over everything that this node holds: equal for nodes that hold the same.
    pub digest: u64,
    /// Writes of this node that some region may not have yet: their bytes, and the numbers of the first and last.
    pub log_bytes: u64,
    pub log_begins: u64,
    pub log_ends: u64,
}

impl Mesh {
    /// Conflicts that were noticed here, oldest first, behind a place; and the place to go on from, unless that was
    /// all.
    pub fn conflicts(
        &self,
        rows: &dyn Rows,
        after: Option<Bytes>,
        limit: usize,
    ) -> (Vec<Conflict>, Option<Bytes>) {
        let (first, end) = rows::conflict_range();
        let limit = limit.clamp(1, MESH_PAGE_KEYS_MAX);
        let from = after.map_or(first.clone(), |after| Bytes::from([after.as_ref(), b"\0"].concat()));
        let from = from.max(first);
        let (mut found, mut last, mut more) = (Vec::new(), None, false);
        self.overlay.scan(rows, &from, &end, &mut |row, value| {
            more = found.len() >= limit;
            if !more {
                found.extend(Conflict::decode(value.clone()));
                last = Some(Bytes::copy_from_slice(row));
            }
            !more
        });
        (found, last.filter(|_| more))
    }

    pub fn status(&self) -> Status {
        let kept: Vec<Shard> = self.all_shards().filter(|shard| self.keeps(*shard)).collect();
        let others = self.topology.members().iter().map(|member| member.node);
        Status {
            epoch: self.topology.epoch,
            is_serving: self.is_serving(),
            n_shards: kept.len(),
            n_filling: kept.iter().filter(|shard| self.is_newcomer(**shard)).count(),
            repaired_upto: kept
                .iter()
                .map(|shard| self.shards.marks(*shard).of(self.params.actor.region))
                .min()
                .unwrap_or_default(),
            down: others.filter(|node| self.peers.is_down(*node)).collect(),
            hinted: self.hints.waiting().collect(),
            overlay_bytes: self.overlay.bytes(),
            n_operations: self.operations.len(),
            digest: self.shards.digest(),
            log_bytes: self.abroad.log.bytes,
            log_begins: self.abroad.log.trimmed,
            log_ends: self.abroad.log.last,
        }
    }
}
