//! Writes: a replica of the key assigns the dot, sends the record to the other replicas, and replies when as many as the
//! client asked for have it durably. A write that meets a later stamp is stamped again, once, so it comes after everything
//! that was acknowledged before it began. Only the node where it began stamps it, while its client waits (ADR 43). Replicas
//! that do not answer in time get hints. A node that is no replica forwards the write (`forward.rs`).

mod ack_tracker;
mod apply;
mod balloted;
mod bounded;
pub mod collections;
mod declined;
mod gathering;
mod repeated;
mod route;

use crate::actor::RegionId;
use crate::frame::{Frame, OpId, StampCheck, StoreOutcome, StoreReason, WriteOrigin};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::merge::merge;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::coordinator::forward::TriedNodes;
use crate::mesh::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::mutant::Mutant;
use crate::op::Op;
use crate::record::{Kind, METADATA_MAX, Record};
use crate::request::{Reply, Write};
use ack_tracker::AckTracker;
pub(in crate::mesh) use apply::stamp_after;
use apply::{Applied, NotApplied, Stamped};
use base::limits::{MESH_NAME_BYTES_MAX, MESH_RECORD_BYTES_MAX, REQUEST_BYTES_MAX};
use base::mutant::planted;
use base::{Code, Instant, NodeId};
pub(in crate::mesh) use bounded::AwaitedRights;
use bytes::Bytes;
use collections::FoundElements;
pub(in crate::mesh) use route::Route;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::mesh) struct WriteOp {
    client: Client,
    write: Arc<Write>,
    /// How the write began, if it began at another node.
    origin: Option<WriteOrigin>,
    route: Arc<Route>,
    stage: WriteStage,
    /// The record that the other replicas are sent.
    record: Bytes,
    /// The record that they are sent before it, to remember the request.
    attempts: Option<(Key, Bytes)>,
    /// The record in the client's reply.
    result: Option<Box<Record>>,
    tracker: AckTracker,
    /// Other regions that have the write, if the client waits for regions.
    reached: Vec<RegionId>,
    superseded: Option<Stamp>,
    /// The write has its second stamp.
    restamped: bool,
    answered: bool,
    /// The elements that the write names, as a majority has them.
    found: Option<Box<FoundElements>>,
}

#[derive(Debug)]
enum WriteStage {
    /// The records of others must be known first: a retry cannot be judged alone. The write gets the stamp of
    /// the moment in which it began to ask, so that it does not pass what came after another attempt at it.
    Gathering {
        heard: Vec<NodeId>,
        stamp: Stamp,
    },
    /// Others own the rights that it needs: it waits until they give some, until it is given up.
    AwaitingRights {
        id: OpId,
        until: Instant,
    },
    /// Durable here before it leaves.
    Waiting,
    AwaitingAcks,
}

impl WriteOp {
    /// A write that is durable nowhere yet.
    fn new(client: Client, write: Arc<Write>, origin: Option<WriteOrigin>, route: Arc<Route>) -> WriteOp {
        WriteOp {
            client,
            write,
            origin,
            route,
            stage: WriteStage::Waiting,
            record: Bytes::new(),
            attempts: None,
            result: None,
            tracker: AckTracker::default(),
            reached: Vec::new(),
            superseded: None,
            restamped: false,
            answered: false,
            found: None,
        }
    }
}

impl Coordinator {
    /// Whether the deadline has passed: the client was told so, or is about to be.
    fn is_past_deadline(&self, t: &Turn<'_>, id: OpId) -> bool {
        let over = self.operations.get(&id).is_some_and(|pending| pending.deadline <= t.now.at);
        over && !planted(Mutant::RestampedAfterDeadline)
    }

