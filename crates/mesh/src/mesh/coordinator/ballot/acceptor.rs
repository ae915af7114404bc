//! The acceptor: a replica promises rounds, accepts proposals and refuses those below a promise. A replica that does not
//! serve, because it has just started or has not refilled a lost disk, does not vote. A round that a peer names must be the
//! peer's own and of this epoch.

use crate::ballot::Round;
use crate::frame::{Frame, OpId, RequestNote, Shard, StoreReason};
use crate::key::Key;
use crate::mesh::membership::Membership;
use crate::mesh::{Mesh, Then, Turn};
use crate::mutant::Mutant;
use crate::overlay::Seq;
use crate::record::{Kind, Record};
use crate::rows;
use crate::watermarks::Watermarks;
use base::NodeId;
use base::limits::MESH_OVERLAY_BYTES_MAX;
use base::mutant::planted;
use bytes::Bytes;

impl Membership {
    fn is_lawful(&self, from: NodeId, round: Round) -> bool {
        round.node == from && round.epoch == self.topology.epoch
    }
}

impl Mesh {
    /// Whether this replica may take part in deciding about a key.
    fn voter_of(&self, key: &Key) -> Option<Shard> {
        let has_space = self.replica.storage.bytes() <= MESH_OVERLAY_BYTES_MAX;
        let serves = self.membership.is_serving() || planted(Mutant::EmptiedPromises);
        self.membership.shard_of(key).filter(|shard| self.membership.keeps(*shard) && has_space && serves)
    }

    pub(in crate::mesh) fn step_prepare(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        key: &Key,
        round: Option<Round>,
        request: Option<u64>,
    ) {
        let lawful = round.is_none_or(|round| self.membership.is_lawful(from, round));
        let Some(shard) = self.voter_of(key).filter(|_| lawful) else {
            return self.answer_ballot(t, from, Seq(0), Frame::Declined { id });
        };
        let local = self.replica.load(t, key);
        let promise_state = self.replica.promise_state(t, key, shard, &local);
        if round.is_some_and(|round| !round.may_follow(promise_state.highest())) {
            return self.answer_ballot(t, from, Seq(0), Frame::Declined { id });
        }
        let granted = round.is_none_or(|round| promise_state.permits(round));
        // Of what no ballot decides about, the proposer only hears: a promise would keep plain writes out for ever.
        let is_decided = !local.record.as_ref().is_some_and(Record::is_never_decided)
            || planted(Mutant::CollectionPromised);
        let is_news = granted && is_decided && round.is_some() && round != promise_state.promised;
        if is_news && !self.replica.may_keep(t, key.bytes().len()) {
            return self.answer_ballot(t, from, Seq(0), Frame::Declined { id });
        }
        if let Some(round) = round.filter(|_| is_news) {
            self.replica.write_promise(key, round, &local);
        }
        let prior = if granted { promise_state.promised } else { promise_state.highest() };
        let marks =
            if local.bytes.is_none() { self.replica.shards.marks(shard) } else { Watermarks::default() };
        let attempts = |request| self.replica.storage.get(t.rows, &rows::record(&key.of_request(request))).0;
        let attempts = request.and_then(attempts);
        let promised = Frame::Promised { id, round, granted, prior, record: local.bytes, marks, attempts };
        let seq = if planted(Mutant::PromiseNotDurable) { Seq(0) } else { self.replica.storage.horizon() };
        self.answer_ballot(t, from, seq, promised);
    }

    pub(in crate::mesh) fn step_accept(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        key: &Key,
        bytes: Bytes,
        notes: &[RequestNote],
    ) {
        let len = bytes.len();
        let proposal = Record::decode(bytes).and_then(|record| Some((record.ballot()?, record)));
        let proposal = proposal.filter(|(ballot, _)| self.membership.is_lawful(from, ballot.round));
        let notes: Option<Vec<(Key, Record)>> = notes.iter().map(|note| decode_note(key, note)).collect();
        let (Some((ballot, record)), Some(notes), Some(shard)) = (proposal, notes, self.voter_of(key)) else {
            return self.answer_ballot(t, from, Seq(0), Frame::Declined { id });
        };
        let local = self.replica.load(t, key);
        let promise_state = self.replica.promise_state(t, key, shard, &local);
        let accepted = local.record.as_ref().and_then(Record::ballot);
        let permitted = promise_state.permits(ballot.round) || planted(Mutant::PromiseUnchecked);
        if !permitted || accepted > Some(ballot) {
            let passed = promise_state.highest();
            return self.answer_ballot(t, from, Seq(0), Frame::Accepted { id, ballot, passed });
        }
        if local.record.as_ref().is_some_and(Record::is_never_decided) {
            return self.answer_ballot(t, from, Seq(0), Frame::Declined { id });
        }
        let is_gone = local.record.is_none() && self.replica.is_purged(shard, &record);
        let is_lawful = ballot.round.may_follow(promise_state.highest());
        if !is_lawful || is_gone || !self.replica.may_take(t, key, &record, len) {
            return self.answer_ballot(t, from, Seq(0), Frame::Declined { id });
        }
        if promise_state.promised < Some(ballot.round) {
            self.replica.write_promise(key, ballot.round, &local);
        }
        for (key, note) in &notes {
            self.replica.absorb(t, key, shard, note, StoreReason::Repair);
        }
        self.replica.absorb(t, key, shard, &record, StoreReason::Repair);
        self.answer_ballot(
            t,
            from,
            self.replica.storage.horizon(),
            Frame::Accepted { id, ballot, passed: None },
        );
    }

    /// Answers the proposer, which may be this node, once everything up to a batch is durable.
    fn answer_ballot(&mut self, t: &mut Turn<'_>, to: NodeId, seq: Seq, frame: Frame) {
        let then = if to == self.membership.me { Then::BallotAnswer(frame) } else { Then::Send(to, frame) };
        self.after(t, seq, then);
    }
}

/// The attempts of a request, and the key under which they are remembered.
fn decode_note(key: &Key, (request, bytes): &RequestNote) -> Option<(Key, Record)> {
    let note = Record::decode(bytes.clone()).filter(|note| note.kind == Kind::Set)?;
    Some((key.of_request(*request), note))
}
