//! What a member knows about itself at a glance: written by the core's threads, read by anyone, never locked.

use base::{ClusterId, Index, NodeId, Revision, Term};

/// Who this member is. Fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct Identity {
    pub cluster: ClusterId,
    pub member: NodeId,
    pub name: String,
}

#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub term: Term,
    pub leader: Option<NodeId>,
    pub is_leader: bool,
    pub committed: Index,
    pub applied: Index,
    pub revision: Revision,
}
