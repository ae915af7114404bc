//! Changes of the configuration that wait for their turn at the leader: one at a time, each alone in its entry.
//! Batches of a single proposal go in, the bytes of the next entry come out once the change before it is applied.
//! Whoever leads adds what only it knows: that a learner has caught up. It never orders its own removal, for the rest
//! could then miss that it was committed; it hands over first, and the next leader is asked again.

use crate::batch::{self, Proposal};
use base::NodeId;
use base::limits::CHANGES_WAITING_MAX;
use base::mutant::{Mutant, planted};
use bytes::Bytes;
use coord::{Command, MemberChange};
use raft::Raft;
use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct Changes {
    waiting: VecDeque<Bytes>,
}

/// What a batch of proposals is to whoever orders it.
pub(crate) enum Kind {
    Plain,
    Change,
    /// Malformed, or a change among others.
    Unlawful,
}

pub(crate) fn kind_of(batch: Bytes) -> Kind {
    let Some(proposals) = batch::decode(batch) else { return Kind::Unlawful };
    match proposals.iter().filter(|proposal| Command::reconfigures(&proposal.command)).count() {
        0 => Kind::Plain,
        1 if proposals.len() == 1 => Kind::Change,
        _ => Kind::Unlawful,
    }
}

impl Changes {
    /// Whoever sent it sends it again if there is no room.
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
                Some((_, change)) if removes(&change, me, raft) && raft.heir().is_some() => {
                    let heir = raft.heir().expect("looked at just now");
                    raft.step(raft::Input::Transfer(heir));
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

/// Carried out, the change leaves this leader without a vote, now or when it is settled.
fn removes(change: &MemberChange, me: NodeId, raft: &Raft) -> bool {
    match change {
        MemberChange::Remove(id) | MemberChange::Replace { old: id, .. } => *id == me,
        MemberChange::Settle { .. } => !raft.config().voters.contains(&me),
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

/// The planted bug: what was proposed counts as decided.
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
