//! Changes of the configuration that wait for their turn at the leader: one at a time, each alone in its entry.
//! Batches of a single proposal go in, the bytes of the next entry come out once the change before it is applied. The
//! leader adds what only it knows: that a learner has caught up. It never orders its own removal, because the others
//! could then miss that it was committed; it transfers leadership first, and the proposal goes to the next leader.

use crate::batch::{self, Proposal};
use crate::member::{config_change_origin, leader_origin};
use crate::mutant::Mutant;
use base::NodeId;
use base::limits::CHANGES_WAITING_MAX;
use base::mutant::planted;
use bytes::Bytes;
use coord::{Command, MemberChange};
use raft::Raft;
use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct ConfigChanges {
    waiting: VecDeque<Bytes>,
}

/// The kind of a batch of proposals, for the leader that orders it.
pub(crate) enum BatchKind {
    Plain,
    Change,
    /// Malformed, of another member, or a change together with other proposals.
    Invalid,
}

/// Beyond every start and every proposal of one.
const NUMBER_MAX: u64 = 1 << 62;

/// A member forwards what it proposes itself. Under another member's name a proposal would make that member's own ones
/// repetitions, for ever.
pub(crate) fn classify(from: NodeId, batch: Bytes) -> BatchKind {
    let Some(proposals) = batch::decode(batch) else { return BatchKind::Invalid };
    let names = [from, leader_origin(from), config_change_origin(from)];
    let is_own = |Proposal { id, .. }: &Proposal| {
        names.contains(&id.origin) && id.boot.0 <= NUMBER_MAX && id.seq <= NUMBER_MAX
    };
    if !proposals.iter().all(is_own) && !planted(Mutant::ForwardUnchecked) {
        return BatchKind::Invalid;
    }
    match proposals.iter().filter(|proposal| Command::reconfigures(&proposal.command)).count() {
        0 => BatchKind::Plain,
        1 if proposals.len() == 1 => BatchKind::Change,
        _ => BatchKind::Invalid,
    }
}

impl ConfigChanges {
    /// The sender sends it again if the queue is full.
    pub fn add(&mut self, batch: Bytes) {
        if self.waiting.len() < CHANGES_WAITING_MAX {
            self.waiting.push_back(batch);
        }
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Puts the next one into the log, if its turn has come.
    pub fn order(&mut self, me: NodeId, raft: &mut Raft) {
        while raft.can_change()
            && let Some(batch) = self.waiting.front()
        {
            let entry = match change_in(batch) {
                Some((_, change)) if removes(&change, me, raft) && raft.transfer_target().is_some() => {
                    let transfer_target = raft.transfer_target().expect("looked at just now");
                    raft.step(raft::Input::Transfer(transfer_target));
                    return;
                }
                Some((proposal, MemberChange::Promote { id, .. })) => {
                    with_progress(proposal, id, raft.has_caught_up(id))
                }
                _ => batch.clone(),
            };
            if !raft.step(raft::Input::ProposeChange(entry.clone())) {
                return;
            }
            if planted(Mutant::ConfigBeforeCommit) {
                change_at_once(&entry, raft);
            }
            self.waiting.pop_front();
        }
    }
}

/// The change would leave this leader without a vote, now or when the joint configuration ends.
fn removes(change: &MemberChange, me: NodeId, raft: &Raft) -> bool {
    match change {
        MemberChange::Remove(id) | MemberChange::Replace { old: id, .. } => *id == me,
        MemberChange::FinishReplacement { .. } => !raft.config().voters.contains(&me),
        _ => false,
    }
}

fn change_in(batch: &Bytes) -> Option<(Proposal, MemberChange)> {
    let proposal = batch::decode(batch.clone())?.pop()?;
    match Command::decode(proposal.command.clone())? {
        Command::Members(change) => Some((proposal, change)),
        _ => None,
    }
}

/// The planted bug: a proposed change takes effect at once.
fn change_at_once(entry: &Bytes, raft: &mut Raft) {
    let mut config = raft.config();
    match change_in(entry) {
        Some((_, MemberChange::Add(member))) if !member.learner => config.voters.push(member.id),
        Some((_, MemberChange::Remove(id))) => config.voters.retain(|voter| *voter != id),
        _ => {}
    }
    raft.step(raft::Input::Configure(config));
}

fn with_progress(proposal: Proposal, id: NodeId, caught_up: bool) -> Bytes {
    let mut command = Vec::new();
    Command::Members(MemberChange::Promote { id, caught_up }).encode(&mut command);
    let mut batch = Vec::new();
    Proposal { command: command.into(), ..proposal }.encode(&mut batch);
    batch.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::mutant::plant;
    use base::{Boot, ProposalId};

    fn forwarded(origin: NodeId, seq: u64) -> Bytes {
        let id = ProposalId { origin, boot: Boot(3), seq };
        let mut out = Vec::new();
        Proposal { id, low: seq, command: Bytes::from_static(b"command") }.encode(&mut out);
        out.into()
    }

    #[test]
    fn a_member_forwards_proposals_of_its_own_alone() {
        plant(None);
        let (from, other) = (NodeId(2), NodeId(3));
        assert!(matches!(classify(from, forwarded(from, 7)), BatchKind::Plain));
        assert!(matches!(classify(from, forwarded(leader_origin(from), 7)), BatchKind::Plain));
        assert!(matches!(classify(from, forwarded(other, 7)), BatchKind::Invalid));
        assert!(
            matches!(classify(from, forwarded(from, u64::MAX)), BatchKind::Invalid),
            "no start counts so far"
        );
        plant(Some(Mutant::ForwardUnchecked.into()));
        let taken = classify(from, forwarded(other, 7));
        plant(None);
        assert!(matches!(taken, BatchKind::Plain), "the planted bug lets one member speak for another");
    }
}
