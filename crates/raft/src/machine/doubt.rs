//! Doubt: a member that may have lost acknowledged votes or entries votes for no candidate that may lack them and
//! does not campaign, until it has them again. A doubt begins with a start and is in the log until it ends. No time
//! ends it. It ends when
//!
//! 1. a proposal of this start is committed here: everything that the lost part of the log can have
//!    acknowledged lies before it (ADR 36); or
//! 2. all other members have reported how far their logs reach (`FloorKnown`), and this log reaches as far as
//!    the longest: an acknowledged entry has an intact copy on one of them, or was never committed; or
//! 3. only the last frame was lost, and the log has an entry of a later term than this start began in: the leader of that
//!    term was elected without this member, so it had everything that was committed before (ADR 46).
//!
//! Before that, from `FloorKnown` on, the member elects a candidate whose log is at least as long as the longest.

use super::{Output, Params, Raft, RaftEvent};
use crate::message::Message;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::restore::RestoredState;
use crate::terms::JUMP_MAX;
use base::mutant::planted;
use base::{Index, Position, Term};
use raft_rs::INVALID_ID;
use raft_rs::eraftpb::MessageType;

/// What a member may have lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    #[default]
    None,
    /// Entries that were acknowledged to the leader of its term and were in the last frame of the log. Votes and
    /// terms were not among them: the log is sealed behind them before they are sent.
    LastFrame,
    /// Any votes and entries. The data directory was empty, or the log has lost more than its last frame. A member on
    /// an empty directory may also bootstrap a cluster with other empty members; a member with a new id is not in
    /// doubt.
    Everything,
}

pub(super) struct Abstention {
    why: Doubt,
    /// The term in which this start began.
    term: Term,
    /// Logs that end here have everything that this one can have lost.
    floor: Option<Position>,
    end: Option<AbstentionEnd>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AbstentionEnd {
    /// The lost data is here again.
    CaughtUp,
    /// Nothing can have been lost.
    Dropped,
}

impl RestoredState {
    /// The doubt of this start: what it found lost, and what an earlier start doubted and has not caught up with. The
    /// start records it. The only member of a cluster has acknowledged nothing to others.
    pub fn doubt(&self, params: &Params) -> Doubt {
        let is_empty = self.boot.0 == 0 && !params.is_new && !self.is_of_backup();
        let emptied = if is_empty { Doubt::Everything } else { Doubt::None };
        let recorded = if planted(Mutant::DoubtNotKept) { Doubt::None } else { self.doubted };
        if self.is_alone(params) { Doubt::None } else { emptied.max(recorded).max(params.lost) }
    }

    /// The log is gone although the store was written from one.
    pub fn has_lost_log(&self) -> bool {
        self.boot.0 == 0 && self.applied != Position::ORIGIN && !self.is_of_backup()
    }

    /// What the log says of an earlier start.
    pub fn recorded_doubt(&self) -> Doubt {
        self.doubted
    }

    /// A store restored from a backup has a state and no table of members: its cluster is new, like an empty one.
    fn is_of_backup(&self) -> bool {
        self.applied != Position::ORIGIN && self.config.is_none()
    }

    /// No other member can have received a message of this one.
    pub fn is_alone(&self, params: &Params) -> bool {
        let voters = self.config.as_ref().map_or(&params.voters, |config| &config.voters);
        *voters == [params.id]
    }
}

impl Abstention {
    pub(super) fn begin(params: &Params, restored: &RestoredState) -> Option<Abstention> {
        let why = restored.doubt(params);
        let ignored = planted(Mutant::EmptiedVotes) && why == Doubt::Everything;
        (why != Doubt::None && !ignored).then_some(Abstention {
            why,
            term: restored.term,
            floor: None,
            end: None,
        })
    }

