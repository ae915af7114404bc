//! When a partition may take the next step of a move, computed from the reports of the nodes.
//! Two rules, with Q the majority of N copies and F = N − Q + 1, the fewest that every quorum must meet.
//! *Pending → switched*: every newcomer of the list has fetched everything from F of the old replicas, each of which had
//! refused older epochs before; so it has whatever was acknowledged under an older epoch.
//! *Switched → moved*: F of the old replicas have durably acknowledged the switch and refuse older epochs; so no reader of
//! the old list finds a quorum that the writers of the new list have left.

use crate::mutant::Mutant;
use crate::placement::Placement;
use crate::ring::{Partition, Partitions};
use crate::topology::{Epoch, MovePhase, Topology};
use base::NodeId;
use base::mutant::planted;
use std::collections::{BTreeMap, BTreeSet};

/// The majority of `copies`.
pub fn majority(copies: usize) -> usize {
    copies / 2 + 1
}

/// The fewest of `copies` that every majority must meet.
pub fn blocking(copies: usize) -> usize {
    copies + 1 - majority(copies)
}

/// What one node has to say about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReport {
    /// Durably at this epoch: older ones are refused.
    At(Epoch),
    /// Everything that the old replicas of a partition had is here, for this number of copies.
    Filled { partition: Partition, copies: u8 },
    /// A node that was away for too long has caught up.
    CaughtUp,
}

/// What has been reported since the move began.
#[derive(Clone, Debug, Default)]
pub struct MoveProgress {
    epochs: BTreeMap<NodeId, Epoch>,
    filled: BTreeSet<(Partition, u8, NodeId)>,
    /// The nodes that will never answer again.
    gone: BTreeSet<NodeId>,
}

/// Partitions that may take their next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveSteps {
    pub switch: Partitions,
    pub settle: Partitions,
}

impl MoveSteps {
    pub fn is_empty(&self) -> bool {
        self.switch.is_empty() && self.settle.is_empty()
    }
}

impl MoveProgress {
    pub fn report(&mut self, from: NodeId, report: MoveReport) {
        match report {
            MoveReport::At(epoch) => {
                let known = self.epochs.entry(from).or_default();
                *known = epoch.max(*known);
            }
            MoveReport::Filled { partition, copies } => {
                self.filled.insert((partition, copies, from));
            }
            MoveReport::CaughtUp => {}
        }
    }

    /// A node that the cluster has removed. It never serves again: every quorum is found among the others, so a
    /// move waits neither until it has everything nor until it refuses the past.
    pub fn leave_out(&mut self, node: NodeId) {
        self.gone.insert(node);
    }

    pub fn steps(&self, topology: &Topology, placement: &Placement) -> MoveSteps {
        let mut steps = MoveSteps::default();
        let copies = topology.copies_in_use();
        let all = |rule: &dyn Fn(u8) -> bool| copies.iter().all(|copies| rule(*copies));
        for partition in Partition::all() {
            match topology.phase(partition) {
                MovePhase::Pending if all(&|copies| self.is_filled(partition, copies, placement)) => {
                    steps.switch.insert(partition);
                }
                MovePhase::Switched
                    if all(&|copies| self.is_reported(partition, copies, topology, placement)) =>
                {
                    steps.settle.insert(partition);
                }
                _ => {}
            }
        }
        steps
    }

    fn is_filled(&self, partition: Partition, copies: u8, placement: &Placement) -> bool {
        let has_it = |node| self.filled.contains(&(partition, copies, node)) || self.gone.contains(&node);
        newcomers(placement, partition, copies).all(has_it)
    }

    fn is_reported(
        &self,
        partition: Partition,
        copies: u8,
        topology: &Topology,
        placement: &Placement,
    ) -> bool {
        let old = placement.now.of(partition, copies.into());
        let follows = |node: &NodeId| self.epochs.get(node).is_some_and(|epoch| *epoch >= topology.epoch);
        let heard = |node: &&NodeId| follows(node) || self.gone.contains(node);
        planted(Mutant::EpochSkipped) || old.iter().filter(heard).count() >= blocking(old.len())
    }
}

/// Nodes that are in the new list of a partition and not in the old one.
pub fn newcomers(placement: &Placement, partition: Partition, copies: u8) -> impl Iterator<Item = NodeId> {
    let old = placement.now.of(partition, copies.into());
    placement.next.of(partition, copies.into()).iter().filter(|node| !old.contains(node)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::RegionId;
    use crate::topology::{Member, MemberState, NamespaceCopies};

    fn member(node: u64) -> Member {
        Member {
            node: NodeId(node),
            zone: node as u32,
            points: 64,
            state: MemberState::Serving,
            stale: false,
        }
    }

    fn moving() -> (Topology, Placement) {
        let members = (1..=5).map(member).collect();
        let five = Topology::new(Epoch(1), RegionId(0), members, vec![NamespaceCopies { id: 0, copies: 3 }]);
        let moving = five.begin(Epoch(2), &[member(6)], &[]).unwrap();
        let placement = moving.placement();
        (moving, placement)
    }

    #[test]
    fn every_quorum_meets_the_blocking_number() {
        for copies in 1..9 {
            assert!(majority(copies) + blocking(copies) > copies);
            assert!(majority(copies) + blocking(copies) - 1 <= copies, "and one fewer would not do");
        }
    }

    #[test]
    fn a_partition_switches_when_its_newcomers_have_everything() {
        let (topology, placement) = moving();
        let mut progress = MoveProgress::default();
        let before = progress.steps(&topology, &placement).switch;
        let partition = Partition::all().find(|partition| !before.contains(*partition)).unwrap();
        assert_eq!(newcomers(&placement, partition, 3).next(), Some(NodeId(6)));
        progress.report(NodeId(6), MoveReport::Filled { partition, copies: 3 });
        assert!(progress.steps(&topology, &placement).switch.contains(partition));
    }

    #[test]
    fn a_partition_settles_when_enough_of_the_old_refuse_the_past() {
        let (topology, placement) = moving();
        let mut switch = Partitions::default();
        switch.insert(Partition(3));
        let topology = topology.advance(Epoch(3), &switch, &Partitions::NONE);
        let mut progress = MoveProgress::default();
        let old = placement.now.of(Partition(3), 3).to_vec();
        progress.report(old[0], MoveReport::At(Epoch(3)));
        progress.report(old[1], MoveReport::At(Epoch(2)));
        assert!(progress.steps(&topology, &placement).settle.is_empty(), "one of three would leave a quorum");
        progress.report(old[1], MoveReport::At(Epoch(3)));
        assert!(progress.steps(&topology, &placement).settle.contains(Partition(3)));
    }
}
