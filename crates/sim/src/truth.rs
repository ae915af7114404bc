//! What the committed log means, carried out on the model when the first member commits an entry; its clients do not
//! see it. The judge of watches believes it. The judge of the order takes where operations landed
//! as a hint for what to try first and checks every step of it, so a wrong hint can waste its time but not mislead it.

use crate::document_writers::CommittedDocuments;
use crate::history::{ModelRequest, Operation};
use crate::model::{State, carry_out};
use crate::seen_proposals::SeenProposals;
use base::limits::SESSION_REPLIES_MAX;
use base::{Index, LeaseId, Position, ProposalId, Revision};
use coord::request::Request;
use coord::{Command, Compact, Guard, RequestId, Revoke};
use node::batch;
use raft::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub struct Truth {
    /// Revisions of requested compactions.
    pub compactions: BTreeSet<Revision>,
    /// Revisions in which some key was deleted.
    pub deletes: BTreeSet<Revision>,
    state: State,
    applied: Index,
    asked: BTreeMap<ProposalId, usize>,
    seen_proposals: SeenProposals,
    landed: BTreeMap<usize, Revision>,
    /// Where each lease was granted in the log, and at which revision it ended.
    granted: BTreeMap<LeaseId, Index>,
    ended: BTreeMap<LeaseId, Revision>,
    sessions: BTreeMap<LeaseId, SessionRequests>,
    /// The documents.
    pub committed_documents: CommittedDocuments,
}

/// The requests of a session that were carried out; those below the mark are forgotten.
#[derive(Default)]
struct SessionRequests {
    low: u64,
    seqs: BTreeSet<u64>,
}

impl Truth {
    pub fn new() -> Truth {
        Truth {
            compactions: BTreeSet::new(),
            deletes: BTreeSet::new(),
            state: State::empty(),
            applied: Index::ZERO,
            asked: BTreeMap::new(),
            seen_proposals: SeenProposals::default(),
            landed: BTreeMap::new(),
            granted: BTreeMap::new(),
            ended: BTreeMap::new(),
            sessions: BTreeMap::new(),
            committed_documents: CommittedDocuments::default(),
        }
    }

    /// An operation of the history goes into the log under this id, if it ever does.
    pub fn asked(&mut self, id: ProposalId, operation: usize) {
        self.asked.insert(id, operation);
    }

    pub fn committed(&mut self, entry: &Entry) {
        if entry.at.index <= self.applied {
            return;
        }
        self.applied = entry.at.index;
        for proposal in batch::decode(entry.data.clone()).unwrap_or_default() {
            if self.seen_proposals.is_new(proposal.id, proposal.low)
                && let Some(command) = Command::decode(proposal.command)
                && let Some(command) = self.unless_repeated(command)
            {
                self.carry_out(entry.at, proposal.id, command);
            }
        }
    }

    /// What a client's request asks for, unless it was carried out or can no longer be known.
    fn unless_repeated(&mut self, command: Command) -> Option<Command> {
        let Command::Idempotent(once) = &command else { return Some(command) };
        let RequestId { session, seq, low } = once.id;
        if !self.state.has_lease(session) {
            return None;
        }
        let known = self.sessions.entry(session).or_default();
        let fresh = seq >= known.low && known.seqs.insert(seq);
        if !fresh {
            return None;
        }
        known.low = known.low.max(low);
        while known.seqs.len() > SESSION_REPLIES_MAX || known.seqs.first().is_some_and(|seq| *seq < known.low)
        {
            known.low = known.low.max(known.seqs.pop_first().map_or(0, |oldest| oldest + 1));
        }
        Some(once.command().clone())
    }

    fn carry_out(&mut self, at: Position, id: ProposalId, command: Command) {
        let asked = match command {
            Command::Put(put) => ModelRequest::Kv(Request::Put(put)),
            Command::Delete(delete) => ModelRequest::Kv(Request::Delete(delete)),
            Command::Txn(txn) => ModelRequest::Kv(Request::Txn(txn)),
            Command::LeaseGrant(grant) => {
                if !self.state.has_lease(grant.id) {
                    self.granted.insert(grant.id, at.index);
                    self.state = self.state.grant(grant.id);
                }
                return;
            }
            Command::LeaseRevoke(Revoke { id, guard }) => {
                let current = self.granted.get(&id).map(|granted| Guard { term: at.term, granted: *granted });
                if guard.is_some() && guard != current {
                    return;
                }
                ModelRequest::EndLease(id)
            }
            Command::Compact(Compact { revision, .. }) => {
                if revision > self.state.floor() && revision <= self.state.revision() {
                    self.state = self.state.compact(revision);
                }
                return;
            }
            Command::Document(set) => return self.committed_documents.record(set),
            _ => return,
        };
        let Ok((after, _)) = carry_out(&self.state, &asked) else { return };
        if let ModelRequest::EndLease(lease) = asked {
            self.sessions.remove(&lease);
            self.ended.insert(lease, after.revision());
        }
        if after.revision() > self.state.revision()
            && let Some(operation) = self.asked.get(&id)
        {
            self.landed.insert(*operation, after.revision());
        }
        if self.state.keys().keys().any(|key| !after.keys().contains_key(key)) {
            self.deletes.insert(after.revision());
        }
        self.state = after;
    }

    /// The newest state that was committed, and through it all before.
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn revision(&self) -> Revision {
        self.state.revision()
    }

    pub fn landed(&self, number: usize, operation: &Operation) -> Option<Revision> {
        match &operation.request {
            ModelRequest::Kv(_) => self.landed.get(&number).copied(),
            ModelRequest::EndLease(lease) => self.ended.get(lease).copied(),
        }
    }
}

impl Default for Truth {
    fn default() -> Truth {
        Truth::new()
    }
}
