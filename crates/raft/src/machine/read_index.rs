//! Read index as leader: the questions of all members share the heartbeats of one round. Those that come while a round
//! is under way wait for the next, because a heartbeat that left before a question came proves nothing about it.
//! Without this, each question would cost every member a heartbeat and its answer.

use super::Raft;
use crate::mutant::Mutant;
use base::mutant::planted;
use bytes::Bytes;
use raft_rs::eraftpb::{self, MessageType};

impl Raft {
    pub(super) fn step_read_index(&mut self, context: Bytes) {
        if planted(Mutant::ReadWithoutQuorum) && self.is_leader() {
            let index = self.node.raft.raft_log.committed;
            let read = raft_rs::ReadState { index, request_ctx: context.to_vec() };
            self.node.raft.read_states.push(read);
            return;
        }
        if !self.can_gather_reads() {
            return self.node.read_index(context.to_vec());
        }
        let entry = eraftpb::Entry { data: context, ..eraftpb::Entry::default() };
        let msg_type = MessageType::MsgReadIndex;
        let question =
            eraftpb::Message { msg_type, entries: vec![entry].into(), ..eraftpb::Message::default() };
        self.gather_read(question);
    }

    /// Other cases are the library's: a lone voter answers at once, a follower asks the leader, a leader without an
    /// entry of its term drops the question.
    pub(super) fn can_gather_reads(&self) -> bool {
        let raft = &self.node.raft;
        self.is_leader() && !raft.prs().is_singleton() && raft.commit_to_current_term()
    }

    /// Queues a question in the library, which answers it and all before it when a quorum acknowledges a heartbeat with
    /// its context.
    pub(super) fn gather_read(&mut self, question: eraftpb::Message) {
        let raft = &mut self.node.raft;
        let (committed, me) = (raft.raft_log.committed, raft.id);
        raft.read_only.add_request(committed, question, me);
        if planted(Mutant::ReadJoinsRound) {
            raft.read_only.read_index_queue.rotate_right(1);
        }
    }

    /// Begins a round for the questions that wait, unless one is under way. If its heartbeats are lost, those of the
    /// next tick carry the newest context.
    pub(super) fn begin_read_round(&mut self) {
        let reads = &self.node.raft.read_only;
        let is_pending = |context: &Vec<u8>| reads.pending_read_index.contains_key(context);
        if !self.read_round.as_ref().is_some_and(is_pending) {
            self.read_round = reads.last_pending_request_ctx();
            if self.read_round.is_some() {
                self.node.raft.ping();
            }
        }
    }
}
