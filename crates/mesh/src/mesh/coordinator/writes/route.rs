//! Which nodes keep a key, and when enough of them have answered.

use crate::moves::majority;
use base::NodeId;

/// The nodes that keep a key now: those that reads ask, and those that must have writes as well while a partition moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub read: Vec<NodeId>,
    pub also: Vec<NodeId>,
}

impl Route {
    /// All replicas that must have a write.
    pub fn replicas(&self) -> impl Iterator<Item = NodeId> {
        self.read.iter().chain(self.also.iter().filter(|node| !self.read.contains(node))).copied()
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.read.contains(&node) || self.also.contains(&node)
    }

    pub fn needed(&self, wanted: Option<u8>) -> usize {
        wanted.map_or(majority(self.read.len()), usize::from)
    }

    /// Whether the wanted number of replicas has acknowledged, of the old list as of the new one.
    pub fn is_met(&self, acked: &[NodeId], wanted: Option<u8>) -> bool {
        let count = |list: &[NodeId]| list.iter().filter(|node| acked.contains(node)).count();
        let need = |list: &[NodeId]| wanted.map_or(majority(list.len()), usize::from).min(list.len());
        let met = |list: &[NodeId]| count(list) >= need(list);
        met(&self.read) && (self.also.is_empty() || met(&self.also))
    }
}
