//! Keeps from the library the messages on which it would panic.
//! The library trusts its peers: a heartbeat that commits beyond our log, or an append that contradicts what
//! is committed, ends the process. A peer that sends such a thing is broken or has lost data; we drop the
//! message and stay up. Whoever answers must be known, for answers are counted; whoever asks or leads may be a
//! member of a configuration that has not reached us yet. Entries for which there is no room are dropped as well: the leader sends them again.

use crate::log::Log;
use crate::message::Message;
use base::NodeId;
use raft_rs::RawNode;
use raft_rs::eraftpb::MessageType;

/// Adjusts or refuses a message that the library must not see as it is.
pub(crate) fn admit(node: &RawNode<Log>, mut message: Message) -> Option<Message> {
    let raft = &node.raft;
    let from = message.from().0;
    if !message.is_plausible()
        || message.to().0 != raft.id
        || from == raft.id
        || message.is_answer() && raft.prs().get(from).is_none()
    {
        return None;
    }
    if message.config().is_some_and(|config| !config.contains(NodeId(raft.id))) {
        return None;
    }
    let last = raft.raft_log.last_index();
    let m = &mut message.0;
    match m.msg_type {
        // A leader that knows us to be further than we are (our tail was lost): take what we have.
        MessageType::MsgHeartbeat => m.commit = m.commit.min(last),
        MessageType::MsgAppend => {
            if !m.entries.is_empty() && node.store().is_full() {
                return None;
            }
            let committed = raft.raft_log.committed;
            let contradicts = m.entries.iter().take_while(|entry| entry.index <= committed).any(|entry| {
                entry.index >= raft.raft_log.first_index()
                    && !raft.raft_log.match_term(entry.index, entry.term)
            });
            if contradicts {
                return None;
            }
        }
        // An acknowledgement of entries that this leader never had.
        MessageType::MsgAppendResponse if !m.reject && m.index > last => return None,
        _ => {}
    }
    Some(message)
}
