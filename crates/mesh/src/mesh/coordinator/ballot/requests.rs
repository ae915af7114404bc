//! Request ids of changes that are decided by ballots. The record holds the last of them, so the record itself shows whether
//! a request was applied. A request id that a change drops from the record is noted beside the key (ADR 44) together with
//! the acceptance of that change, and so on a majority. It is noted only if the base of the change is decided, so no request
//! is noted that was not applied. A dot is no proof: a node's later change covers its earlier proposals, including lost ones.

use super::change::QuorumState;
use super::proposer::ProposeOp;
use crate::Dot;
use crate::attempts::{Attempt, attempts_of, body_hash};
use crate::counter::CounterSums;
use crate::frame::{OpId, RequestNote, StoreReason};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::replica::Replica;
use crate::mesh::{Mesh, Turn};
use crate::op::WriteEvent;
use crate::record::{DecidedRequest, REQUESTS_MAX, Record};
use crate::request::{Reply, Write};
use base::Code;
use base::mutant::{Mutant, planted};

/// A change leaves out all but the last so many.
const REQUESTS_KEPT: usize = 8;

/// As many requests as a record may hold: nothing may be added before some are left out.
pub(super) fn is_full(record: &Record) -> bool {
    record.requests().len() >= REQUESTS_MAX
}

/// The requests of the record that a change makes, and those that it leaves out.
pub(super) fn requests_after(
    base: Option<&Record>,
    write: &Write,
    stamp: Stamp,
    dot: Dot,
    is_decided: bool,
) -> (Vec<DecidedRequest>, Vec<DecidedRequest>) {
    let mut requests = base.map_or_else(Vec::new, |base| base.requests().to_vec());
    let body = body_hash(write);
    requests.extend(write.attributes.request.map(|request| DecidedRequest { request, body, stamp, dot }));
    let surplus = requests.len().saturating_sub(REQUESTS_KEPT);
    let left_out = requests.drain(..if is_decided { surplus } else { 0 }).collect();
    (requests, left_out)
}

impl Coordinator {
    /// Whether what a change is made of is known to be decided: a majority has this very record, or it was accepted by one
    /// when this node proposed it.
    pub(super) fn is_decided(&self, key: &Key, quorum_state: &QuorumState) -> bool {
        let ballot = quorum_state.record.as_ref().and_then(Record::ballot);
        quorum_state.is_settled || ballot.is_some() && self.proposals.leads.get(key).copied() == ballot
    }
}

impl Replica {
    /// The reply if the request was applied before, or its id was used for another request.
    pub(super) fn outcome_of_request(
        &self,
        t: &Turn<'_>,
        proposing: &ProposeOp,
        write: &Write,
        found: Option<&Record>,
    ) -> Option<Reply> {
        let request = write.attributes.request?;
        let noted = self.load(t, &write.key.of_request(request)).record;
        let attempts = noted.as_ref().map(attempts_of).unwrap_or_default();
        let own = found.and_then(|found| found.requests().iter().find(|own| own.request == request));
        let mut bodies = attempts.iter().map(|attempt| attempt.body).chain(own.map(|own| own.body));
        if bodies.any(|body| body != body_hash(write)) {
            return Some(Reply::Refused(Code::RequestIdReused));
        }
        let is_decided = own.is_some() || attempts.iter().any(|attempt| attempt.is_decided);
        let Some(found) = found else {
            return is_decided.then_some(Reply::Refused(Code::KeyDeleted));
        };
        let last = found.header.dot;
        let is_last = attempts.iter().any(|attempt| attempt.dot == last);
        if is_decided || is_last || found.has_taken(request) {
            return Some(Reply::Written(Box::new(found.clone())));
        }
        // An earlier plain write: whether it was lost to a ballot is unknown by now.
        let is_plain = |attempt: &Attempt| Some(attempt.dot) != proposing.plain;
        let covered = attempts.iter().any(|attempt| is_plain(attempt) && found.context.covers(attempt.dot));
        covered.then(|| proposing.unknown())
    }
}

impl Mesh {
    /// Takes in what replicas remember of the request that is proposed.
    pub(super) fn absorb_attempts<'a>(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        key: &Key,
        attempts: impl Iterator<Item = &'a Record>,
    ) {
        let request = self.coordinator.propose_op(id).and_then(|proposing| proposing.request());
        let shard = self.membership.shard_of(key).filter(|shard| self.membership.keeps(*shard));
        let (Some(request), Some(shard)) = (request, shard) else { return };
        for record in attempts {
            self.replica.absorb(t, &key.of_request(request), shard, record, StoreReason::Repair);
        }
    }

    /// Remembers beside the key that requests were carried out.
    pub(super) fn note_requests(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        left_out: &[DecidedRequest],
        event: WriteEvent,
    ) -> Result<Vec<RequestNote>, Code> {
        let mut notes = Vec::new();
        if planted(Mutant::DecidedRequestDropped) {
            return Ok(notes);
        }
        for DecidedRequest { request, body, dot, .. } in left_out.iter().copied() {
            let (before, change) = (CounterSums::default(), CounterSums::default());
            let attempt = Attempt { body, dot, before, change, is_decided: true };
            let shard = self.membership.shard_of(key).ok_or(Code::UnknownSpace)?;
            let counter = self.replica.dots.take().ok_or(Code::NotInStep)?;
            let event = WriteEvent { dot: Dot { counter, ..event.dot }, ..event };
            let noted = key.of_request(request);
            let local = self.replica.load(t, &noted);
            notes.push((request, self.write_note(t, (&noted, &local), shard, attempt, event)?));
        }
        Ok(notes)
    }
}
