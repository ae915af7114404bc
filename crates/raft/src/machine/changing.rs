//! What a member keeps of changes of the cluster, so that it comes back counting by what it counted by before.
//! A configuration counts from when it is applied; the store knows it with its next flush, the log says that it was committed
//! at once. Nothing unsafe follows from forgetting it (ADR 35): but a member that has gone for good might be waited for.

use super::{InFlight, Output, Persist, Raft, vote_of};
use crate::record::Record;
use base::{Index, Term};

impl Raft {
    /// A member that comes back knows that the change is committed, and counts by it.
    pub(super) fn record_commit(&mut self, out: &mut Output) {
        let raft = &self.node.raft;
        let (term, commit) = (Term(raft.term), Index(raft.raft_log.committed));
        let vote = vote_of(&raft.hard_state());
        self.record(Record::Vote { term, vote, commit }, out);
    }

    /// Makes something durable behind everything that is under way, of which nobody waits to hear.
    pub(super) fn record(&mut self, record: Record, out: &mut Output) {
        self.persist_seq += 1;
        out.persist.push(Persist { seq: self.persist_seq, install: None, records: vec![record] });
        self.in_flight.push_back(InFlight {
            seq: self.persist_seq,
            ready_number: self.last_ready,
            // All that the library has handed out is written before this.
            term: Term(self.node.raft.term),
            installs: false,
            then_send: Vec::new(),
        });
    }
}