    /// A log that ends here lacks nothing that this member may have acknowledged. A member on an empty directory
    /// trusts only empty logs, because only empty members bootstrap a cluster.
    fn trusts(&self, last: Position) -> bool {
        match (self.floor, self.why) {
            (Some(floor), _) => is_as_long(last, floor),
            (None, Doubt::LastFrame) => last.term > self.term || planted(Mutant::VotesInDoubt),
            (None, _) => last.index == Index::ZERO,
        }
    }
}

/// Compares logs as elections do.
fn is_as_long(log: Position, other: Position) -> bool {
    (log.term, log.index) >= (other.term, other.index)
}

impl Raft {
    /// This member may still lack data that it acknowledged.
    pub fn is_in_doubt(&self) -> bool {
        self.abstention.is_some()
    }

    /// The term whose leader alone can have had what this member lost, if no more than the last frame is in doubt.
    pub fn doubted_term(&self) -> Option<Term> {
        self.abstention.as_ref().filter(|it| it.why == Doubt::LastFrame).map(|it| it.term)
    }

    /// Where the log ends.
    pub fn last(&self) -> Position {
        let log = &self.node.raft.raft_log;
        Position { term: Term(log.last_term()), index: Index(log.last_index()) }
    }

    pub(super) fn doubts_itself(&self) -> bool {
        self.abstention.as_ref().is_some_and(|abstention| !abstention.trusts(self.last()))
    }

    pub(super) fn keeps_vote_from(&self, message: &Message) -> bool {
        let asks = matches!(message.kind(), MessageType::MsgRequestVote | MessageType::MsgRequestPreVote);
        let last = Position { term: Term(message.0.log_term), index: Index(message.0.index) };
        asks && self.abstention.as_ref().is_some_and(|abstention| !abstention.trusts(last))
    }

    /// A leader that has committed nothing, and whose log begins in its own term, was elected by a majority of empty
    /// members: the cluster is being bootstrapped, and no member can have lost anything.
    pub(super) fn note_new_cluster(&mut self, message: &Message) {
        let Some(abstention) = &mut self.abstention else { return };
        let m = &message.0;
        let is_append = message.kind() == MessageType::MsgAppend;
        if !is_append || abstention.why != Doubt::Everything || m.term < self.node.raft.term {
            return;
        }
        let begins = m.index == 0 && m.entries.first().is_some_and(|entry| entry.term == m.term);
        let reaches = m.index <= self.node.raft.raft_log.last_index();
        if begins && m.commit == 0 || planted(Mutant::DoubtEndsEarly) && reaches {
            abstention.end.get_or_insert(AbstentionEnd::Dropped);
        }
    }

    pub(super) fn step_own_entry_committed(&mut self) {
        if let Some(abstention) = &mut self.abstention {
            abstention.end = Some(AbstentionEnd::CaughtUp);
        }
    }

    /// The candidate of a lost vote is in the term of the vote or later by now, so this member votes in later terms
    /// only.
    pub(super) fn step_floor_known(&mut self, floor: Position, term: Term) {
        let is_credible = term.0 <= self.node.raft.term.saturating_add(JUMP_MAX);
        let Some(abstention) = self.abstention.as_mut().filter(|_| is_credible) else { return };
        abstention.floor = Some(floor);
        if abstention.why != Doubt::Everything {
            return;
        }
        let raft = &mut self.node.raft;
        if term.0 > raft.term {
            raft.become_follower(term.0, INVALID_ID);
        }
        if raft.vote == INVALID_ID {
            raft.vote = raft.id;
        }
    }

    /// A leader was elected by members that lack nothing.
    pub(super) fn note_end_of_doubt(&mut self, out: &mut Output) {
        let (leads, last) = (self.is_leader(), self.last());
        let ended = self.abstention.take_if(|abstention| {
            let has_later_term = abstention.why == Doubt::LastFrame && last.term > abstention.term;
            let reaches_floor = abstention.floor.is_some_and(|floor| is_as_long(last, floor));
            leads || abstention.end.is_some() || has_later_term || reaches_floor
        });
        let Some(Abstention { end, .. }) = ended else { return };
        if end != Some(AbstentionEnd::Dropped) {
            out.events.push(RaftEvent::CaughtUp);
        }
        self.record(Record::Doubt(Doubt::None), out);
    }
}
