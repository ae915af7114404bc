//! A member that has lost part of its log asks all other members how far theirs reach, until it knows which logs it
//! can trust (ADR 46). Questions go out in rounds; a round is over when all others have answered it.
//!
//! Lost entries may be committed as long as the leader that they were acknowledged to counts the acknowledgement. So
//! a first round must show that no other member leads; an answer to a later round then shows all that was committed
//! by then, and a log that reaches as far as the longest of them lacks nothing. While there is a leader, it brings
//! the member up to date instead. If no more than the last frame was lost, the answer of the leader that it was
//! acknowledged to is enough. No round is given up: only an operator can say that a member will never answer.

use super::{Consensus, Output};
use crate::frame::Frame;
use crate::log_state::LogState;
use base::{Boot, Instant, NodeId, Position, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Questions are small, and a cluster that starts waits for their answers.
const PAUSES_PER_RETRY: u32 = 8;
/// A member that has its answers asks again after so many pauses: the members that it trusted may have lost something
/// themselves.
const SETTLED_PAUSES: u32 = 64;

#[derive(Default)]
pub(super) struct Inquiry {
    round: u64,
    asked_at: Option<Instant>,
    /// Until then no member is asked.
    rest_until: Instant,
    /// To the present round.
    answers: BTreeMap<NodeId, LogState>,
    /// Members that did not answer the first question of the present round.
    silent: BTreeSet<NodeId>,
    /// No other member led in the round before this one.
    leaderless: bool,
    /// Members whose loss an operator has accepted.
    gone: BTreeSet<NodeId>,
}

impl Inquiry {
    fn begin_round(&mut self, rest_until: Instant) {
        self.round += 1;
        self.asked_at = None;
        self.rest_until = rest_until;
        self.answers.clear();
        self.silent.clear();
    }
}

impl Consensus {
    /// The members whose answers this member needs before it can trust its log; none unless it is in doubt and there
    /// is no leader.
    pub fn waits_for(&self) -> Vec<NodeId> {
        if self.raft.is_in_doubt() && self.target.1.is_none() {
            self.inquiry.silent.iter().copied().collect()
        } else {
            Vec::new()
        }
    }

    /// An operator accepts the loss of a member, and of what only it has. The log keeps that.
    pub(super) fn accept_loss(&mut self, id: NodeId) {
        if self.raft.is_in_doubt() {
            self.inquiry.gone.insert(id);
            self.inquiry.silent.remove(&id);
            self.raft.step(raft::Input::RecordLoss(id));
        }
    }

    fn pause(&self, times: u32) -> Duration {
        self.params.retry_after / PAUSES_PER_RETRY * times
    }

    pub(super) fn log_state(&self) -> LogState {
        let status = self.raft.status();
        let config = self.raft.config();
        LogState {
            leads: self.raft.is_leader(),
            term: status.term,
            led: self.raft.led().unwrap_or(Term::ZERO),
            last: self.raft.last(),
            configured: self.configured(),
            voters: config.voters.into_iter().chain(config.outgoing).collect(),
        }
    }

    pub(super) fn on_log_state(&mut self, from: NodeId, boot: Boot, round: u64, state: LogState) {
        if boot != self.boot || round != self.inquiry.round || !self.raft.is_in_doubt() {
            return;
        }
        // Only the leader of that term can have counted the lost entries, and it still has all of them.
        if self.raft.doubted_term().is_some_and(|term| term == state.led) {
            self.settle(state.last, state.term);
        }
        self.inquiry.answers.insert(from, state);
    }

    /// The members that must be asked, by the newest configuration that is known; `None` while no configuration is.
    fn others(&self) -> Option<BTreeSet<NodeId>> {
        let own = self.log_state();
        let states = self.inquiry.answers.values().chain([&own]);
        let newest = states.max_by_key(|state| state.configured)?;
        let is_asked = |id: &&NodeId| **id != self.me && !self.inquiry.gone.contains(id);
        (!newest.voters.is_empty()).then(|| newest.voters.iter().filter(is_asked).copied().collect())
    }

    pub(super) fn inquire(&mut self, now: Instant, out: &mut Output) {
        if !self.raft.is_in_doubt() || self.target.1.is_some() || now < self.inquiry.rest_until {
            return;
        }
        let Some(others) = self.others() else { return };
        if others.iter().all(|id| self.inquiry.answers.contains_key(id)) {
            self.end_round(now, &others);
        }
        let waits = self.inquiry.asked_at.is_some_and(|asked| asked.after(self.pause(1)) > now);
        if waits || !self.raft.is_in_doubt() || now < self.inquiry.rest_until {
            return;
        }
        let answers = &self.inquiry.answers;
        let unanswered: BTreeSet<NodeId> =
            others.into_iter().filter(|id| !answers.contains_key(id)).collect();
        let question = Frame::LogQuestion { boot: self.boot, round: self.inquiry.round };
        out.send.extend(unanswered.iter().map(|id| (*id, question.clone())));
        if self.inquiry.asked_at.replace(now).is_some() {
            self.inquiry.silent = unanswered;
        }
    }

    fn end_round(&mut self, now: Instant, others: &BTreeSet<NodeId>) {
        let answers: Vec<&LogState> = others.iter().filter_map(|id| self.inquiry.answers.get(id)).collect();
        let is_led = answers.iter().any(|state| state.leads);
        let was_leaderless = self.inquiry.leaderless;
        self.inquiry.leaderless = !is_led;
        let rest_until = match (is_led, was_leaderless) {
            (true, _) => now.after(self.pause(1)),
            (false, false) => now,
            (false, true) => {
                let last = answers.iter().map(|state| state.last).max_by_key(|last| (last.term, last.index));
                let term = answers.iter().map(|state| state.term).max();
                let (floor, term) = (last.unwrap_or_else(|| self.raft.last()), term.unwrap_or(Term::ZERO));
                let rest_until = now.after(self.pause(SETTLED_PAUSES));
                self.settle(floor, term);
                rest_until
            }
        };
        self.inquiry.begin_round(rest_until);
    }

    fn settle(&mut self, floor: Position, term: Term) {
        self.raft.step(raft::Input::Settled { floor, term });
    }
}
