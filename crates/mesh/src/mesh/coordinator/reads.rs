//! Quorum reads: as many replicas as the client asked for answer, their records are merged, and replicas that lack part of
//! the result are repaired before the client receives it; so reads are monotonic. The quickest replicas are asked first,
//! the others when an answer is late. A read whose quorum is down fails as soon as the replicas that are taken for down had
//! a moment to answer, and the reply names them. While a partition moves, a majority of its next replicas must
//! have the record as well: soon they are asked alone.

use crate::frame::{Frame, OpId, StoreReason};
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::coordinator::writes::Route;
use crate::mesh::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::overlay::Seq;
use crate::record::Record;
use crate::request::{Missing, Reply};
use crate::topology::MovePhase;
use crate::watermarks::Watermarks;
use base::mutant::planted;
use base::{Code, Instant, NodeId};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Replicas that declined are asked again after so long.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// After so long a waiting read checks whether the replicas that it waits for are down by now.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Replicas that are taken for down have so long to show that they are not.
const GIVE_UP_AFTER: Duration = Duration::from_millis(30);

#[derive(Debug)]
pub(in crate::mesh) struct ReadOp {
    client: Client,
    key: Key,
    /// How many the client wants to be heard.
    r: Option<u8>,
    route: Arc<Route>,
    /// How many of the replicas that are read are needed.
    needed: usize,
    /// The partition moves, and a majority of the replicas to come is needed too.
    counts_next: bool,
    /// Replicas that were not asked yet, the best last.
    rest: Vec<NodeId>,
    /// Replicas that declined, and may answer later.
    declined: Vec<NodeId>,
    asked: Vec<NodeId>,
    heard: Vec<ReadAnswer>,
    /// The merge of all replies, once enough have arrived.
    merged: Option<Option<Box<Record>>>,
    /// The replicas that have it.
    agreed: Vec<NodeId>,
    /// The replicas that lack part of it.
    behind: Vec<NodeId>,
    /// The records that were merged, if one of them lost.
    sides: Vec<Record>,
}

#[derive(Debug)]
struct ReadAnswer {
    from: NodeId,
    record: Option<Record>,
    marks: Watermarks,
}

impl ReadOp {
    /// All replicas of the key.
    fn replicas(&self) -> Vec<NodeId> {
        self.asked.iter().chain(&self.rest).chain(&self.declined).copied().collect()
    }

    /// Whether these nodes are as many as are needed.
    fn is_met(&self, is_among: impl Fn(NodeId) -> bool) -> bool {
        let count = |list: &[NodeId]| list.iter().filter(|node| is_among(**node)).count();
        let Route { read, also } = &*self.route;
        count(read) >= self.needed && (!self.counts_next || count(also) >= majority(also.len()))
    }

    fn is_answered(&self) -> bool {
        self.is_met(|node| self.heard.iter().any(|heard| heard.from == node))
    }

    /// Whether enough replies have arrived and all are the same: there is nothing to merge, forget or repair.
    fn is_unanimous(&self) -> bool {
        let Some((first, others)) = self.heard.split_first() else { return false };
        let Some(record) = &first.record else { return false };
        let same = |heard: &ReadAnswer| heard.record.as_ref() == Some(record);
        let gone = |heard: &ReadAnswer| heard.marks.cover(record);
        self.is_answered() && others.iter().all(same) && !self.heard.iter().any(gone)
    }
}

