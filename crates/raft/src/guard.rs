//! Keeps from the library the messages on which it would panic. The library trusts its peers: a heartbeat that
//! commits beyond our log, or an append that contradicts what is committed, ends the process. A message that no
//! correct member sends is refused, and the connection to its sender is closed. One that an honest member may send,
//! from another configuration or after the loss of its disk, is ignored. A peer that answers must be a known member,
//! because answers are counted; a peer that asks or leads may be a member of a configuration that has not reached us
//! yet. Entries for which memory has no space are ignored as well: the leader sends them again. ADR 47 lists what the
//! library panics on and which line here keeps it away.

use crate::log::Log;
use crate::message::Message;
use crate::mutant::Mutant;
use base::NodeId;
use base::mutant::planted;
use raft_rs::eraftpb::MessageType;
use raft_rs::{RawNode, StateRole};

/// Why a message was refused: no member that follows the protocol sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolViolation {
    /// Its fields contradict each other, or a number is out of range.
    Fields,
    /// Its term is further ahead than elections can have raised it, and no majority reports the same.
    TermJump,
    /// It builds on an entry that no log can have.
    Log,
    /// It announces a snapshot that contradicts what is committed here.
    Snapshot,
    /// It announces an invalid configuration.
    Configuration,
}

impl ProtocolViolation {
    pub fn name(self) -> &'static str {
        match self {
            ProtocolViolation::Fields => "fields",
            ProtocolViolation::TermJump => "term-jump",
            ProtocolViolation::Log => "log",
            ProtocolViolation::Snapshot => "snapshot",
            ProtocolViolation::Configuration => "configuration",
        }
    }
}

/// The decision about a message.
pub(crate) enum GuardVerdict {
    Take(Message),
    Ignore,
    Refuse(ProtocolViolation),
}

/// Adjusts, ignores or refuses a message that the library must not see as it is.
pub(crate) fn admit(node: &RawNode<Log>, mut message: Message) -> GuardVerdict {
    let raft = &node.raft;
    if let Some(refusal) = refusal(node, &message) {
        return GuardVerdict::Refuse(refusal);
    }
    let from = message.from().0;
    let foreign = message.to().0 != raft.id || from == raft.id;
    let uncounted = message.is_answer() && raft.prs().get(from).is_none();
    let without_us = message.config().is_some_and(|config| !config.contains(NodeId(raft.id)));
    if foreign || uncounted || without_us || is_untimely(node, &message) {
        return GuardVerdict::Ignore;
    }
    // A leader that knows us to be further than we are (our tail was lost): take what we have.
    if message.kind() == MessageType::MsgHeartbeat {
        message.0.commit = message.0.commit.min(raft.raft_log.last_index());
    }
    GuardVerdict::Take(message)
}

fn refusal(node: &RawNode<Log>, message: &Message) -> Option<ProtocolViolation> {
    let log = &node.raft.raft_log;
    let m = &message.0;
    if !message.is_plausible() {
        return Some(ProtocolViolation::Fields);
    }
    if message.config().is_some_and(|config| !config.is_valid()) {
        return Some(ProtocolViolation::Configuration);
    }
    // Entries that are not there have term zero for the library, so that such an append would seem to fit.
    let beyond = m.msg_type == MessageType::MsgAppend && m.log_term == 0 && m.index > log.last_index();
    if beyond && !planted(Mutant::AppendNotValidated) {
        return Some(ProtocolViolation::Log);
    }
    // Further ones lie behind us, and are answered so.
    let contradicts = |index, term| index == log.committed && !log.match_term(index, term);
    let rewrites = message.snapshot_at().is_some_and(|at| contradicts(at.index.0, at.term.0));
    rewrites.then_some(ProtocolViolation::Snapshot)
}

/// A message that a correct member may send but that the library must not see now.
fn is_untimely(node: &RawNode<Log>, message: &Message) -> bool {
    let raft = &node.raft;
    let (m, log) = (&message.0, &raft.raft_log);
    match m.msg_type {
        MessageType::MsgAppend => {
            let is_full = !m.entries.is_empty() && node.store().is_full();
            let mut decided = m.entries.iter().take_while(|entry| entry.index <= log.committed);
            is_full
                || decided
                    .any(|entry| entry.index >= log.first_index() && !log.match_term(entry.index, entry.term))
        }
        // An acknowledgement of entries that this leader never had.
        MessageType::MsgAppendResponse => !m.reject && m.index > log.last_index(),
        // The vote was not asked for yet: our request leaves when our log is durable.
        MessageType::MsgRequestVoteResponse => {
            raft.state == StateRole::Candidate && log.persisted < log.last_index()
        }
        // Only the leader that was asked can answer a read.
        MessageType::MsgReadIndexResp => m.from != raft.leader_id,
        _ => false,
    }
}
