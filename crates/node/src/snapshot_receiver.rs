//! Receiving a snapshot: its parts arrive in order or not at all. Rows go to a store that is built beside the live
//! one; only when it is complete and durable does raft get the snapshot message, and raft decides whether it replaces
//! the live store. A missing part ends the attempt; the leader notices and starts another.

use crate::frame::SnapshotPart;
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Index, NodeId, Position};
use bytes::Bytes;
use raft::{Config, Message, ProtocolViolation};

/// The steps that the shell performs for a received snapshot, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum StagingStep {
    /// Start a new staged store; an older one is discarded.
    Begin {
        id: u64,
    },
    Rows {
        id: u64,
        rows: Bytes,
    },
    /// Make it durable and report the position that its rows have.
    Finish {
        id: u64,
    },
}

#[derive(Default)]
pub(crate) struct SnapshotReceiver {
    receiving: Option<ReceivingSnapshot>,
    /// How many were begun. The shell knows each by its number here: two leaders may have chosen the same id.
    begun: u64,
    /// Raft has the snapshot message and has not decided: the staged store must not be touched.
    offered: bool,
    /// Raft has taken the snapshot; until it is installed the staged store must not be touched.
    installing: Option<InstallingSnapshot>,
}

struct InstallingSnapshot {
    persist_seq: u64,
    at: Position,
}

struct ReceivingSnapshot {
    from: NodeId,
    /// Chosen by the sender.
    id: u64,
    /// Ours.
    stage: u64,
    next: u32,
    message: Message,
}

pub(crate) enum PartOutcome {
    Nothing,
    Do(StagingStep),
    /// Not needed: raft answers that it has all this.
    TellRaft(Message),
    /// No correct member sends this.
    Refused(ProtocolViolation),
}

/// The outcome of a staged snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StagedOutcome {
    /// Its receiver does not wait for it any more, or it could not be built.
    Nothing,
    Complete(Message),
    /// The rows of this member are not what it announced.
    Forged(NodeId),
}

impl SnapshotReceiver {
    pub fn on_part(
        &mut self,
        from: NodeId,
        id: u64,
        number: u32,
        part: SnapshotPart,
        committed: Index,
    ) -> PartOutcome {
        if let SnapshotPart::Begin(message) = part {
            return self.on_begin(from, id, number, message, committed);
        }
        let Some(receiving) = self.receiving.as_mut().filter(|it| it.from == from && it.id == id) else {
            return PartOutcome::Nothing;
        };
        if receiving.next != number && !planted(Mutant::SnapshotHoleAccepted) {
            self.receiving = None;
            return PartOutcome::Nothing;
        }
        receiving.next = number + 1;
        let id = receiving.stage;
        match part {
            SnapshotPart::Rows(rows) => PartOutcome::Do(StagingStep::Rows { id, rows }),
            SnapshotPart::End => PartOutcome::Do(StagingStep::Finish { id }),
            SnapshotPart::Begin(_) => unreachable!("handled above"),
        }
    }

    fn on_begin(
        &mut self,
        from: NodeId,
        id: u64,
        number: u32,
        message: Message,
        committed: Index,
    ) -> PartOutcome {
        let at = message.snapshot_at().expect("decoding lets only snapshots begin one");
        if !message.is_plausible() {
            return PartOutcome::Refused(ProtocolViolation::Fields);
        }
        if !message.config().is_some_and(|config| config.is_valid()) {
            return PartOutcome::Refused(ProtocolViolation::Configuration);
        }
        let busy = self.installing.is_some() || self.offered && !planted(Mutant::StagedUnchecked);
        if number != 0 || message.from() != from || busy {
            return PartOutcome::Nothing;
        }
        if at.index <= committed {
            return PartOutcome::TellRaft(message);
        }
        self.begun += 1;
        let stage = if planted(Mutant::StagedByForeignNumber) { id } else { self.begun };
        self.receiving = Some(ReceivingSnapshot { from, id, stage, next: 1, message });
        PartOutcome::Do(StagingStep::Begin { id: stage })
    }

    /// The staged store is durable and stands at `at`, with the configuration that its table says; `None` if its rows are
    /// not those of a store.
    pub fn on_staged(&mut self, id: u64, at: Option<Position>, config: Option<&Config>) -> StagedOutcome {
        let Some(ReceivingSnapshot { message, from, .. }) = self.receiving.take_if(|it| it.stage == id)
        else {
            return StagedOutcome::Nothing;
        };
        let stands_there = at.is_some() && message.snapshot_at() == at;
        let same_config = config.is_none() || message.config().as_ref() == config;
        if stands_there && (same_config || planted(raft::Mutant::ConfigLostInSnapshot)) {
            self.offered = true;
            return StagedOutcome::Complete(message);
        }
        StagedOutcome::Forged(from)
    }

    /// Raft has taken what it was offered, or never will.
    pub fn on_decided(&mut self) {
        self.offered = false;
    }

    pub fn on_install(&mut self, persist_seq: u64, at: Position) {
        self.installing = Some(InstallingSnapshot { persist_seq, at });
    }

    /// A snapshot that covers this index is live and not yet recorded.
    pub fn is_installing_up_to(&self, index: Index) -> bool {
        self.installing.as_ref().is_some_and(|installing| installing.at.index <= index)
    }

    /// The position that became live with the records up to `seq`.
    pub fn on_persisted(&mut self, seq: u64) -> Option<Position> {
        self.installing.take_if(|installing| installing.persist_seq <= seq).map(|installing| installing.at)
    }
}

#[cfg(test)]
mod tests;
