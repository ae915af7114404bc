//! Who takes part in raft: those who vote and those who are only sent the log.
//! The state machine decides the configuration; the adapter moves the library to it member by member, which is safe
//! because two configurations in a row differ in one member at most, or this member had none before.

use base::NodeId;
use base::mutant::{Mutant, planted};
use raft_rs::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
}

impl Config {
    pub fn contains(&self, id: NodeId) -> bool {
        self.voters.contains(&id) || self.learners.contains(&id)
    }

    pub(crate) fn from_library(state: &ConfState) -> Config {
        let sorted = |ids: &[u64]| {
            let mut ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
            ids.sort_unstable();
            ids
        };
        Config { voters: sorted(&state.voters), learners: sorted(&state.learners) }
    }

    pub(crate) fn to_library(&self) -> ConfState {
        let ids = |ids: &[NodeId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        ConfState::from((ids(&self.voters), ids(&self.learners)))
    }

    /// The changes of one member each that lead from here to there; whoever comes, comes before anybody leaves.
    pub(crate) fn steps_to(&self, there: &Config) -> Vec<ConfChangeV2> {
        let mut steps = Vec::new();
        for voter in there.voters.iter().filter(|id| !self.voters.contains(id)) {
            steps.push(step(ConfChangeType::AddNode, *voter));
        }
        let learner = match planted(Mutant::LearnerVotes) {
            true => ConfChangeType::AddNode,
            false => ConfChangeType::AddLearnerNode,
        };
        for id in there.learners.iter().filter(|id| !self.learners.contains(id)) {
            steps.push(step(learner, *id));
        }
        let mine = self.voters.iter().chain(&self.learners);
        for id in mine.filter(|id| !there.contains(**id) && !planted(Mutant::RemovedStillVotes)) {
            steps.push(step(ConfChangeType::RemoveNode, *id));
        }
        steps
    }
}

fn step(kind: ConfChangeType, id: NodeId) -> ConfChangeV2 {
    let mut change = ConfChangeV2::default();
    change.set_changes(
        vec![ConfChangeSingle { change_type: kind, node_id: id.0, ..Default::default() }].into(),
    );
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(voters: &[u64], learners: &[u64]) -> Config {
        let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect();
        Config { voters: ids(voters), learners: ids(learners) }
    }

    fn kinds(from: &Config, to: &Config) -> Vec<(ConfChangeType, u64)> {
        let steps = from.steps_to(to);
        steps.iter().map(|step| (step.changes[0].change_type, step.changes[0].node_id)).collect()
    }

    #[test]
    fn two_configurations_are_joined_by_changes_of_one_member_each() {
        use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode};
        let three = config(&[1, 2, 3], &[]);
        assert_eq!(kinds(&three, &three), []);
        assert_eq!(kinds(&three, &config(&[1, 2, 3, 4], &[])), [(AddNode, 4)]);
        assert_eq!(kinds(&three, &config(&[1, 2, 3], &[4])), [(AddLearnerNode, 4)]);
        assert_eq!(kinds(&config(&[1, 2, 3], &[4]), &config(&[1, 2, 3, 4], &[])), [(AddNode, 4)]);
        assert_eq!(kinds(&three, &config(&[1, 3], &[])), [(RemoveNode, 2)]);
        assert_eq!(kinds(&config(&[], &[]), &three), [(AddNode, 1), (AddNode, 2), (AddNode, 3)]);
    }
}
