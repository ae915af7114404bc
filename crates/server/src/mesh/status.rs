//! The status of this node's part of the mesh, for operators and metrics. Nothing is decided by it.

use crate::mesh::metrics::Asked;
use base::NodeId;
use mesh::mesh::status::Status;
use mesh::request::Reply;
use mesh::ring::Partition;
use mesh::topology::Phase;
use mesh::{RegionState, Topology};

#[derive(Clone, Debug, Default)]
pub struct MeshStatus {
    pub node: NodeId,
    /// Which life of the node this is: another after it has lost its disk.
    pub incarnation: u32,
    /// What the machine says of itself; none until there is a topology.
    pub machine: Option<Status>,
    /// How the other regions are doing, as seen from here.
    pub regions: Vec<RegionState>,
    /// How many partitions of the ring stand where in a move.
    pub moving: Moving,
    pub counts: Counts,
    /// The store's file.
    pub store_bytes: u64,
    /// All segments of the mesh's log.
    pub log_bytes: u64,
}

/// All zero while nothing moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moving {
    /// Read from the old list, written to both.
    pub n_pending: usize,
    /// Read from the new list, written to both.
    pub n_switched: usize,
    /// Only in the new place.
    pub n_moved: usize,
}

impl Moving {
    pub(crate) fn of(topology: &Topology) -> Moving {
        let mut moving = Moving::default();
        for partition in Partition::all() {
            match topology.phase(partition) {
                Phase::Still => {}
                Phase::Pending => moving.n_pending += 1,
                Phase::Switched => moving.n_switched += 1,
                Phase::Moved => moving.n_moved += 1,
            }
        }
        moving
    }
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
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

impl Counts {
    pub(crate) fn count(&mut self, asked: Asked, reply: &Reply) {
        let counter = match (reply, asked) {
            (Reply::Refused(_), _) => &mut self.refused,
            (Reply::Indeterminate { .. }, _) => &mut self.indeterminate,
            (Reply::Unavailable { .. }, _) => &mut self.unavailable,
            (_, Asked::Write | Asked::Batch) => &mut self.written,
            (_, Asked::Read) => &mut self.read,
            (_, Asked::Scan) => &mut self.scanned,
        };
        *counter += 1;
    }
}
