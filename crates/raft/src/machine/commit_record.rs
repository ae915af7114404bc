//! Makes the commit index of a configuration change durable, so that a restarted member uses the configuration that
//! it used before. A configuration takes effect when it is applied; the store has it with its next flush, the log
//! records its commit at once. Forgetting it is safe (ADR 35), but the member could wait for a removed member.

use super::{InFlight, Output, Persist, Raft, vote_of};
use crate::record::Record;
use base::{Index, Term};

impl Raft {
    /// A restarted member knows that the change is committed, and uses it.
    pub(super) fn record_commit(&mut self, out: &mut Output) {
        let raft = &self.node.raft;
        let (term, commit) = (Term(raft.term), Index(raft.raft_log.committed));
        let vote = vote_of(&raft.hard_state());
        self.record(Record::Vote { term, vote, commit }, out);
    }

    /// Persists a record behind everything that is in flight; no message waits for it.
    pub(super) fn record(&mut self, record: Record, out: &mut Output) {
        self.persist_seq += 1;
        out.persist.push(Persist { seq: self.persist_seq, install: None, records: vec![record] });
        self.in_flight.push_back(InFlight {
            seq: self.persist_seq,
            ready_number: self.last_ready,
            // Everything that the library has returned is written before this.
            term: Term(self.node.raft.term),
            installs: false,
            then_send: Vec::new(),
        });
    }
}
