//! Computes a change from the records that a majority of the key's replicas have: the record to propose, and the reply to
//! send once it is accepted. Conditions are evaluated only here, against what is decided or about to be. A proposal that may
//! have been accepted earlier is recognised, so a change is never applied twice and never refused because of itself.

use super::proposer::{Goal, PromiseAnswer, ProposeOp};
use super::requests::{decided, is_full, requests_after};
use crate::ballot::Ballot;
use crate::frame::RequestNote;
use crate::hlc::Stamp;
use crate::mesh::coordinator::writes::stamp_after;
use crate::mesh::remote_regions::streams::LoggedChange;
use crate::mesh::replica::Replica;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::op::{self, Attributes, WriteEvent};
use crate::record::Record;
use crate::request::{GetResult, Reply, Write};
use crate::{Actor, Dot};
use base::Code;
use base::limits::MESH_RECORD_BYTES_MAX;
use base::mutant::planted;
use bytes::Bytes;

/// What a majority of the replicas have of a key.
pub(super) struct QuorumState {
    pub record: Option<Record>,
    /// All of them have this very record and none has promised anything later: nothing else can be decided that is not
    /// made of it. So it may be shown as it is.
    pub is_settled: bool,
}

/// What a change comes to.
pub(super) enum ChangeOutcome {
    /// The client gets this reply at once.
    Reply(Reply),
    /// The client gets its reply when this is accepted.
    Propose(Box<Proposal>),
}

pub(super) struct Proposal {
    pub record: Record,
    /// The reply to send when it is accepted. None if the client's change is yet to be made.
    pub reply: Option<Reply>,
    /// The dot of the change, if the proposal is one.
    pub dot: Option<Dot>,
    pub notes: Vec<RequestNote>,
}

impl QuorumState {
    pub fn is_settled(heard: &[PromiseAnswer]) -> bool {
        let Some(first) = heard.first() else { return false };
        let round = first.record.as_ref().and_then(Record::ballot).map(|ballot| ballot.round);
        heard.iter().all(|other| other.record == first.record && other.prior <= round)
    }
}

impl Mesh {
    pub(super) fn check(
        &mut self,
        t: &mut Turn<'_>,
        proposing: &ProposeOp,
        quorum_state: QuorumState,
        ballot: Ballot,
    ) -> ChangeOutcome {
        let is_decided = self.coordinator.is_decided(&proposing.key, &quorum_state);
        let QuorumState { record, is_settled } = quorum_state;
        if let Some(found) = record.as_ref().filter(|found| found.is_never_decided()) {
            return ChangeOutcome::Reply(self.replica.refuse_to_decide(t, &proposing.goal, found));
        }
        let write = match &proposing.goal {
            Goal::Read => {
                let shown = record.clone().map(|record| self.coordinator.show(t, Box::new(record)));
                let finish_session_read =
                    GetResult { record: shown, from: self.params.actor.region, lag_ms: 0 };
                return confirmed(record, is_settled, ballot, Reply::Got(Box::new(finish_session_read)));
            }
            Goal::Write(write) => write.clone(),
        };
        if let Some(done) = &record
            && let Some(reply) = outcome_of_earlier(proposing, done)
        {
            return confirmed(record, is_settled, ballot, reply);
        }
        if let Some(reply) = self.replica.outcome_of_request(t, proposing, &write, record.as_ref()) {
            return confirmed(record, is_settled, ballot, reply);
        }
        let refusal = self.replica.refusal(t, &write, record.as_ref());
        if let Some(reply) = &refusal
            && !record.as_ref().is_some_and(|found| remembers_refusal(found, &write, reply))
        {
            return confirmed(record, is_settled, ballot, reply.clone());
        }
        if let Some(record) = record.as_ref().filter(|record| !is_decided && is_full(record)) {
            let record = record.clone().with_ballot(ballot);
            return ChangeOutcome::Propose(Box::new(Proposal {
                record,
                reply: None,
                dot: None,
                notes: vec![],
            }));
        }
        if let (Some(reply), Some(found)) = (refusal, &record) {
            return match self.refuse(t, proposing, &write, found, ballot, is_decided) {
                Ok((record, notes)) => {
                    let reply = Some(reply);
                    ChangeOutcome::Propose(Box::new(Proposal { record, reply, dot: None, notes }))
                }
                Err(code) => confirmed(record, is_settled, ballot, Reply::Refused(code)),
            };
        }
        match self.change(t, proposing, &write, record.as_ref(), ballot, is_decided) {
            Ok((record, notes)) => {
                let dot = Some(record.header.dot);
                let reply = Some(Reply::Written(Box::new(record.clone())));
                ChangeOutcome::Propose(Box::new(Proposal { record, reply, dot, notes }))
            }
            Err(code) => confirmed(record, is_settled, ballot, Reply::Refused(code)),
        }
    }

