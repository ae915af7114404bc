//! Which topologies of peers are believed. Each step of a plan raises the epoch by one, so an epoch far ahead of ours is
//! forged and would stand for ever: it is followed only if two nodes report the same topology, or one where the region has
//! fewer than two others. The agreed topology comes as a document and is followed at any epoch. An epoch far behind the
//! known one shows that the known one was forged, and is judged in the same way, so that a region recovers when the lies end.

use crate::mutant::Mutant;
use crate::topology::{Epoch, Topology};
use base::NodeId;
use base::limits::MEMBERS_MAX;
use base::mutant::planted;
use std::collections::BTreeMap;

/// How far ahead an epoch may be that one node alone says.
const JUMP_MAX: u64 = 1 << 20;
/// So many nodes say the same of one that is further ahead.
const NEEDED: usize = 2;

/// The last topology that each node has told, of those that are far ahead.
#[derive(Default)]
pub(in crate::mesh) struct TopologyWitnesses {
    told: BTreeMap<NodeId, Topology>,
}

impl TopologyWitnesses {
    /// Whether a node that goes by `known` may follow what this one says to follow.
    pub fn confirm(&mut self, from: NodeId, topology: &Topology, known: Option<&Topology>) -> bool {
        let epoch = known.map_or(0, |known| known.epoch.0);
        if topology.epoch.0.abs_diff(epoch) <= JUMP_MAX || planted(Mutant::TopologyOfOne) {
            return true;
        }
        let others = |topology: &Topology| topology.members().len().saturating_sub(1);
        let needed = known.map_or(0, others).max(others(topology)).clamp(1, NEEDED);
        if self.told.len() < 2 * MEMBERS_MAX || self.told.contains_key(&from) {
            self.told.insert(from, topology.clone());
        }
        let said = self.told.values().filter(|told| *told == topology).count();
        let enough = said >= needed;
        if enough {
            self.told.clear();
        }
        enough
    }
}

/// Whether an epoch is so far behind the known one that the known one cannot be real.
pub(in crate::mesh) fn is_far_behind(epoch: Epoch, known: Epoch) -> bool {
    known.0.saturating_sub(epoch.0) > JUMP_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegionId;
    use crate::topology::{Member, MemberState, NamespaceCopies};
    use base::mutant::plant;

    fn topology(epoch: u64, nodes: u64) -> Topology {
        let member = |node| Member {
            node: NodeId(node),
            zone: 0,
            points: 16,
            state: MemberState::Serving,
            stale: false,
        };
        let members = (1..=nodes).map(member).collect();
        Topology::new(Epoch(epoch), RegionId::of("here"), members, vec![NamespaceCopies { id: 0, copies: 3 }])
    }

    #[test]
    fn an_epoch_far_ahead_is_believed_of_two_nodes_or_where_there_is_no_other() {
        plant(None);
        let (known, far) = (topology(3, 3), topology(u64::MAX, 3));
        let mut witnesses = TopologyWitnesses::default();
        let mut tell = |from: u64, told: &Topology| witnesses.confirm(NodeId(from), told, Some(&known));
        assert!(tell(2, &topology(4, 3)) && tell(2, &topology(3 + JUMP_MAX, 3)));
        assert!(!tell(2, &far) && !tell(2, &far), "the same node twice is one");
        assert!(!tell(3, &topology(u64::MAX - 1, 3)) && !tell(3, &topology(u64::MAX, 1)));
        assert!(tell(3, &far), "both others follow it");
        assert!(!tell(2, &far), "what was said before counts no more");
        assert!(witnesses.confirm(NodeId(2), &topology(u64::MAX, 2), Some(&topology(3, 2))), "of two");
        plant(Some(Mutant::TopologyOfOne.into()));
        let taken = TopologyWitnesses::default().confirm(NodeId(2), &far, Some(&known));
        plant(None);
        assert!(taken, "the planted bug takes the word of one");
    }

    #[test]
    fn what_is_told_is_bounded() {
        plant(None);
        let mut witnesses = TopologyWitnesses::default();
        for node in 0..1_000 {
            witnesses.confirm(NodeId(node), &topology(u64::MAX - node, 3), Some(&topology(3, 3)));
        }
        assert!(witnesses.told.len() <= 2 * MEMBERS_MAX);
    }
}
