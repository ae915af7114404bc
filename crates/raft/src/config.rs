//! The raft configuration: voters, and learners that only receive the log. The state machine decides the
//! configuration; the adapter moves the library to it. Two configurations in a row differ in one member, whose old
//! and new majorities always meet; or the later one is joint, and needs a majority of both; or it is the joint one
//! without its outgoing half; or this member had none before.

use crate::mutant::Mutant;
use base::NodeId;
use base::mutant::planted;
use raft_rs::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
    /// The voters before a joint change: a majority of them is needed as well. Empty unless the configuration is joint.
    pub outgoing: Vec<NodeId>,
}

impl Config {
    pub fn contains(&self, id: NodeId) -> bool {
        self.has_vote(id) || self.learners.contains(&id)
    }

    /// In either half.
    pub fn has_vote(&self, id: NodeId) -> bool {
        self.voters.contains(&id) || self.outgoing.contains(&id)
    }

    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The library accepts it: there is a voter, no id occurs twice in one half, and a learner has no vote in either.
    pub fn is_valid(&self) -> bool {
        let lists = [&self.voters, &self.learners, &self.outgoing];
        let named_once =
            |ids: &Vec<NodeId>| ids.iter().enumerate().all(|(nth, id)| id.0 != 0 && !ids[..nth].contains(id));
        let learners_only_learn = self.learners.iter().all(|id| !self.has_vote(*id));
        !self.voters.is_empty() && lists.into_iter().all(named_once) && learners_only_learn
    }

    pub(crate) fn from_library(state: &ConfState) -> Config {
        let sorted = |ids: &[u64]| {
            let mut ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
            ids.sort_unstable();
            ids
        };
        Config {
            voters: sorted(&state.voters),
            learners: sorted(&state.learners),
            outgoing: sorted(&state.voters_outgoing),
        }
    }

    pub(crate) fn to_library(&self) -> ConfState {
        let ids = |ids: &[NodeId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        let mut state = ConfState::from((ids(&self.voters), ids(&self.learners)));
        state.set_voters_outgoing(ids(&self.outgoing));
        state
    }

    /// The changes from this configuration to another.
    pub(crate) fn steps_to(&self, there: &Config) -> Vec<ConfChangeV2> {
        if self.is_joint() && there.is_joint() {
            return Vec::new();
        }
        let changes = self.changes_to(there);
        if there.is_joint() && !planted(Mutant::OneHalfCounts) {
            let mut enter = ConfChangeV2::default();
            enter.set_transition(ConfChangeTransition::Explicit);
            enter.set_changes(changes.into());
            return vec![enter];
        }
        // Without any change it leaves the joint configuration.
        let leave = self.is_joint().then(ConfChangeV2::default);
        leave.into_iter().chain(changes.into_iter().map(alone)).collect()
    }

    /// The single-member changes from this configuration to another; members are added before members are removed.
    fn changes_to(&self, there: &Config) -> Vec<ConfChangeSingle> {
        let mut steps = Vec::new();
        for voter in there.voters.iter().filter(|id| !self.voters.contains(id)) {
            steps.push(step(ConfChangeType::AddNode, *voter));
        }
        let learner = if planted(Mutant::LearnerVotes) {
            ConfChangeType::AddNode
        } else {
            ConfChangeType::AddLearnerNode
        };
        for id in there.learners.iter().filter(|id| !self.learners.contains(id)) {
            steps.push(step(learner, *id));
        }
        let mine = self.voters.iter().chain(&self.learners);
        let stays = |id: &NodeId| there.voters.contains(id) || there.learners.contains(id);
        for id in mine.filter(|id| !stays(id) && !planted(Mutant::RemovedStillVotes)) {
            steps.push(step(ConfChangeType::RemoveNode, *id));
        }
        steps
    }
}

fn step(change_type: ConfChangeType, id: NodeId) -> ConfChangeSingle {
    ConfChangeSingle { change_type, node_id: id.0, ..Default::default() }
}

fn alone(change: ConfChangeSingle) -> ConfChangeV2 {
    let mut alone = ConfChangeV2::default();
    alone.set_changes(vec![change].into());
    alone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(voters: &[u64], learners: &[u64]) -> Config {
        let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect();
        Config { voters: ids(voters), learners: ids(learners), outgoing: Vec::new() }
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

    #[test]
    fn a_configuration_that_no_library_takes_is_told_apart() {
        let joint = Config { outgoing: vec![NodeId(1), NodeId(5)], ..config(&[1, 2], &[3]) };
        assert!(joint.is_valid() && config(&[1], &[]).is_valid());
        let learns_and_votes = Config { outgoing: vec![NodeId(3)], ..config(&[1, 2], &[3]) };
        let unlawful = [config(&[], &[1]), config(&[1, 1], &[]), config(&[0, 1], &[]), config(&[1, 2], &[2])];
        assert!(unlawful.iter().chain([&learns_and_votes]).all(|config| !config.is_valid()));
    }

    #[test]
    fn several_members_change_in_one_step_that_is_left_by_another() {
        let three = config(&[1, 2, 3], &[]);
        let joint = Config { outgoing: three.voters.clone(), ..config(&[1, 2, 4], &[]) };
        let enter = three.steps_to(&joint);
        assert_eq!(enter.len(), 1);
        assert_eq!(enter[0].get_transition(), ConfChangeTransition::Explicit);
        assert_eq!(enter[0].changes.len(), 2);
        let leave = joint.steps_to(&config(&[1, 2, 4], &[]));
        assert_eq!(leave, [ConfChangeV2::default()]);
        assert_eq!(joint.steps_to(&joint), []);
        assert_eq!(Config::from_library(&joint.to_library()), joint);
    }
}
