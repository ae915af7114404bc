//! Members that may have forgotten what they vouched for, and what they keep from doing until they have it again.
//! A doubt begins with a start; it ends when the driver reports that something which this very start proposed is committed
//! here. That cannot be said of any entry that was there before, so everything that the lost disk can have acknowledged lies
//! before it and is here too, whatever its leader still counts (ADR 36). An empty disk's doubt is in the log until then.

use super::{Note, Output, Params, Raft};
use crate::message::Message;
use crate::record::Record;
use crate::restore::Restored;
use base::Position;
use base::mutant::{Mutant, planted};
use raft_rs::eraftpb::MessageType;

/// A member that may have forgotten what it vouched for does not help to elect anybody who lacks it.
pub(super) struct Abstention {
    why: Doubt,
    ticks_left: usize,
    end: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The end of the log was cut. Almost always it was never acknowledged to anybody.
    TailCut,
    /// The data directory was empty. Either the cluster is new, and then so is everybody's log; or this member
    /// takes the place of one whose disk is gone, and has forgotten its votes and entries. One that has just been given a
    /// new id doubts nothing.
    Empty,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// What was forgotten is here again.
    CaughtUp,
    /// Nothing can have been forgotten, or nobody is there who would remember it.
    Dropped,
}

impl Doubt {
    /// Elections without a leader that the member sits out before it must assume that nobody else can lead.
    fn elections(self) -> usize {
        match self {
            Doubt::TailCut => 3,
            Doubt::Empty => 20,
        }
    }
}

impl Restored {
    /// This member's disk was empty at this start, or at an earlier one after which it has not caught up; and there are others,
    /// who may have heard from it before. To be recorded by the start that finds it so.
    pub fn is_emptied(&self, params: &Params) -> bool {
        let is_empty = self.boot.0 == 0 && !params.is_new && !self.is_of_backup();
        (is_empty || self.doubted && !planted(Mutant::DoubtNotKept)) && !self.is_alone(params)
    }

    /// A store that was made of a backup has a state and no table of members: its cluster is new, like an empty one.
    fn is_of_backup(&self) -> bool {
        self.applied != Position::ORIGIN && self.config.is_none()
    }

    fn is_alone(&self, params: &Params) -> bool {
        let voters = self.config.as_ref().map_or(&params.voters, |config| &config.voters);
        *voters == [params.id]
    }
}

impl Abstention {
    pub(super) fn begin(params: &Params, restored: &Restored) -> Option<Abstention> {
        let why = if restored.is_emptied(params) {
            Some(Doubt::Empty).filter(|_| !planted(Mutant::EmptiedVotes))
        } else {
            (params.tail_was_cut && !restored.is_alone(params)).then_some(Doubt::TailCut)
        };
        why.map(|why| Abstention { why, ticks_left: params.election_ticks * why.elections(), end: None })
    }
}

impl Raft {
    /// Nothing that this start has proposed is known to be committed, and the member needs that to be trusted again.
    pub fn is_in_doubt(&self) -> bool {
        self.abstention.is_some()
    }

    pub(super) fn doubts(&self, why: Doubt) -> bool {
        self.abstention.as_ref().is_some_and(|abstention| abstention.why == why)
    }

    /// An empty member may stand, for only the empty will elect it; one that has some of the log again might be elected by
    /// those who lack the rest.
    pub(super) fn doubts_itself(&self) -> bool {
        let has_log = self.node.raft.raft_log.last_index() > 0;
        self.doubts(Doubt::TailCut) || self.doubts(Doubt::Empty) && has_log
    }

    pub(super) fn tick_doubt(&mut self) {
        let Some(abstention) = &mut self.abstention else { return };
        abstention.ticks_left = abstention.ticks_left.saturating_sub(1);
        if abstention.ticks_left == 0 {
            abstention.end.get_or_insert(End::Dropped);
        }
    }

    /// Votes are kept from whoever has a log, by those who have forgotten theirs.
    pub(super) fn keeps_vote_from(&self, message: &Message) -> bool {
        let asks = matches!(message.kind(), MessageType::MsgRequestVote | MessageType::MsgRequestPreVote);
        asks && self.doubts(Doubt::Empty) && message.0.index > 0
    }

    /// While somebody leads, there is no hurry. A leader that has committed nothing, and whose log begins in its own term,
    /// was elected by a majority of empty members: the cluster is being founded, and nobody has anything to forget.
    pub(super) fn hear_leader(&mut self, message: &Message) {
        let election_ticks = self.params.election_ticks;
        let Some(abstention) = &mut self.abstention else { return };
        let leads = matches!(message.kind(), MessageType::MsgAppend | MessageType::MsgHeartbeat);
        if !leads || message.0.term < self.node.raft.term {
            return;
        }
        abstention.ticks_left = election_ticks * abstention.why.elections();
        let m = &message.0;
        let begins = m.index == 0 && m.entries.first().is_some_and(|entry| entry.term == m.term);
        let last = self.node.raft.raft_log.last_index();
        let reaches = message.kind() == MessageType::MsgAppend && m.index <= last;
        if begins && m.commit == 0 || planted(Mutant::DoubtEndsEarly) && reaches {
            abstention.end.get_or_insert(End::Dropped);
        }
    }

    pub(super) fn step_vouched(&mut self) {
        if let Some(abstention) = &mut self.abstention {
            abstention.end = Some(End::CaughtUp);
        }
    }

    /// Whoever leads was elected by those who are as empty as it was.
    pub(super) fn end_doubt(&mut self, out: &mut Output) {
        let leads = self.is_leader();
        let ended = self.abstention.take_if(|abstention| leads || abstention.end.is_some());
        let Some(Abstention { why, end, .. }) = ended else { return };
        if end == Some(End::CaughtUp) {
            out.notes.push(Note::CaughtUp);
        }
        if why == Doubt::Empty {
            self.record(Record::Doubt(false), out);
        }
    }
}
