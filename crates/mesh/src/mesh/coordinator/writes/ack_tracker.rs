//! Tracks the acknowledgements of a write: which replicas have it, which may still acknowledge, and which will not. Whether
//! the quorum can still be reached depends on nothing else. A replica that may still answer is never given up: one with
//! another topology counts as such, because it is asked again.

use super::Route;
use base::NodeId;

#[derive(Debug, Default)]
pub(super) struct AckTracker {
    acked: Vec<NodeId>,
    /// Not waited for: down and not asked, without disk space, or it has refused the write.
    absent: Vec<NodeId>,
    /// Out of step when they were asked. They have hints, and are asked again as long as the client waits.
    late: Vec<NodeId>,
    /// Stand-ins, each with the replica that it stands in for.
    stand_ins: Vec<(NodeId, NodeId)>,
}

impl AckTracker {
    pub fn acked(&self) -> &[NodeId] {
        &self.acked
    }

    /// The replica that a node's answer counts for: itself, or the replica that it stands in for.
    pub fn target(&self, node: NodeId) -> NodeId {
        self.stand_ins.iter().find(|(other, _)| *other == node).map_or(node, |(_, target)| *target)
    }

    pub fn is_stand_in(&self, node: NodeId) -> bool {
        self.stand_ins.iter().any(|(other, _)| *other == node)
    }

    /// A node stands in for it, and has not declined.
    pub fn is_stood_in_for(&self, target: NodeId) -> bool {
        self.stand_ins.iter().any(|(node, other)| *other == target && !self.absent.contains(node))
    }

    pub fn is_acked(&self, node: NodeId) -> bool {
        self.acked.contains(&node)
    }

    /// The node has answered, or need not be waited for.
    pub fn is_settled(&self, node: NodeId) -> bool {
        self.acked.contains(&node) || self.absent.contains(&node) || self.late.contains(&node)
    }

    pub fn add_ack(&mut self, node: NodeId) {
        self.acked.push(node);
    }

    pub fn add_absent(&mut self, node: NodeId) {
        self.late.retain(|other| *other != node);
        self.absent.push(node);
    }

    pub fn add_late(&mut self, node: NodeId) {
        self.late.push(node);
    }

    pub fn add_stand_in(&mut self, node: NodeId, target: NodeId) {
        self.stand_ins.push((node, target));
    }

    /// The nodes to ask again; they are asked once.
    pub fn take_late(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.late)
    }

    /// The route has changed: the replicas of the new route that have not acknowledged the write are asked. A stand-in that is a replica
    /// by now still speaks for whom it stood in, so that it is counted once.
    pub fn reroute(&mut self, route: &Route) {
        (self.absent, self.late) = (Vec::new(), Vec::new());
        let AckTracker { acked, stand_ins, .. } = self;
        stand_ins.retain(|(node, target)| acked.contains(target) || route.contains(*node));
    }

    pub fn is_met(&self, route: &Route, wanted: Option<u8>) -> bool {
        route.is_met(&self.acked, wanted)
    }

    /// Too few replicas have acknowledged the write or may still do so.
    pub fn is_out_of_reach(&self, route: &Route, wanted: Option<u8>) -> bool {
        if self.absent.is_empty() {
            return false;
        }
        let may_have = |node: &NodeId| {
            self.acked.contains(node) || !self.absent.contains(node) || self.is_stood_in_for(*node)
        };
        !route.is_met(&route.replicas().filter(may_have).collect::<Vec<_>>(), wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeId; 5] = [NodeId(1), NodeId(2), NodeId(3), NodeId(4), NodeId(5)];

    fn still() -> Route {
        Route { read: NODES[..3].to_vec(), also: Vec::new() }
    }

    #[test]
    fn a_majority_is_out_of_reach_when_two_of_three_are_absent() {
        let mut tracker = AckTracker::default();
        tracker.add_ack(NodeId(1));
        tracker.add_absent(NodeId(2));
        assert!(!tracker.is_out_of_reach(&still(), None), "the third may answer");
        assert!(tracker.is_out_of_reach(&still(), Some(3)));
        tracker.add_absent(NodeId(3));
        assert!(tracker.is_out_of_reach(&still(), None));
        assert!(!tracker.is_out_of_reach(&still(), Some(1)));
        tracker.add_ack(NodeId(3));
        assert!(tracker.is_met(&still(), None), "it has taken it after all");
    }

    #[test]
    fn a_replica_with_another_topology_is_not_given_up() {
        let mut tracker = AckTracker::default();
        tracker.add_ack(NodeId(1));
        tracker.add_absent(NodeId(2));
        tracker.add_late(NodeId(3));
        assert!(!tracker.is_out_of_reach(&still(), None));
        tracker.add_absent(NodeId(3));
        assert!(tracker.is_out_of_reach(&still(), None));
        tracker.reroute(&still());
        assert!(!tracker.is_out_of_reach(&still(), None), "all are asked again");
    }

    #[test]
    fn stand_ins_are_waited_for_until_they_say_no() {
        let mut tracker = AckTracker::default();
        [2, 3].into_iter().for_each(|node| tracker.add_absent(NodeId(node)));
        tracker.add_stand_in(NodeId(4), NodeId(2));
        assert!(!tracker.is_out_of_reach(&still(), None));
        tracker.add_absent(NodeId(4));
        assert!(tracker.is_out_of_reach(&still(), None));
        tracker.add_stand_in(NodeId(5), NodeId(2));
        assert_eq!(tracker.target(NodeId(5)), NodeId(2));
        assert!(!tracker.is_out_of_reach(&still(), None));
    }

    #[test]
    fn while_a_partition_moves_both_lists_must_be_within_reach() {
        let moving = Route { read: NODES[..3].to_vec(), also: NODES[2..].to_vec() };
        let mut tracker = AckTracker::default();
        NODES[..3].iter().for_each(|node| tracker.add_ack(*node));
        tracker.add_absent(NodeId(4));
        assert!(!tracker.is_out_of_reach(&moving, None));
        tracker.add_absent(NodeId(5));
        assert!(tracker.is_out_of_reach(&moving, None));
    }
}
