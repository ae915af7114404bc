//! The proposals of this member that wait for their place in the log. Each is sent to the leader, and again when the
//! leader changes or does not answer; its identity makes the repetition harmless. A proposal leaves when it is
//! applied here or its deadline passes.

use crate::batch::Proposal;
use base::limits::{ENTRY_BYTES_SOFT, PROPOSALS_WAITING_BYTES_MAX, REQUESTS_WAITING_MAX};
use base::{Boot, Instant, NodeId, ProposalId, ReplyToken};
use bytes::Bytes;
use coord::Command;
use std::collections::BTreeMap;

pub(crate) struct PendingProposals {
    origin: NodeId,
    boot: Boot,
    /// By sequence number, which is the caller's token: both grow in the order of arrival.
    waiting: BTreeMap<u64, PendingProposal>,
    bytes: usize,
    /// Everything from here on has not been sent to the present leader.
    unsent_from: u64,
    last_seq: u64,
}

struct PendingProposal {
    command: Bytes,
    deadline: Instant,
    sent_at: Instant,
}

impl PendingProposals {
    pub fn new(origin: NodeId, boot: Boot) -> PendingProposals {
        PendingProposals { origin, boot, waiting: BTreeMap::new(), bytes: 0, unsent_from: 0, last_seq: 0 }
    }

    /// Takes a proposal in, or refuses it when too much waits already.
    pub fn add(&mut self, token: ReplyToken, command: Bytes, deadline: Instant) -> bool {
        assert!(token.0 > self.last_seq, "tokens grow in the order of arrival");
        self.last_seq = token.0;
        let too_many = self.waiting.len() >= REQUESTS_WAITING_MAX;
        if too_many || self.bytes + command.len() > PROPOSALS_WAITING_BYTES_MAX {
            return false;
        }
        self.bytes += command.len();
        self.waiting.insert(token.0, PendingProposal { command, deadline, sent_at: Instant::ZERO });
        true
    }

    /// Applied here: the caller has its answer.
    pub fn finish(&mut self, seq: u64) {
        if let Some(done) = self.waiting.remove(&seq) {
            self.bytes -= done.command.len();
        }
    }

    /// Removes those whose deadline has passed. They may still be applied: their outcome is unknown.
    pub fn expire(&mut self, now: Instant) -> Vec<ReplyToken> {
        let late: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| waiting.deadline <= now).map(|(seq, _)| *seq).collect();
        late.iter().for_each(|seq| self.finish(*seq));
        late.into_iter().map(ReplyToken).collect()
    }

    /// Another leader: nothing is known to have reached it.
    pub fn resend_all(&mut self) {
        self.unsent_from = 0;
    }

    /// A proposal sent before `then` still waits: it was lost.
    pub fn has_unanswered_since(&self, then: Instant) -> bool {
        self.waiting.range(..self.unsent_from).any(|(_, waiting)| waiting.sent_at < then)
    }

    pub fn has_unsent(&self) -> bool {
        self.waiting.range(self.unsent_from..).next().is_some()
    }

    /// The next unsent proposal may change the configuration, and goes alone.
    pub fn is_change_next(&self) -> bool {
        let next = self.waiting.range(self.unsent_from..).next();
        next.is_some_and(|(_, waiting)| Command::reconfigures(&waiting.command))
    }

    /// The next entry's worth of unsent proposals, encoded behind what `batch` already holds: everything up to a
    /// change of the configuration, or that change alone.
    pub fn take_unsent(&mut self, now: Instant, batch: &mut Vec<u8>) {
        let low = self.waiting.first_key_value().map_or(self.unsent_from, |(seq, _)| *seq);
        let (origin, boot) = (self.origin, self.boot);
        for (seq, waiting) in self.waiting.range_mut(self.unsent_from..) {
            let alone = Command::reconfigures(&waiting.command);
            if batch.len() >= ENTRY_BYTES_SOFT || alone && !batch.is_empty() {
                return;
            }
            let id = ProposalId { origin, boot, seq: *seq };
            Proposal { id, low, command: waiting.command.clone() }.encode(batch);
            waiting.sent_at = now;
            self.unsent_from = seq + 1;
            if alone {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch;

    fn pending(count: u64) -> PendingProposals {
        let mut pending = PendingProposals::new(NodeId(1), Boot(1));
        for seq in 1..=count {
            assert!(pending.add(ReplyToken(seq), Bytes::from_static(b"command"), Instant(seq * 10)));
        }
        pending
    }

    fn take(pending: &mut PendingProposals) -> Vec<u64> {
        let mut out = Vec::new();
        pending.take_unsent(Instant(5), &mut out);
        batch::decode(out.into()).unwrap().iter().map(|proposal| proposal.id.seq).collect()
    }

    #[test]
    fn each_proposal_is_sent_once_to_a_leader_and_again_to_the_next() {
        let mut pending = pending(3);
        assert_eq!(take(&mut pending), [1, 2, 3]);
        assert!(!pending.has_unsent());
        pending.finish(2);
        pending.resend_all();
        assert_eq!(take(&mut pending), [1, 3]);
        assert!(pending.has_unanswered_since(Instant(6)));
        assert!(!pending.has_unanswered_since(Instant(5)));
    }

    #[test]
    fn a_passed_deadline_removes_the_proposal_and_its_bytes() {
        let mut pending = pending(3);
        assert_eq!(pending.expire(Instant(20)), [ReplyToken(1), ReplyToken(2)]);
        assert_eq!(pending.bytes, 7);
        assert_eq!(take(&mut pending), [3]);
    }

    #[test]
    fn low_is_the_oldest_that_still_waits() {
        let mut pending = pending(3);
        pending.finish(1);
        let mut out = Vec::new();
        pending.take_unsent(Instant(5), &mut out);
        assert!(batch::decode(out.into()).unwrap().iter().all(|proposal| proposal.low == 2));
    }

    #[test]
    fn what_would_fill_the_memory_is_refused() {
        let mut pending = PendingProposals::new(NodeId(1), Boot(1));
        let big = Bytes::from(vec![0; PROPOSALS_WAITING_BYTES_MAX / 2]);
        assert!(pending.add(ReplyToken(1), big.clone(), Instant(1)));
        assert!(pending.add(ReplyToken(2), big.clone(), Instant(1)));
        assert!(!pending.add(ReplyToken(3), Bytes::from_static(b"x"), Instant(1)));
    }
}