impl Coordinator {
    fn read_op(&mut self, id: OpId) -> Option<&mut ReadOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Read(reading)) => Some(reading),
            _ => None,
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_read(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        key: Key,
        r: Option<u8>,
        deadline: Instant,
    ) {
        let Some(copies) = self.membership.topology.copies(key.namespace_id()) else {
            return self.reply(t, client, Reply::Refused(Code::UnknownSpace));
        };
        let route = self.membership.route(key.partition(), copies).clone();
        let needed = r.map_or(majority(route.read.len()), usize::from);
        if needed == 0 || needed > route.read.len() {
            return self.reply(t, client, Reply::Refused(Code::BadQuorum));
        }
        let is_pending = self.membership.topology.phase(key.partition()) == MovePhase::Pending;
        let counts_next = is_pending
            && !route.also.is_empty()
            && needed >= majority(route.read.len())
            && !planted(Mutant::OldListShows);
        if needed == 1
            && !counts_next
            && route.read.contains(&self.membership.me)
            && self.membership.is_serving()
        {
            let local = self.replica.load(t, &key);
            if self.replica.storage.is_durable(local.seq) {
                return self.reply(t, client, Reply::Found(local.record.map(Box::new)));
            }
        }
        let mut list = if counts_next { route.replicas().collect() } else { route.read.clone() };
        let asked_first = if counts_next { list.len() } else { needed };
        self.membership.peers.order(&mut list);
        // This node itself is the quickest of all.
        list.sort_by_key(|node| *node != self.membership.me);
        list.reverse();
        let reading = ReadOp {
            client,
            key,
            r,
            route,
            needed,
            counts_next,
            rest: list,
            declined: Vec::new(),
            asked: Vec::with_capacity(needed),
            heard: Vec::with_capacity(needed),
            merged: None,
            agreed: Vec::new(),
            behind: Vec::new(),
            sides: Vec::new(),
        };
        let id = self.coordinator.begin(t, Operation::Read(Box::new(reading)), deadline);
        self.ask_more(t, id, asked_first);
    }

    /// Asks up to `n` more replicas that are not down, or any when there are no others, and sets the alarm after which the others are asked too.
    fn ask_more(&mut self, t: &mut Turn<'_>, id: OpId, n: usize) {
        let mut asked = Vec::new();
        for _ in 0..n {
            let Some(reading) = self.coordinator.read_op(id) else { return };
            let Some(node) = reading.rest.pop() else { break };
            let key = reading.key.clone();
            reading.asked.push(node);
            if node == self.membership.me {
                self.fetch_here(t, id);
            } else {
                asked.push(node);
                self.send(t, node, Frame::Fetch { id, key });
            }
        }
        if !asked.is_empty() {
            self.coordinator.timers.set(t.now.at.after(self.membership.peers.hedge_delay(&asked)), id);
        }
    }

    /// Answers with the record of this node, once it is durable.
    pub(in crate::mesh) fn fetch_here(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(key) = self.coordinator.read_op(id).map(|reading| reading.key.clone()) else { return };
        let Some(shard) = self.membership.shard_of(&key).filter(|_| self.membership.is_serving()) else {
            return self.decline_read(t, self.membership.me, id);
        };
        let local = self.replica.load(t, &key);
        if !self.replica.storage.is_durable(local.seq) {
            return self.after(t, local.seq, Then::FetchLocal(id));
        }
        let marks =
            if local.bytes.is_none() { self.replica.shards.marks(shard) } else { Watermarks::default() };
        self.read_fetched(t, self.membership.me, id, local.record, marks);
    }

    /// An answer is late: asks every replica that was not asked, or declined.
    pub(in crate::mesh) fn hedge(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.read_op(id).filter(|reading| reading.merged.is_none()) else {
            return;
        };
        let again = std::mem::take(&mut reading.declined);
        reading.rest.splice(0..0, again);
        let n = reading.rest.len();
        let heard = |node: &NodeId| reading.heard.iter().any(|heard| heard.from == *node);
        let late: Vec<NodeId> = reading.asked.iter().copied().filter(|node| !heard(node)).collect();
        late.into_iter().for_each(|node| self.membership.peers.mark_slow(node));
        self.ask_more(t, id, if planted(Mutant::SlowReplicaAwaited) { 0 } else { n });
        self.give_up_read(t, id);
    }

    /// Answers a read for which too many are known to be down, and have not answered this one either; otherwise it is looked at
    /// again in a while.
    fn give_up_read(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(started) = self.coordinator.operations.get(&id).map(|pending| pending.started) else {
            return;
        };
        let Some(reading) = self.coordinator.read_op(id) else { return };
        let heard: Vec<NodeId> = reading.heard.iter().map(|heard| heard.from).collect();
        let replicas = reading.replicas();
        let is_known_down =
            |node: &NodeId| self.membership.peers.is_down(*node) && !planted(Mutant::RefusedAtDeadline);
        let may_answer = |node: &NodeId| heard.contains(node) || *node == me || !is_known_down(node);
        let may_answer: Vec<NodeId> = replicas.into_iter().filter(may_answer).collect();
        if self
            .coordinator
            .read_op(id)
            .is_some_and(|reading| reading.is_met(|node| may_answer.contains(&node)))
        {
            return self.coordinator.timers.set(t.now.at.after(LOOK_AGAIN), id);
        }
        if t.now.at < started.after(GIVE_UP_AFTER) {
            return self.coordinator.timers.set(started.after(GIVE_UP_AFTER), id);
        }
        if let Some(Operation::Read(reading)) = self.coordinator.finish(id).map(|pending| pending.operation) {
            self.refuse_read(t, &reading);
        }
    }

    fn refuse_read(&mut self, t: &mut Turn<'_>, reading: &ReadOp) {
        let heard = |node: &NodeId| reading.heard.iter().any(|heard| heard.from == *node);
        let missing = Missing::nodes(reading.replicas().into_iter().filter(|node| !heard(node)).collect());
        let (acks, needed) = (reading.heard.len() as u8, reading.needed as u8);
        self.reply(t, reading.client, Reply::Unavailable { acks, needed, missing });
    }

    pub(in crate::mesh) fn decline_read(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let Some(reading) = self.coordinator.read_op(id) else { return };
        if reading.merged.is_some() {
            return self.repair_another(t, id);
        }
        reading.asked.retain(|node| *node != from);
        reading.declined.push(from);
        if reading.rest.is_empty() {
            self.coordinator.timers.set(t.now.at.after(RETRY_AFTER), id);
        }
        self.ask_more(t, id, 1);
    }

    pub(in crate::mesh) fn step_fetched(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Bytes>,
        marks: Watermarks,
    ) {
        self.record_rtt(t, from, id);
        let record = match record.map(Record::decode) {
            Some(None) => return,
            Some(Some(record)) => Some(record),
            None => None,
        };
        match self.coordinator.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Read(_)) => self.read_fetched(t, from, id, record, marks),
            Some(Operation::Write(_)) => self.write_fetched(t, from, id, record, None),
            _ => {}
        }
    }

    fn read_fetched(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Record>,
        marks: Watermarks,
    ) {
        let Some(reading) = self.coordinator.read_op(id) else { return };
        let awaited = reading.merged.is_none() && reading.asked.contains(&from);
        if !awaited || reading.heard.iter().any(|heard| heard.from == from) {
            return;
        }
        reading.heard.push(ReadAnswer { from, record, marks });
        if !reading.is_answered() && !planted(Mutant::ReadNotCounted) {
            return;
        }
        let is_collection = |heard: &ReadAnswer| heard.record.as_ref().is_some_and(Record::is_collection);
        if reading.heard.iter().any(is_collection) {
            // The record of a collection is the header only. Its elements are read, and repaired, below the key.
            let records = reading.heard.drain(..).filter_map(|heard| heard.record);
            reading.merged = Some(records.max_by(Record::rank).map(Box::new));
            return self.answer_read(t, id);
        }
        if reading.is_unanimous() {
            reading.merged = Some(reading.heard.pop().and_then(|heard| heard.record).map(Box::new));
            return self.answer_read(t, id);
        }
        // A record that one replica knows to be deleted everywhere does not count, even if another still has it.
        let (key, records) =
            (reading.key.clone(), reading.heard.iter().filter_map(|heard| heard.record.clone()));
        let records: Vec<Record> = records.collect();
        let (merged, seq) = self.replica.join(t, &key, records.iter().cloned());
        let Some(reading) = self.coordinator.read_op(id) else { return };
        if seq > Seq(0) {
            reading.sides = records;
        }
        let gone = |record: &Record| reading.heard.iter().any(|heard| heard.marks.cover(record));
        let merged = merged.filter(|record| !gone(record)).map(Box::new);
        reading.merged = Some(merged.clone());
        let stale = |heard: &&ReadAnswer| heard.record.as_ref() != merged.as_deref();
        let behind: Vec<NodeId> = reading.heard.iter().filter(stale).map(|heard| heard.from).collect();
        let answered = reading.heard.iter().map(|heard| heard.from);
        reading.agreed = answered.filter(|node| !behind.contains(node)).collect();
        reading.behind = behind;
        if merged.is_some() && !planted(Mutant::ReadNotRepaired) {
            // A replica with the merged record cannot see the conflict any more: the conflict is durable first.
            return self.after(t, seq, Then::Repair(id));
        }
        self.answer_read(t, id);
    }

    /// Repairs the replicas that answered and lack something.
    pub(in crate::mesh) fn repair(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.read_op(id) else { return };
        let (key, behind) = (reading.key.clone(), std::mem::take(&mut reading.behind));
        let sides = std::mem::take(&mut reading.sides);
        let Some(merged) = reading.merged.clone().flatten() else { return };
        let Some(shard) = self.membership.shard_of(&key) else { return };
        let record = merged.encode();
        for node in behind {
            if node == self.membership.me && !self.replica.may_take(t, &key, &merged, record.len()) {
                self.repair_another(t, id);
                continue;
            }
            for side in &sides {
                // A replica that meets both sides itself can tell the loser's origin that it was superseded.
                if node == self.membership.me {
                    self.replica.absorb(t, &key, shard, side, StoreReason::Repair);
                } else {
                    let (id, key, record) = (OpId(0), key.clone(), side.encode());
                    self.send(t, node, Frame::Store { id, key, record, reason: StoreReason::Repair });
                }
            }
            if node == self.membership.me {
                let (outcome, seq) = self.replica.absorb(t, &key, shard, &*merged, StoreReason::Repair);
                self.after(t, seq, Then::Stored(id, outcome));
            } else {
                let (key, record) = (key.clone(), record.clone());
                self.send(t, node, Frame::Store { id, key, record, reason: StoreReason::Repair });
            }
        }
        self.try_finish_read(t, id);
    }

    /// A replica that was to be repaired declined. The result is returned when any so many replicas have it, so a replica
    /// that was not asked takes its place.
    fn repair_another(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(reading) = self.coordinator.read_op(id) else { return };
        let Some(node) = reading.rest.pop_if(|node| *node != me) else { return };
        let Some(merged) = reading.merged.as_ref().and_then(Option::as_deref) else { return };
        let (key, record) = (reading.key.clone(), merged.encode());
        self.send(t, node, Frame::Store { id, key, record, reason: StoreReason::Repair });
    }

    pub(in crate::mesh) fn read_stored(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        if let Some(reading) = self.coordinator.read_op(id)
            && !reading.agreed.contains(&from)
        {
            reading.agreed.push(from);
        }
        self.try_finish_read(t, id);
    }

    fn try_finish_read(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.read_op(id) else { return };
        if reading.is_met(|node| reading.agreed.contains(&node)) && reading.merged.is_some() {
            self.answer_read(t, id);
        }
    }

    fn answer_read(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.read_op(id) else { return };
        let (client, merged) = (reading.client, reading.merged.take().flatten());
        self.coordinator.finish(id);
        self.reply(t, client, Reply::Found(merged));
    }

    /// After a change of topology reads begin again: the quorums may be other ones.
    pub(in crate::mesh) fn reroute_reads(&mut self, t: &mut Turn<'_>) {
        let is_read = |pending: &Pending| matches!(pending.operation, Operation::Read(_));
        let asks =
            self.coordinator.operations.iter().filter(|(_, pending)| is_read(pending)).map(|(id, _)| *id);
        for id in asks.collect::<Vec<_>>() {
            let Some(pending) = self.coordinator.finish(id) else { continue };
            if let Operation::Read(reading) = pending.operation {
                let ReadOp { client, key, r, .. } = *reading;
                self.start_read(t, client, key, r, pending.deadline);
            }
        }
    }

    pub(in crate::mesh) fn expire_read(&mut self, t: &mut Turn<'_>, reading: ReadOp) {
        let heard = |node: &NodeId| reading.heard.iter().any(|heard| heard.from == *node);
        for node in reading.asked.iter().filter(|node| **node != self.membership.me && !heard(node)) {
            self.membership.peers.mark_unanswered(*node, t.now.at);
        }
        self.refuse_read(t, &reading);
    }
}
