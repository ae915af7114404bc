//! Ends the doubt of a member: it proposes an entry of its own and waits until it is committed. No log can hold that
//! entry before this start, so everything that the lost disk acknowledged lies before it. The entry changes nothing,
//! and is asked for again until it comes.

use super::{Consensus, ConsensusOutput};
use crate::batch::{self, Proposal};
use crate::frame::Frame;
use crate::member::leader_origin;
use base::Instant;
use coord::Command;
use raft::Entry;

#[derive(Default)]
pub(super) struct OwnEntryProbe {
    asked_at: Option<Instant>,
}

impl Consensus {
    /// This member may have lost what it acknowledged, and does not vote.
    pub fn is_in_doubt(&self) -> bool {
        self.raft.is_in_doubt()
    }

    /// A leader is never in doubt, so this always goes to another member.
    pub(super) fn propose_own_entry(&mut self, now: Instant, out: &mut ConsensusOutput) {
        let waits = self.own_entry.asked_at.is_some_and(|asked| asked.after(self.params.retry_after) > now);
        let Some(leader) = self.target.1.filter(|leader| *leader != self.me) else { return };
        if waits || !self.raft.is_in_doubt() {
            return;
        }
        self.own_entry.asked_at = Some(now);
        let mut command = Vec::new();
        Command::LeaseCheckpoint(Vec::new()).encode(&mut command);
        let mut batch = Vec::new();
        self.own.name(command.into(), &mut batch);
        out.send.push((leader, Frame::Forward(batch.into())));
    }

    /// Looks for a proposal of this start among these committed entries.
    pub(super) fn find_own_entry(&mut self, committed: &[Entry]) {
        if !self.raft.is_in_doubt() {
            return;
        }
        let mine = [self.me, leader_origin(self.me)];
        let of_this_start =
            |proposal: &Proposal| proposal.id.boot == self.boot && mine.contains(&proposal.id.origin);
        let holds_own = |entry: &Entry| {
            batch::decode(entry.data.clone()).is_some_and(|proposals| proposals.iter().any(of_this_start))
        };
        if committed.iter().any(holds_own) {
            self.raft.step(raft::Input::OwnEntryCommitted);
        }
    }
}
