//! The status of this node's part of the mesh, for operators and metrics. Nothing is decided by it.

use crate::mesh::metrics::RequestKind;
use base::NodeId;
use mesh::{MachineStatus, MovePhase, Partition, RegionState, Reply, Topology};

#[derive(Clone, Debug, Default)]
pub struct MeshStatus {
    pub node: NodeId,
    /// Another one after the node has lost its disk.
    pub incarnation: u32,
    /// What the machine says of itself; none until there is a topology.
    pub machine: Option<MachineStatus>,
    /// How the other regions are doing, as seen from here.
    pub regions: Vec<RegionState>,
    /// How many partitions of the ring stand where in a move.
    pub moving: MoveCounts,
    pub counts: MeshCounts,
    /// The store's file.
    pub store_bytes: u64,
    /// All segments of the mesh's log.
    pub log_bytes: u64,
}

/// All zero while nothing moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Read from the old list, written to both.
    pub n_pending: usize,
    /// Read from the new list, written to both.
    pub n_switched: usize,
    /// Only in the new place.
    pub n_moved: usize,
}

impl MoveCounts {
    pub(crate) fn of(topology: &Topology) -> MoveCounts {
        let mut moving = MoveCounts::default();
        for partition in Partition::all() {
            match topology.phase(partition) {
                MovePhase::Still => {}
                MovePhase::Pending => moving.n_pending += 1,
                MovePhase::Switched => moving.n_switched += 1,
                MovePhase::Moved => moving.n_moved += 1,
            }
        }
        moving
    }
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshCounts {
    pub written: u64,
    pub read: u64,
    pub scanned: u64,
    /// Writes of which too few replicas were heard.
    pub indeterminate: u64,
    /// Reads and scans of which too few replicas were heard.
    pub unavailable: u64,
    pub refused: u64,
    pub hinted: u64,
    /// Claims of peers about this node's own writes that cannot be.
    pub claims_refused: u64,
    /// Records that comparing trees brought from one replica to another.
    pub repaired: u64,
    pub conflicts: u64,
    pub purged: u64,
    /// Records whose clock was further ahead than is believed.
    pub clocks_ahead: u64,
}

impl MeshCounts {
    pub(crate) fn count(&mut self, kind: RequestKind, reply: &Reply) {
        let counter = match (reply, kind) {
            (Reply::Refused(_), _) => &mut self.refused,
            (Reply::Indeterminate { .. }, _) => &mut self.indeterminate,
            (Reply::Unavailable { .. }, _) => &mut self.unavailable,
            (_, RequestKind::Write | RequestKind::Batch) => &mut self.written,
            (_, RequestKind::Read) => &mut self.read,
            (_, RequestKind::Scan) => &mut self.scanned,
        };
        *counter += 1;
    }
}
