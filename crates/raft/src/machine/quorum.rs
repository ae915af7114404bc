//! A leader that hears no majority steps down: it may be able to send and not to receive, and while it sends no other
//! member campaigns. The library checks once per election timeout, which takes up to two timeouts; this check runs at
//! each tick, and the leader tells the other members that it stepped down, so that they need not wait for its
//! silence.

use super::{Output, Raft, RaftEvent};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{NodeId, Term};
use raft_rs::INVALID_ID;
use std::collections::BTreeMap;

/// Counts ticks, and the tick at which each member was heard last.
#[derive(Default)]
pub(super) struct QuorumCheck {
    tick: u64,
    heard_at: BTreeMap<NodeId, u64>,
    /// The term that this member leads, and the tick at which it began.
    led_since: Option<(Term, u64)>,
    stepped_down: Option<Term>,
}

impl QuorumCheck {
    pub(super) fn record_contact(&mut self, from: NodeId) {
        self.heard_at.insert(from, self.tick);
    }
}

impl Raft {
    /// Counts a tick; as leader, stops if no majority was heard for an election timeout.
    pub(super) fn check_quorum(&mut self) {
        self.quorum_check.tick += 1;
        let term = Term(self.node.raft.term);
        if !self.is_leader() {
            self.quorum_check.led_since = None;
            return;
        }
        let since = match self.quorum_check.led_since {
            Some((of, since)) if of == term => since,
            _ => self.quorum_check.tick,
        };
        self.quorum_check.led_since = Some((term, since));
        if self.is_heard_by_majority(since) || planted(Mutant::DeafLeaderStays) {
            return;
        }
        self.node.raft.become_follower(term.0, INVALID_ID);
        self.quorum_check.stepped_down = Some(term);
    }

    fn is_heard_by_majority(&self, since: u64) -> bool {
        let QuorumCheck { tick, heard_at, .. } = &self.quorum_check;
        let is_heard = |id: &&NodeId| {
            let last = heard_at.get(id).copied().unwrap_or(0).max(since);
            **id == self.params.id || tick - last <= self.params.election_ticks as u64
        };
        let config = self.config();
        let has_majority = |voters: &[NodeId]| voters.iter().filter(is_heard).count() * 2 > voters.len();
        has_majority(&config.voters) && (config.outgoing.is_empty() || has_majority(&config.outgoing))
    }

    pub(super) fn report_step_down(&mut self, out: &mut Output) {
        out.events.extend(self.quorum_check.stepped_down.take().map(RaftEvent::SteppedDown));
    }
}
