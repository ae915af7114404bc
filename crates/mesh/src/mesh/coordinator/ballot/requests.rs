//! Request ids of changes that are decided by ballots. The record holds the last of them, so the record itself shows whether
//! a request was applied, or refused and therefore never will be. A request id that a change or a refusal drops from the record is noted beside the key (ADR 44) together with
//! the acceptance of that change, and so on a majority. It is noted only if the base of the change is decided, so no request
//! is noted that was not applied. A dot is no proof: a node's later change covers its earlier proposals, including lost ones.

use super::change::QuorumState;
use super::proposer::ProposeOp;
use crate::Dot;
use crate::attempts::{Attempt, Fate, attempts_of, body_hash, is_other};
use crate::context::Context;
use crate::counter::CounterSums;
use crate::frame::{OpId, RequestNote, StoreReason};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::replica::Replica;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::op::WriteEvent;
use crate::record::{DecidedRequest, REQUESTS_MAX, Record};
use crate::request::{Reply, Write};
use base::Code;
use base::mutant::planted;

/// A change leaves out all but the last so many.
const REQUESTS_KEPT: usize = 8;

/// As many requests as a record may hold: nothing may be added before some are left out.
pub(super) fn is_full(record: &Record) -> bool {
    record.requests().len() >= REQUESTS_MAX
}

/// Whether the record tells of every request that was decided from a stamp on: changes come in the order of their stamps,
/// and what one leaves out is older than what it keeps.
pub(super) fn holds_all_since(record: &Record, stamp: Stamp) -> bool {
    let requests = record.requests();
    requests.len() < REQUESTS_KEPT || requests.first().is_some_and(|oldest| oldest.stamp <= stamp)
}

/// The decided form of a write's request, if it has one.
pub(super) fn decided(write: &Write, stamp: Stamp, dot: Dot, is_refused: bool) -> Option<DecidedRequest> {
    let body = body_hash(write);
    write.attributes.once().map(|request| DecidedRequest { request, body, stamp, dot, is_refused })
}

/// The requests of the record when one more is decided, and those that are left out.
pub(super) fn requests_after(
    base: Option<&Record>,
    request: Option<DecidedRequest>,
    is_decided: bool,
) -> (Vec<DecidedRequest>, Vec<DecidedRequest>) {
    let mut requests = base.map_or_else(Vec::new, |base| base.requests().to_vec());
    requests.extend(request);
    let surplus = requests.len().saturating_sub(REQUESTS_KEPT);
    let left_out = requests.drain(..if is_decided { surplus } else { 0 }).collect();
    (requests, left_out)
}

/// Something is there that the writer has not seen. A writer that expects nothing finds nothing where the key is deleted.
fn is_unexpected(expect: &Context, record: &Record, wall_ms: u64) -> bool {
    !expect.dominates(&record.context) && (!expect.is_empty() || record.is_live(wall_ms))
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
    /// Why the write is not carried out on what is there.
    pub(super) fn refusal(&self, t: &Turn<'_>, write: &Write, found: Option<&Record>) -> Option<Reply> {
        if let (Some(expect), Some(found)) = (&write.expect, found)
            && is_unexpected(expect, found, t.now.wall_ms)
        {
            return Some(Reply::Conflict(Box::new(found.clone())));
        }
        self.unknown_in(found, write).map(Reply::Refused)
    }

    /// The reply if the request was applied or refused before, or its id was used for another request.
    pub(super) fn outcome_of_request(
        &self,
        t: &Turn<'_>,
        proposing: &ProposeOp,
        write: &Write,
        found: Option<&Record>,
    ) -> Option<Reply> {
        let request = write.attributes.once()?;
        let noted = self.load(t, &write.key.of_request(request)).record;
        let attempts = noted.as_ref().map(attempts_of).unwrap_or_default();
        let own = found.and_then(|found| found.requests().iter().find(|own| own.request == request));
        let mut bodies = attempts.iter().map(|attempt| attempt.body).chain(own.map(|own| own.body));
        if bodies.any(|body| is_other(body, write)) {
            return Some(Reply::Refused(Code::RequestIdReused));
        }
        let own_fate = own.map(|own| if own.is_refused { Fate::Refused } else { Fate::Decided });
        let has_fate = |fate| own_fate == Some(fate) || attempts.iter().any(|attempt| attempt.fate == fate);
        let (is_decided, is_refused) = (has_fate(Fate::Decided), has_fate(Fate::Refused));
        let Some(found) = found else {
            return (is_decided || is_refused).then_some(Reply::Refused(Code::KeyDeleted));
        };
        if is_refused && !is_decided {
            // The reason may be gone; the refusal stands.
            let conflict = || Reply::Conflict(Box::new(found.clone()));
            return Some(self.refusal(t, write, Some(found)).unwrap_or_else(conflict));
        }
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

    /// Remembers beside the key that requests were decided.
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
        for DecidedRequest { request, body, dot, is_refused, .. } in left_out.iter().copied() {
            let (before, change) = (CounterSums::default(), CounterSums::default());
            let fate = if is_refused { Fate::Refused } else { Fate::Decided };
            let attempt = Attempt { body, dot, before, change, fate };
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