    /// The write done to what is there, under a new dot, in this node's own rows and in its log.
    fn change(
        &mut self,
        t: &mut Turn<'_>,
        proposing: &ProposeOp,
        write: &Write,
        base: Option<&Record>,
        ballot: Ballot,
        is_decided: bool,
    ) -> Result<(Record, Vec<RequestNote>), Code> {
        let clipped = base.and_then(|base| self.replica.clipped(base));
        let base = clipped.as_ref().or(base);
        let counter = self.replica.dots.take().ok_or(Code::NotInStep)?;
        let stamp = self.stamp_decided(t, proposing, write, base);
        let event = event(self.params.actor, counter, stamp, t.now.wall_ms);
        let folded = self.coordinator.with_handler(t, base, write);
        let done = folded.as_ref().unwrap_or(write);
        // Among the requests of plain writes it has no place.
        let attributes = Attributes { request: None, ..done.attributes.clone() };
        let written = op::apply(base, done.kind, &done.op, &attributes, event)?;
        let request = decided(write, written.full.header.stamp, event.dot, false);
        let (requests, left_out) = requests_after(base, request, is_decided);
        let changed = written.full.with_ballot(ballot).with_requests(requests);
        let bytes = changed.encode();
        let before = base.map_or(0, |base| base.encode().len());
        if bytes.len() > MESH_RECORD_BYTES_MAX && bytes.len() > before {
            return Err(Code::RequestTooLarge);
        }
        let notes = self.note_requests(t, &write.key, &left_out, event)?;
        self.log_change(t, write, base, &changed, &bytes);
        Ok((changed, notes))
    }

    /// What is there, with the write among its requests as refused: its client hears of that when it is accepted, and
    /// nothing carries the write out later, when its condition is met.
    fn refuse(
        &mut self,
        t: &mut Turn<'_>,
        proposing: &ProposeOp,
        write: &Write,
        found: &Record,
        ballot: Ballot,
        is_decided: bool,
    ) -> Result<(Record, Vec<RequestNote>), Code> {
        let stamp = self.stamp_decided(t, proposing, write, Some(found));
        let request = decided(write, stamp, found.header.dot, true);
        let (requests, left_out) = requests_after(Some(found), request, is_decided);
        let refused = found.clone().with_ballot(ballot).with_requests(requests);
        let event = event(self.params.actor, 0, stamp, t.now.wall_ms);
        let notes = self.note_requests(t, &write.key, &left_out, event)?;
        Ok((refused, notes))
    }

    /// Later than what the write has to come after, and than the requests before it, so that these stay in order.
    fn stamp_decided(
        &mut self,
        t: &Turn<'_>,
        proposing: &ProposeOp,
        write: &Write,
        base: Option<&Record>,
    ) -> Stamp {
        let begun = proposing.begun.map_or(Stamp::ZERO, Stamp::next);
        let last = base.and_then(|base| base.requests().last());
        let after = stamp_after(t, &write.attributes)
            .max(begun)
            .max(last.map_or(Stamp::ZERO, |last| last.stamp.next()));
        self.replica.clock.tick(t.now.wall_ms).max(after)
    }

    fn log_change(
        &mut self,
        t: &mut Turn<'_>,
        write: &Write,
        before: Option<&Record>,
        after: &Record,
        bytes: &Bytes,
    ) {
        self.append(t, &LoggedChange { key: &write.key, before, after, delta: bytes });
    }
}

impl Replica {
    /// No ballot decides about a collection or a bounded counter; a condition that does not hold is told all the same.
    fn refuse_to_decide(&self, t: &Turn<'_>, goal: &Goal, found: &Record) -> Reply {
        if found.bounded().is_some() {
            return Reply::Refused(Code::NotForBoundedCounters);
        }
        let refusal = match goal {
            Goal::Write(write) => self.refusal(t, write, Some(found)),
            Goal::Read => None,
        };
        refusal.unwrap_or(Reply::Refused(Code::NotForCollections))
    }
}

/// Whether a refusal becomes part of the record: it is final, and the write may come again. No ballot decides about a
/// collection.
fn remembers_refusal(found: &Record, write: &Write, refusal: &Reply) -> bool {
    let is_final = !matches!(refusal, Reply::Refused(Code::NotSeenHere));
    let may_come_again = write.attributes.once().is_some() && !planted(Mutant::RefusalNotRemembered);
    is_final && may_come_again && !found.is_never_decided()
}

fn event(actor: Actor, counter: u64, stamp: Stamp, wall_ms: u64) -> WriteEvent {
    WriteEvent { dot: Dot { actor, counter }, stamp, wall_ms }
}

/// Proposes the present record again unless it is settled, so that no client sees a record that may yet be lost.
fn confirmed(record: Option<Record>, is_settled: bool, ballot: Ballot, reply: Reply) -> ChangeOutcome {
    match record {
        Some(record) if !is_settled => {
            let (record, reply) = (record.with_ballot(ballot), Some(reply));
            ChangeOutcome::Propose(Box::new(Proposal { record, reply, dot: None, notes: vec![] }))
        }
        // Where nothing was accepted nothing is lost: what comes later is made of nothing, too.
        _ => ChangeOutcome::Reply(reply),
    }
}

/// The reply if the present record already includes the write: this node proposed it earlier and some replica accepted it, or
/// it was tried as a plain write.
fn outcome_of_earlier(proposing: &ProposeOp, found: &Record) -> Option<Reply> {
    let written = || Some(Reply::Written(Box::new(found.clone())));
    let dot = found.header.dot;
    if let Some(last) = &proposing.result
        && proposing.proposed.iter().any(|proposed| found.context.covers(*proposed))
    {
        return if proposing.proposed.contains(&dot) {
            written()
        } else {
            Some(Reply::Written(last.clone()))
        };
    }
    let plain = proposing.plain.filter(|plain| found.context.covers(*plain))?;
    if plain == dot { written() } else { Some(proposing.open()) }
}
