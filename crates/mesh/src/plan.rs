//! The plan that the cluster agrees on: the topology, and which incarnation of each node counts.
//! It is one document of coord, whose version is the epoch. A writer names the version that it replaces, so of two concurrent
//! writers one wins. A node that finds another incarnation of itself in the plan knows that its disk was lost.

use crate::topology::{Epoch, Topology};
use base::codec::{Reader, put_bytes, put_varint};
use base::{Code, NodeId};
use bytes::Bytes;
use std::collections::BTreeMap;

const VERSION: u8 = 1;
/// As many as a topology may have, and some that are on their way.
const NODES_MAX: usize = 2_048;
const ADDRESS_BYTES_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshPlan {
    pub topology: Topology,
    pub nodes: BTreeMap<NodeId, EnrolledNode>,
}

/// What is known of one node beside its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnrolledNode {
    /// The incarnation that the others count on; zero before the node's first report.
    pub incarnation: u32,
    /// The epoch with which it was found to lack what it should have.
    pub stale_since: Epoch,
    /// An operator asked it to hand over its data and leave.
    pub leaving: bool,
    /// Where a node that is no member of coord is reached; nothing for those that are.
    pub address: String,
}

impl MeshPlan {
    pub fn epoch(&self) -> Epoch {
        self.topology.epoch
    }

    pub fn next_epoch(&self) -> Epoch {
        Epoch(self.topology.epoch.0 + 1)
    }

    /// The same nodes under another topology.
    pub fn with(&self, topology: Topology) -> MeshPlan {
        MeshPlan { topology, nodes: self.nodes.clone() }
    }

    /// The incarnation of a node that the others count on, if it was ever heard.
    pub fn incarnation(&self, node: NodeId) -> Option<u32> {
        self.nodes.get(&node).map(|enrolled| enrolled.incarnation).filter(|incarnation| *incarnation != 0)
    }

    /// Others count on what an earlier incarnation of this node had.
    pub fn has_other_incarnation(&self, node: NodeId, incarnation: u32) -> bool {
        self.incarnation(node).is_some_and(|known| known != incarnation)
    }

    pub fn is_leaving(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|enrolled| enrolled.leaving)
    }

    /// The node at an address, if it is known and stays.
    pub fn node_at(&self, address: &str) -> Option<NodeId> {
        let mut known = self.nodes.iter().filter(|(_, enrolled)| !enrolled.leaving);
        known.find(|(_, enrolled)| enrolled.address == address).map(|(node, _)| *node)
    }

    /// The next plan, with a node that keeps data and nothing of coord.
    pub fn with_node(&self, node: NodeId, address: &str) -> MeshPlan {
        let mut next = self.renewed();
        next.nodes.insert(node, EnrolledNode { address: address.to_owned(), ..EnrolledNode::default() });
        next
    }

    /// The next plan, in which a node is told to hand over what it has and go, or to stay after all; none if it is told
    /// so already.
    pub fn with_leaving(&self, node: NodeId, leaving: bool) -> Result<Option<MeshPlan>, Code> {
        // A node that has gone may be ordered to stay, as long as coord would have it back.
        if self.topology.member(node).is_none() && !self.nodes.contains_key(&node) {
            return Err(Code::MemberNotFound);
        }
        let mut others = self.topology.members().iter().filter(|member| member.node != node);
        if leaving && others.all(|member| self.is_leaving(member.node)) {
            return Err(Code::TopologyBusy);
        }
        if self.is_leaving(node) == leaving {
            return Ok(None);
        }
        let mut next = self.renewed();
        next.nodes.entry(node).or_default().leaving = leaving;
        Ok(Some(next))
    }

    fn renewed(&self) -> MeshPlan {
        self.with(self.topology.renewed(self.next_epoch()))
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_bytes(&mut out, &self.topology.encode());
        put_varint(&mut out, self.nodes.len() as u64);
        for (node, enrolled) in &self.nodes {
            put_varint(&mut out, node.0);
            put_varint(&mut out, u64::from(enrolled.incarnation));
            put_varint(&mut out, enrolled.stale_since.0);
            out.push(u8::from(enrolled.leaving));
            put_bytes(&mut out, enrolled.address.as_bytes());
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<MeshPlan> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let topology = Topology::decode(reader.bytes()?)?;
        let count = reader.count().filter(|count| *count <= NODES_MAX)?;
        let nodes = (0..count).map(|_| decode_node(&mut reader)).collect::<Option<BTreeMap<_, _>>>()?;
        reader.is_empty().then_some(MeshPlan { topology, nodes })
    }
}

fn decode_node(reader: &mut Reader) -> Option<(NodeId, EnrolledNode)> {
    let node = NodeId(reader.varint()?);
    let incarnation = u32::try_from(reader.varint()?).ok()?;
    let stale_since = Epoch(reader.varint()?);
    let leaving = reader.bool()?;
    let address = reader.bytes().filter(|address| address.len() <= ADDRESS_BYTES_MAX)?;
    let address = String::from_utf8(address.into()).ok()?;
    Some((node, EnrolledNode { incarnation, stale_since, leaving, address }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::RegionId;
    use crate::topology::{Member, MemberState, NamespaceCopies};

    #[test]
    fn plans_survive_a_round_trip_and_cut_bytes_are_refused() {
        let member =
            Member { node: NodeId(7), zone: 1, points: 64, state: MemberState::Serving, stale: true };
        let namespace_id = NamespaceCopies { id: 0, copies: 3 };
        let topology = Topology::new(Epoch(9), RegionId::of("eu"), vec![member], vec![namespace_id]);
        let known =
            EnrolledNode { incarnation: 77, stale_since: Epoch(8), leaving: true, address: "h:1".to_owned() };
        let nodes = BTreeMap::from([(NodeId(7), known), (NodeId(8), EnrolledNode::default())]);
        let plan = MeshPlan { topology, nodes };
        let bytes = plan.encode();
        assert_eq!(MeshPlan::decode(bytes.clone()), Some(plan.clone()));
        assert!((0..bytes.len()).all(|cut| MeshPlan::decode(bytes.slice(..cut)).is_none()));
        assert!(plan.has_other_incarnation(NodeId(7), 78) && !plan.has_other_incarnation(NodeId(7), 77));
        assert!(!plan.has_other_incarnation(NodeId(8), 5), "it was never heard");
    }
}
