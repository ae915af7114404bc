//! A member that has lost part of its log asks all other members how far theirs reach, until it knows which logs it
//! can trust (ADR 46). Questions go out in rounds; a round is over when all others have answered it.
//!
//! Lost entries may be committed as long as the leader that they were acknowledged to counts the acknowledgement. So
//! a first round must show that no other member leads; an answer to a later round then shows all that was committed
//! by then, and a log that reaches as far as the longest of them lacks nothing. While there is a leader, it brings
//! the member up to date instead. If no more than the last frame was lost, the answer of the leader that it was
//! acknowledged to is enough. No round is given up: only an operator can say that a member will never answer.
//!
//! A member on an empty directory may know no configuration. It asks the peers it hears from, and their configurations
//! name the others.

use super::{Consensus, ConsensusOutput};
use crate::frame::Frame;
use crate::log_state::LogState;
use crate::mutant::Mutant;
use base::limits::MEMBERS_MAX;
use base::mutant::planted;
use base::{Boot, Instant, NodeId, Position, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Questions are small, and a cluster that starts waits for their answers.
const PAUSES_PER_RETRY: u32 = 8;
/// A member that has its answers asks again after so many pauses: the members that it trusted may have lost something
/// themselves.
const SETTLED_PAUSES: u32 = 64;

#[derive(Default)]
pub(super) struct LogInquiry {
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
    /// Peers that this member has heard from: those to ask as long as no configuration is known.
    peers: BTreeSet<NodeId>,
}

/// The members to ask.
struct OtherMembers {
    ids: BTreeSet<NodeId>,
    /// A configuration names them. Otherwise there may be more, and no round ends.
    are_all: bool,
}

impl LogInquiry {
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

    pub(super) fn note_peer(&mut self, from: NodeId) {
        if self.raft.is_in_doubt() && self.inquiry.peers.len() < MEMBERS_MAX {
            self.inquiry.peers.insert(from);
        }
    }

    /// The members that must be asked, by the newest configuration that is known.
    fn others(&self) -> OtherMembers {
        let own = self.log_state();
        let states = self.inquiry.answers.values().chain([&own]);
        let voters = states.max_by_key(|state| state.configured).map_or(&[][..], |newest| &newest.voters);
        let is_asked = |id: &&NodeId| **id != self.me && !self.inquiry.gone.contains(id);
        let are_all = !voters.is_empty() || planted(Mutant::NewcomerAsksNone);
        let ids: BTreeSet<NodeId> = if are_all {
            voters.iter().filter(is_asked).copied().collect()
        } else {
            self.inquiry.peers.iter().filter(is_asked).copied().collect()
        };
        OtherMembers { ids, are_all }
    }

    pub(super) fn ask_log_states(&mut self, now: Instant, out: &mut ConsensusOutput) {
        if !self.raft.is_in_doubt() || self.target.1.is_some() || now < self.inquiry.rest_until {
            return;
        }
        let OtherMembers { ids: others, are_all } = self.others();
        let is_unknown = others.is_empty() && self.raft.config().voters.is_empty();
        if is_unknown && self.inquiry.answers.is_empty() {
            return;
        }
        if are_all && others.iter().all(|id| self.inquiry.answers.contains_key(id)) {
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
        self.raft.step(raft::Input::FloorKnown { floor, term });
    }
}

#[cfg(test)]
mod tests {
    use crate::Frame;
    use crate::consensus::{Consensus, ConsensusInput, ConsensusOutput, ConsensusParams};
    use crate::log_state::LogState;
    use crate::mutant::Mutant;
    use base::mutant::plant;
    use base::{Boot, Index, Instant, NodeId, Position, Term};
    use raft::{Doubt, LogReplay};
    use std::time::Duration;

    const LEADER: NodeId = NodeId(1);

    /// A member that was added by its address and starts on an empty directory, without a configuration.
    fn newcomer() -> Consensus {
        let raft = raft::Params {
            id: NodeId(2),
            voters: Vec::new(),
            heartbeat_ticks: 1,
            election_ticks: 10,
            seed: 1,
            log_keep_entries: 100,
            append_bytes: 1_000,
            lost: Doubt::None,
            is_new: false,
        };
        let restored = LogReplay::default().finish(Position::ORIGIN).expect("an empty log has no gap");
        Consensus::new(ConsensusParams { raft, retry_after: Duration::from_millis(80) }, restored, Boot(1))
    }

    /// What a turn sends after a frame of the other member.
    fn turn(member: &mut Consensus, now: Instant, frame: Frame) -> Vec<(NodeId, Frame)> {
        let mut out = ConsensusOutput::default();
        member.step(now, ConsensusInput::Received { from: LEADER, frame }, &mut out);
        member.collect(now, &mut out);
        out.send
    }

    fn answer(round: u64) -> Frame {
        let last = Position { term: Term(1), index: Index(9) };
        let (voters, configured) = (vec![LEADER, NodeId(2)], Index(8));
        let state = LogState { leads: false, term: Term(1), led: Term(1), last, configured, voters };
        Frame::LogAnswer { boot: Boot(1), round, state }
    }

    /// Whether the member has asked the one it knows in two rounds, after which it may elect it.
    fn asks_twice(member: &mut Consensus) -> bool {
        let mut frame = Frame::ClientUrl(String::new());
        for round in 0..2 {
            let now = Instant(1_000 * (round + 1));
            let question = Frame::LogQuestion { boot: Boot(1), round };
            if !turn(member, now, frame).contains(&(LEADER, question)) {
                return false;
            }
            frame = answer(round);
        }
        turn(member, Instant(3_000), frame);
        true
    }

    #[test]
    fn a_member_that_knows_no_configuration_asks_the_peers_it_hears_from() {
        plant(None);
        let mut member = newcomer();
        assert!(member.is_in_doubt());
        assert!(asks_twice(&mut member));
        assert!(member.is_in_doubt(), "its log is shorter still");
        let later = turn(&mut member, Instant(4_000), Frame::ClientUrl(String::new()));
        assert!(later.is_empty(), "it knows how far the other reaches: {later:?}");
        plant(Some(Mutant::NewcomerAsksNone.into()));
        let asked = asks_twice(&mut newcomer());
        plant(None);
        assert!(!asked, "the planted bug leaves it waiting");
    }
}