    fn write_op(&mut self, id: OpId) -> Option<&mut WriteOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Write(writing)) => Some(writing),
            _ => None,
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_write(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        deadline: Instant,
    ) {
        self.coordinate(t, client, write, None, deadline);
    }

    /// Carries a write out, or passes it on.
    pub(in crate::mesh) fn coordinate(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        origin: Option<WriteOrigin>,
        deadline: Instant,
    ) {
        let route = match self.check_write(&write) {
            Ok(route) => route,
            Err(code) => return self.reply(t, client, Reply::Refused(code)),
        };
        if write.is_decided() && self.bounded_here(t, &write.key).is_some() {
            return self.reply(t, client, Reply::Refused(Code::NotForBoundedCounters));
        }
        if write.is_decided() {
            return self.start_decided_write(t, client, write, origin, &route, deadline);
        }
        if !route.read.contains(&self.membership.me)
            || !self.membership.is_serving()
            || self.replica.dots.is_exhausted()
        {
            return self.pass_on(t, client, write, TriedNodes::default(), deadline);
        }
        if !self.replica.may_begin(t, &write) {
            return self.pass_on_full_disk(t, client, write, deadline);
        }
        if write.kind == Kind::BoundedCounter {
            return self.coordinate_bounded(t, client, write, origin, route, deadline);
        }
        if self.is_for_collection(t, &write) {
            return self.coordinate_collection(t, client, write, origin, route, deadline);
        }
        let gathers = write.attributes.once().is_some() || self.replica.unknown_claim(t, &write).is_some();
        let mut writing = WriteOp::new(client, write, origin, route);
        if gathers {
            writing.stage = self.replica.begin_gathering(t, origin);
            let id = self.coordinator.begin(t, Operation::Write(Box::new(writing)), deadline);
            return self.gather(t, id);
        }
        self.begin_write(t, writing, deadline);
    }

    /// Begins a write that needs to know nothing of other replicas first, or knows it.
    fn begin_write(&mut self, t: &mut Turn<'_>, writing: WriteOp, deadline: Instant) {
        let stamped = writing.origin.map_or(Stamped::Now, Stamped::ByOrigin);
        let id = self.coordinator.begin(t, Operation::Write(Box::new(writing)), deadline);
        self.apply_and_replicate(t, id, stamped);
    }

    fn check_write(&self, write: &Write) -> Result<Arc<Route>, Code> {
        let copies = self.membership.topology.copies(write.key.namespace_id()).ok_or(Code::UnknownSpace)?;
        let route = self.membership.route(write.key.partition(), copies).clone();
        let size = write.op.value_bytes();
        if write.key.name_bytes() == 0 {
            return Err(Code::EmptyKey);
        }
        let crowded = write.attributes.metadata.len() > METADATA_MAX;
        let size_max =
            if matches!(write.op, Op::Restore(_)) { MESH_RECORD_BYTES_MAX } else { REQUEST_BYTES_MAX };
        if crowded || size > size_max || write.key.name_bytes() > MESH_NAME_BYTES_MAX {
            return Err(Code::RequestTooLarge);
        }
        if write.w.is_some_and(|w| w == 0 || usize::from(w) > route.read.len()) || route.read.is_empty() {
            return Err(Code::BadQuorum);
        }
        if write.kind.collection().is_some() || matches!(write.op, Op::Elements(_)) {
            collections::check(write)?;
        }
        if write.kind == Kind::BoundedCounter || matches!(write.op, Op::Bounded(_)) {
            bounded::check(write)?;
        }
        self.coordinator.check_handler(write)?;
        Ok(route)
    }

    /// Applies the operation here, under a new dot, and lets it out as soon as it may leave.
    fn apply_and_replicate(&mut self, t: &mut Turn<'_>, id: OpId, stamped: Stamped) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let (write, client) = (writing.write.clone(), writing.client);
        let found = writing.found.take();
        let applied = self.apply(t, &write, stamped, found.as_deref());
        let Applied { sent, attempts, record: result, outcome, seq } = match applied {
            Ok(applied) => applied,
            Err(NotApplied::KeyDecided) => return self.decide_write(t, id),
            Err(NotApplied::Refused(code)) => {
                self.coordinator.finish(id);
                return self.reply(t, client, Reply::Refused(code));
            }
            Err(NotApplied::Behind(stamp, check)) => {
                self.coordinator.finish(id);
                return self.reply_behind(t, client, stamp, check);
            }
        };
        if write.attributes.level.spans_regions() {
            self.remote.awaited.insert(result.header.dot.counter, id);
        }
        let reached = self.remote.reached(result.header.dot);
        let may_leave = self.remote.may_leave_early(result.kind);
        let writing = self.coordinator.write_op(id).expect("it is under way");
        (writing.record, writing.result, writing.stage) = (sent, Some(Box::new(result)), WriteStage::Waiting);
        (writing.reached, writing.attempts) = (reached, attempts);
        if may_leave {
            self.send_to_replicas(t, id);
        } else {
            self.after(t, seq, Then::SendToReplicas(id));
        }
        self.after(t, seq, Then::Stored(id, outcome));
    }

    /// Tells the node where a write began that there is something later.
    fn reply_behind(&mut self, t: &mut Turn<'_>, client: Client, stamp: Stamp, check: StampCheck) {
        match client {
            Client::Peer(node, id) => self.send(t, node, Frame::Behind { id, stamp, check }),
            _ => unreachable!("only what began elsewhere keeps a stamp that is behind"),
        }
    }

    /// To every replica that may be asked; the others get hints.
    pub(in crate::mesh) fn send_to_replicas(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(writing) = self.coordinator.write_op(id) else { return };
        writing.stage = WriteStage::AwaitingAcks;
        let (key, attempts) = (writing.write.key.clone(), writing.attempts.clone());
        let tracker = &writing.tracker;
        let others = writing.route.replicas().filter(|node| *node != me && !tracker.is_acked(*node));
        for node in others.collect::<Vec<_>>() {
            if self.membership.peers.may_ask(node, t.now.at) {
                self.send_store(t, node, id);
            } else {
                attempts.iter().for_each(|(key, _)| self.hint(t, node, key));
                self.hint(t, node, &key);
                self.coordinator.write_op(id).expect("it is under way").tracker.add_absent(node);
                self.send_to_stand_in(t, id, node);
            }
        }
        self.give_up_without_quorum(t, id);
    }

    /// Sends a replica the record, and before it what it is to remember of the request: it never has the one without the
    /// other.
    fn send_store(&mut self, t: &mut Turn<'_>, node: NodeId, id: OpId) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        if let Some((key, record)) = writing.attempts.clone() {
            self.send(t, node, Frame::Store { id: OpId(0), key, record, reason: StoreReason::Repair });
        }
        self.send(t, node, Frame::Store { id, key, record, reason: StoreReason::Write });
    }

    pub(in crate::mesh) fn write_stored(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        outcome: StoreOutcome,
    ) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        // Nothing was sent yet that could be stored.
        if matches!(writing.stage, WriteStage::Gathering { .. } | WriteStage::AwaitingRights { .. }) {
            return;
        }
        let from = writing.tracker.target(from);
        if writing.tracker.is_acked(from) || !writing.route.contains(from) {
            return;
        }
        if outcome == StoreOutcome::KeyDecided && !writing.answered {
            return self.decide_write(t, id);
        }
        let is_typeless = writing.write.op == Op::Delete && writing.write.kind.collection().is_none();
        if outcome == StoreOutcome::WrongType && is_typeless && !writing.answered {
            return self.delete_missed_collection(t, id);
        }
        match outcome {
            StoreOutcome::Applied => writing.tracker.add_ack(from),
            StoreOutcome::Superseded(stamp) => {
                writing.tracker.add_ack(from);
                writing.superseded = writing.superseded.max(Some(stamp));
            }
            StoreOutcome::Fenced
            | StoreOutcome::WrongType
            | StoreOutcome::Purged
            | StoreOutcome::KeyDecided
            | StoreOutcome::Refilling => {
                writing.tracker.add_absent(from);
            }
        }
        let refusal = match outcome {
            StoreOutcome::Fenced => Some(Code::FencePassed),
            StoreOutcome::WrongType => Some(Code::WrongType),
            StoreOutcome::Applied
            | StoreOutcome::Superseded(_)
            | StoreOutcome::Purged
            | StoreOutcome::KeyDecided
            | StoreOutcome::Refilling => None,
        };
        if let Some(code) = refusal.filter(|_| !writing.answered) {
            self.answer_write(t, id, Reply::Refused(code));
        }
        self.try_finish_write(t, id);
    }

    fn try_finish_write(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let regions = writing.reached.len() + 1;
        if !writing.answered
            && writing.tracker.is_met(&writing.route, writing.write.w)
            && regions >= self.regions_needed(id)
            && let Some(writing) = self.coordinator.write_op(id)
        {
            let last_wins = writing.write.kind.is_last_write_wins();
            let last_stamp =
                writing.origin.map_or(writing.restamped, |origin| origin.check == StampCheck::Quorum);
            if let Some(stamp) = writing.superseded.filter(|_| last_wins && !last_stamp)
                && !planted(Mutant::SkewKept)
            {
                return self.restamp(t, id, stamp);
            }
            let result = writing.result.take().expect("what is stored was made here, and is told once");
            self.remote.awaited.remove(&result.header.dot.counter);
            self.answer_write(t, id, Reply::Written(result));
        }
        self.give_up_without_quorum(t, id);
        self.give_up_on_regions(t, id);
        let Some(writing) = self.coordinator.write_op(id) else { return };
        if writing.answered && writing.route.replicas().all(|node| writing.tracker.is_settled(node)) {
            self.coordinator.finish(id);
        }
    }

    /// Sends the client its reply, once.
    fn answer_write(&mut self, t: &mut Turn<'_>, id: OpId, reply: Reply) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        writing.answered = true;
        let (client, result) = (writing.client, writing.result.take());
        if let Some(result) = result {
            self.remote.awaited.remove(&result.header.dot.counter);
        }
        self.reply(t, client, reply);
    }

    /// How many regions must have a write, with this one.
    fn regions_needed(&self, id: OpId) -> usize {
        match self.coordinator.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Write(writing)) if !planted(Mutant::RegionsNotCounted) => {
                self.remote.table.needed(writing.write.attributes.level, self.params.actor.region)
            }
            _ => 1,
        }
    }

    /// Another region has an entry of the log.
    pub(in crate::mesh) fn add_reached(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        seq: u64,
        outcome: StoreOutcome,
    ) {
        let Some(id) = self.remote.awaited.get(&seq).copied() else { return };
        let Some(writing) = self.coordinator.write_op(id) else { return };
        writing.reached.push(region);
        if let StoreOutcome::Superseded(stamp) = outcome {
            writing.superseded = writing.superseded.max(Some(stamp));
        }
        self.try_finish_write(t, id);
    }

    /// The same write again, behind what beat it. Under a new name, so that late answers to the first are not
    /// taken for answers to the second.
    fn restamp(&mut self, t: &mut Turn<'_>, id: OpId, superseded: Stamp) {
        if self.coordinator.is_past_deadline(t, id) {
            return self.expire(t, id);
        }
        let Some(pending) = self.coordinator.finish(id) else { return };
        let Operation::Write(mut writing) = pending.operation else { return };
        if let Some(result) = &writing.result {
            self.remote.awaited.remove(&result.header.dot.counter);
        }
        if writing.origin.is_some() {
            return self.reply_behind(t, writing.client, superseded, StampCheck::Quorum);
        }
        writing.restamped = true;
        (writing.superseded, writing.reached, writing.tracker) = (None, Vec::new(), AckTracker::default());
        let id = self.coordinator.begin(t, Operation::Write(writing), pending.deadline);
        self.apply_and_replicate(t, id, Stamped::Restamped(superseded));
    }

    pub(in crate::mesh) fn expire_write(&mut self, t: &mut Turn<'_>, writing: WriteOp) {
        let (me, was_sent) = (self.membership.me, matches!(writing.stage, WriteStage::AwaitingAcks));
        for node in writing.route.replicas().filter(|node| *node != me && was_sent) {
            if !writing.tracker.is_settled(node) {
                self.membership.peers.mark_unanswered(node, t.now.at);
                writing.attempts.iter().for_each(|(key, _)| self.hint(t, node, key));
                self.hint(t, node, &writing.write.key);
            }
        }
        if let Some(result) = &writing.result {
            self.remote.awaited.remove(&result.header.dot.counter);
        }
        if matches!(writing.stage, WriteStage::Gathering { .. }) {
            return self.reply(t, writing.client, Reply::Refused(Code::Timeout));
        }
        if let WriteStage::AwaitingRights { id, .. } = writing.stage {
            self.coordinator.rights.remove(&writing.write.key, id);
            return self.reply(t, writing.client, Reply::Refused(Code::RightsElsewhere));
        }
        if !writing.answered {
            let reply = self.remote.shortfall(&writing);
            self.reply(t, writing.client, reply);
        }
    }

    /// After a change of topology: new replicas are sent the write. A write that is still gathering begins again: nothing is
    /// stored yet, and by now other nodes may be the replicas.
    pub(in crate::mesh) fn reroute_writes(&mut self, t: &mut Turn<'_>) {
        let key = |pending: &Pending| match &pending.operation {
            Operation::Write(writing) => Some(writing.write.key.clone()),
            _ => None,
        };
        let keys = self.coordinator.operations.iter().filter_map(|(id, pending)| Some((*id, key(pending)?)));
        for (id, key) in keys.collect::<Vec<_>>() {
            let Some(shard) = self.membership.shard_of(&key) else { continue };
            let route = self.membership.route(shard.partition, shard.copies).clone();
            let Some(writing) = self.coordinator.write_op(id) else { continue };
            match writing.stage {
                WriteStage::Gathering { .. } | WriteStage::AwaitingRights { .. } => {
                    self.restart_write(t, id);
                    continue;
                }
                WriteStage::Waiting | WriteStage::AwaitingAcks => writing.tracker.reroute(&route),
            }
            writing.route = route;
            if matches!(writing.stage, WriteStage::AwaitingAcks) {
                self.send_to_replicas(t, id);
                self.try_finish_write(t, id);
            }
        }
    }

    fn restart_write(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) =
            self.coordinator.finish(id)
        else {
            return;
        };
        self.coordinate(t, writing.client, writing.write, writing.origin, deadline);
    }
}

/// The question to a replica of which the write must know more first.
fn fetch(id: OpId, write: &Write) -> Frame {
    let key = write.key.clone();
    match write.attributes.once().filter(|_| !write.is_decided()) {
        Some(request) => Frame::FetchFor { id, key, request },
        None => Frame::Fetch { id, key },
    }
}

/// The records of several replicas as one.
pub(in crate::mesh) fn join(records: impl Iterator<Item = Record>) -> Option<Record> {
    records.reduce(|left, right| merge(&left, &right).record)
}
