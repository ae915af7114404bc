//! How long answers take. While at most one node is in trouble, and has been the only one for a while, a request to
//! another one is answered within a bound: with three copies of a key, two of its replicas are well and connected.

use crate::mesh_cluster::{MS, MeshCluster, TIMEOUT};
use base::NodeId;
use std::collections::BTreeMap;

/// Within this time an answer comes: longer than all waits for a node that says nothing, and for rounds of a ballot that
/// others have overtaken. A request that waits for its deadline takes longer.
pub const BOUND: u64 = TIMEOUT.as_micros() as u64;
/// The deadline of a request.
pub const DEADLINE: u64 = 4 * BOUND;
/// What has queued up in a node and in its peers is done so long after its trouble.
const SETTLE: u64 = 400 * MS;

#[derive(Debug, Default)]
pub struct AnswerTimes {
    /// When a node was last seen in trouble.
    trouble: BTreeMap<NodeId, u64>,
    /// By request: the node that was asked, and when.
    asked: BTreeMap<usize, (NodeId, u64)>,
}

impl AnswerTimes {
    /// Notes who is in trouble now.
    pub fn look(&mut self, cluster: &MeshCluster) {
        let is_in_trouble = |node: &NodeId| {
            let host = &cluster.hosts[node];
            let serves = host.process.as_ref().is_some_and(|process| process.is_serving());
            !serves || host.paused || cluster.is_isolated(*node)
        };
        let nodes = cluster.nodes().into_iter().filter(is_in_trouble);
        self.trouble.extend(nodes.map(|node| (node, cluster.now)));
    }

    fn in_trouble_since(&self, since: u64) -> Vec<NodeId> {
        self.trouble.iter().filter(|(_, at)| **at >= since).map(|(node, _)| *node).collect()
    }

    pub fn are_well(&self, now: u64) -> bool {
        self.in_trouble_since(now.saturating_sub(SETTLE)).is_empty()
    }

    pub fn ask(&mut self, nth: usize, node: NodeId, now: u64) {
        self.asked.insert(nth, (node, now));
    }

    /// A request was not answered within the bound: whether it should have been.
    pub fn judge(&mut self, nth: usize) -> Option<String> {
        let (node, began) = self.asked.remove(&nth)?;
        let troubled = self.in_trouble_since(began.saturating_sub(SETTLE));
        let is_excused = troubled.len() > 1 || troubled.contains(&node);
        let ms = BOUND / MS;
        (!is_excused).then(|| {
            format!("answers: node {} has not answered after {ms} ms; in trouble: {troubled:?}", node.0)
        })
    }
}
