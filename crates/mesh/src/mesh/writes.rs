//! Writes: a replica of the key assigns the dot, sends the record to the other replicas, and replies when as many as the
//! client asked for have it durably. A write that meets a later stamp is stamped again, once, so it comes after everything
//! that was acknowledged before it began. Only the node where it began stamps it, while its client waits (ADR 43). Replicas
//! that do not answer in time get hints. A node that is no replica forwards the write (`forward.rs`).

mod ack_tracker;
mod balloted;
mod declined;
mod repeated;
mod route;

use super::forward::{Obstacle, TriedNodes};
use super::replica::LocalRecord;
use super::streams::LoggedChange;
use super::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::actor::{Dot, RegionId};
use crate::frame::{Frame, OpId, Shard, StampCheck, StoreOutcome, StoreReason, WriteOrigin};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::merge::merge;
use crate::moves::majority;
use crate::op::{self, Attributes, Op, WriteEvent};
use crate::overlay::Seq;
use crate::record::{Kind, METADATA_MAX, Record};
use crate::request::{Reply, Write};
use ack_tracker::AckTracker;
use base::limits::{MESH_NAME_BYTES_MAX, MESH_RECORD_BYTES_MAX, REQUEST_BYTES_MAX};
use base::mutant::{Mutant, planted};
use base::{Code, Instant, NodeId};
use bytes::Bytes;
pub(super) use route::Route;
use std::sync::Arc;
use std::time::Duration;

/// How far ahead of this node's clock a session's is believed: more than regions disagree, less than does harm.
const SESSION_AHEAD_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub(super) struct WriteOp {
    client: Client,
    write: Arc<Write>,
    /// How it began, if it began at another node.
    origin: Option<WriteOrigin>,
    route: Arc<Route>,
    stage: WriteStage,
    /// What the others are sent.
    record: Bytes,
    /// What they are sent before it, to remember the request.
    attempts: Option<(Key, Bytes)>,
    /// What the client is told.
    result: Option<Box<Record>>,
    tracker: AckTracker,
    /// Other regions that have it, when they are waited for.
    reached: Vec<RegionId>,
    superseded: Option<Stamp>,
    /// It has its second stamp.
    restamped: bool,
    answered: bool,
}

#[derive(Debug)]
enum WriteStage {
    /// What others have must be known first: a retry cannot be judged alone. The write gets the stamp of
    /// the moment in which it began to ask, so that it does not pass what came after another attempt at it.
    Gathering {
        heard: Vec<NodeId>,
        stamp: Stamp,
    },
    /// Durable here before it leaves.
    Waiting,
    AwaitingAcks,
}

/// Which stamp a write gets.
#[derive(Clone, Copy, Debug)]
enum Stamped {
    Now,
    /// That of an earlier moment.
    At(Stamp),
    /// A second one, behind what has superseded the first.
    Restamped(Stamp),
    /// That of the node where it began.
    ByOrigin(WriteOrigin),
}

/// A write that was applied here.
struct Applied {
    /// What the others are sent.
    sent: Bytes,
    attempts: Option<(Key, Bytes)>,
    /// What the client is told.
    record: Record,
    outcome: StoreOutcome,
    seq: Seq,
}

/// Why a write was not applied here.
enum NotApplied {
    Refused(Code),
    /// Its stamp is behind this one, and another is the origin's to give.
    Behind(Stamp, StampCheck),
    /// The key is decided by ballots.
    KeyDecided,
}

impl From<Code> for NotApplied {
    fn from(code: Code) -> NotApplied {
        NotApplied::Refused(code)
    }
}

impl Mesh {
    pub(super) fn start_write(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        deadline: Instant,
    ) {
        self.coordinate(t, client, write, None, deadline);
    }

    /// Carries a write out, or passes it on.
    pub(super) fn coordinate(
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
        if write.is_decided() {
            return self.start_decided_write(t, client, write, &route, deadline);
        }
        if !route.read.contains(&self.me) || !self.is_serving() || self.dots.is_exhausted() {
            return self.pass_on(t, client, write, TriedNodes::default(), deadline);
        }
        if !self.may_begin(t, &write) {
            return self.pass_on(t, client, write, TriedNodes::by(self.me, Obstacle::FullDisk), deadline);
        }
        let gathers = write.attributes.request.is_some() || self.unknown_claim(t, &write).is_some();
        let stage = if gathers { self.begin_gathering(t, origin) } else { WriteStage::Waiting };
        let writing = WriteOp {
            client,
            write,
            origin,
            route,
            stage,
            record: Bytes::new(),
            attempts: None,
            result: None,
            tracker: AckTracker::default(),
            reached: Vec::new(),
            superseded: None,
            restamped: false,
            answered: false,
        };
        let id = self.begin(t, Operation::Write(Box::new(writing)), deadline);
        if gathers {
            return self.gather(t, id);
        }
        self.apply_and_replicate(t, id, origin.map_or(Stamped::Now, Stamped::ByOrigin));
    }

    fn begin_gathering(&mut self, t: &Turn<'_>, origin: Option<WriteOrigin>) -> WriteStage {
        let stamp = origin.map_or_else(|| self.clock.tick(t.now.wall_ms), |origin| origin.stamp);
        WriteStage::Gathering { heard: vec![self.me], stamp }
    }

    /// The client of an operation was told that its time is over, or is about to be.
    fn is_past_deadline(&self, t: &Turn<'_>, id: OpId) -> bool {
        let over = self.operations.get(&id).is_some_and(|pending| pending.deadline <= t.now.at);
        over && !planted(Mutant::RestampedAfterDeadline)
    }

    fn check_write(&self, write: &Write) -> Result<Arc<Route>, Code> {
        let copies = self.topology.copies(write.key.namespace_id()).ok_or(Code::UnknownSpace)?;
        let route = self.route(write.key.partition(), copies).clone();
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
        self.check_handler(write)?;
        Ok(route)
    }

    fn write_op(&mut self, id: OpId) -> Option<&mut WriteOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Write(writing)) => Some(writing),
            _ => None,
        }
    }

    fn gather(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.me;
        let Some(writing) = self.write_op(id) else { return };
        let (write, others) = (writing.write.clone(), writing.route.read.clone());
        for node in others.into_iter().filter(|node| *node != me) {
            self.send(t, node, fetch(id, &write));
        }
        self.gathered(t, id);
    }

    pub(super) fn step_fetched_for(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Bytes>,
        attempts: Option<Bytes>,
    ) {
        self.record_rtt(t, from, id);
        let decode = |bytes: Option<Bytes>| match bytes {
            Some(bytes) => Record::decode(bytes).map(Some),
            None => Some(None),
        };
        if let (Some(record), Some(attempts)) = (decode(record), decode(attempts)) {
            self.write_fetched(t, from, id, record, attempts);
        }
    }

    /// What a replica has, on the way to a write that must know.
    pub(super) fn write_fetched(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Record>,
        attempts: Option<Record>,
    ) {
        let Some(writing) = self.write_op(id) else { return };
        let WriteStage::Gathering { heard, .. } = &mut writing.stage else { return };
        if heard.contains(&from) || !writing.route.read.contains(&from) {
            return;
        }
        heard.push(from);
        let (key, request) = (writing.write.key.clone(), writing.write.attributes.request);
        if let (Some(attempts), Some(request), Some(shard)) = (attempts, request, self.shard_of(&key)) {
            self.absorb(t, &key.of_request(request), shard, &attempts, StoreReason::Repair);
        }
        if let (Some(record), Some(shard)) = (record, self.shard_of(&key)) {
            if !self.may_take(t, &key, &record, record.encode().len()) {
                return self.forward_for_space(t, id);
            }
            self.absorb(t, &key, shard, &record, StoreReason::Repair);
        }
        self.gathered(t, id);
    }

    /// There is no room for what it must be judged by. Nothing was begun yet.
    fn forward_for_space(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) = self.finish(id) else {
            return;
        };
        let tried = TriedNodes::by(self.me, Obstacle::FullDisk);
        self.pass_on(t, writing.client, writing.write, tried, deadline);
    }

    fn gathered(&mut self, t: &mut Turn<'_>, id: OpId) {
        if self.is_past_deadline(t, id) {
            return self.expire(t, id);
        }
        let Some(writing) = self.write_op(id) else { return };
        let WriteStage::Gathering { heard, stamp } = &writing.stage else { return };
        let (stamp, heard_count) = (*stamp, heard.len());
        if heard_count < majority(writing.route.read.len()) {
            return;
        }
        let (write, client) = (writing.write.clone(), writing.client);
        let all_heard = heard_count == writing.route.read.len();
        if let Some(code) = self.unknown_claim(t, &write) {
            // Another replica may know of it.
            if all_heard {
                self.finish(id);
                self.reply(t, client, Reply::Refused(code));
            }
            return;
        }
        let origin = self.write_op(id).and_then(|writing| writing.origin);
        if let Some(origin) = origin {
            return self.apply_and_replicate(t, id, Stamped::ByOrigin(origin));
        }
        if stamp <= self.promised {
            // No stamp so early may be assigned any more: the replicas are asked again.
            let stage = self.begin_gathering(t, None);
            self.write_op(id).expect("it is under way").stage = stage;
            return self.gather(t, id);
        }
        let new = planted(Mutant::RetryRestamped);
        self.apply_and_replicate(t, id, if new { Stamped::Now } else { Stamped::At(stamp) });
    }

    /// Applies the operation here, under a new dot, and lets it out as soon as it may leave.
    fn apply_and_replicate(&mut self, t: &mut Turn<'_>, id: OpId, stamped: Stamped) {
        let Some(writing) = self.write_op(id) else { return };
        let (write, client) = (writing.write.clone(), writing.client);
        let Applied { sent, attempts, record: result, outcome, seq } = match self.apply(t, &write, stamped) {
            Ok(applied) => applied,
            Err(NotApplied::KeyDecided) => return self.decide_write(t, id),
            Err(NotApplied::Refused(code)) => {
                self.finish(id);
                return self.reply(t, client, Reply::Refused(code));
            }
            Err(NotApplied::Behind(stamp, check)) => {
                self.finish(id);
                return self.reply_behind(t, client, stamp, check);
            }
        };
        if write.attributes.level.spans_regions() {
            self.remote.awaited.insert(result.header.dot.counter, id);
        }
        let reached = self.remote.reached(result.header.dot);
        let may_leave = self.may_leave_early(result.kind);
        let writing = self.write_op(id).expect("it is under way");
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

    /// Whether a write may travel before it is durable here. A last write may, in one region: its order is in itself.
    /// Where others rely on this node's log, what was forgotten in a crash would be missing from it for ever.
    fn may_leave_early(&self, kind: Kind) -> bool {
        let alone = self.remote.others.is_empty() || planted(Mutant::LastWriteSentEarly);
        kind.is_last_write_wins() && alone || planted(Mutant::MergeableSentEarly)
    }

    fn apply(&mut self, t: &mut Turn<'_>, write: &Write, stamped: Stamped) -> Result<Applied, NotApplied> {
        let shard = self.shard_of(&write.key).ok_or(Code::UnknownSpace)?;
        let local = self.load(t, &write.key);
        if self.is_balloted(&write.key, local.record.as_ref()) && !planted(Mutant::PlainMixedIn) {
            return Err(NotApplied::KeyDecided);
        }
        let remembered = self.remembered(t, write);
        if self.was_applied(t, write, shard, &local, remembered.as_ref(), stamped)?
            && let Some(record) = &local.record
        {
            let sent = local.bytes.clone().expect("a record has bytes");
            let (record, outcome, seq) = (record.clone(), StoreOutcome::Applied, local.seq);
            return Ok(Applied { sent, attempts: None, record, outcome, seq });
        }
        let after = self.stamp_after(t, &write.attributes);
        if let Stamped::ByOrigin(origin) = stamped {
            self.check_origin(write, shard, &local, origin, after)?;
        }
        let counter = self.dots.take().ok_or(Code::NotInStep)?;
        let noted = match remembered {
            Some((key, noted)) => Some((key, noted, self.dots.take().ok_or(Code::NotInStep)?)),
            None => None,
        };
        let stamp = match stamped {
            Stamped::Now => self.clock.tick(t.now.wall_ms),
            Stamped::At(stamp) => stamp,
            Stamped::Restamped(superseded) => self.clock.tick(t.now.wall_ms).max(superseded.next()),
            Stamped::ByOrigin(origin) => origin.stamp,
        };
        let event = WriteEvent {
            dot: Dot { actor: self.params.actor, counter },
            stamp: stamp.max(after),
            wall_ms: t.now.wall_ms,
        };
        let later = |record: &&Record| record.header.stamp >= event.stamp && write.kind.is_last_write_wins();
        if let (Stamped::ByOrigin(_), Some(record)) = (stamped, local.record.as_ref().filter(later)) {
            let applied = self.apply_superseded(t, write, shard, record, event)?;
            let attempts = self.note_attempt(t, noted, write, shard, event, Default::default())?;
            return Ok(Applied { attempts, ..applied });
        }
        let folded = self.with_handler(t, local.record.as_ref(), write);
        let write = folded.as_ref().unwrap_or(write);
        let written = op::apply(local.record.as_ref(), write.kind, &write.op, &write.attributes, event)?;
        let full = written.full.encode();
        let before = local.bytes.as_ref().map_or(0, Bytes::len);
        if full.len() > MESH_RECORD_BYTES_MAX && full.len() > before {
            return Err(Code::RequestTooLarge.into());
        }
        let delta = written.delta.as_ref().map_or_else(|| full.clone(), Record::encode);
        let seq = self.save(&write.key, shard, &local, &written.full, full);
        let (before, after) = (local.record.as_ref(), &written.full);
        self.append(t, &LoggedChange { key: &write.key, before, after, delta: &delta });
        let sums = |record: &Record| record.sums_by(event.dot.actor);
        let (before, after) = (before.map(sums).unwrap_or_default(), sums(&written.full));
        let attempts = self.note_attempt(t, noted, write, shard, event, (before, after))?;
        Ok(Applied { sent: delta, attempts, record: written.full, outcome: StoreOutcome::Applied, seq })
    }

    /// Whether a write that began elsewhere may be carried out here under the stamp that it has.
    fn check_origin(
        &self,
        write: &Write,
        shard: Shard,
        local: &LocalRecord,
        origin: WriteOrigin,
        after: Stamp,
    ) -> Result<(), NotApplied> {
        let stamp = origin.stamp.max(after);
        let shown = local.record.as_ref().map_or(Stamp::ZERO, |record| record.header.stamp);
        // What a majority has was gathered for a write with a request id, and is part of what is here.
        let gathered = write.attributes.request.is_some();
        let check = if gathered { StampCheck::Quorum } else { StampCheck::Replica };
        // This node has vouched that it gives no stamp so early any more, and what was deleted so late may be forgotten.
        let floor = self.promised.max(self.shards.marks(shard).of(self.params.actor.region));
        if stamp <= floor && planted(Mutant::FloorCountsAsCheck) {
            return Err(NotApplied::Behind(floor, StampCheck::Quorum));
        }
        if stamp <= floor {
            return Err(NotApplied::Behind(floor.max(shown), check));
        }
        // A last write is told once; then it may lose, and a quorum says whether it has to pass something. One with a request
        // id never loses against what is older than it: its attempt is noted, and would be taken for done.
        let told = write.kind.is_last_write_wins() && origin.check >= check;
        if stamp <= shown && write.op.is_ordered(write.kind) && !told {
            return Err(NotApplied::Behind(shown, check));
        }
        Ok(())
    }

    /// Applies a last write that something later is here than: it loses, as it would have in any other order.
    fn apply_superseded(
        &mut self,
        t: &mut Turn<'_>,
        write: &Write,
        shard: Shard,
        shown: &Record,
        event: WriteEvent,
    ) -> Result<Applied, NotApplied> {
        let token = write.attributes.fence.as_ref().map_or(0, |fence| fence.token);
        if token < shown.header.token() {
            return Err(Code::FencePassed.into());
        }
        if shown.kind != write.kind {
            return Err(Code::WrongType.into());
        }
        let written = op::apply(None, write.kind, &write.op, &write.attributes, event)?;
        let record = Record { era: shown.era, ..written.full };
        let (outcome, seq) = self.absorb(t, &write.key, shard, &record, StoreReason::Write);
        let (sent, before) = (record.encode(), Some(shown));
        self.append(t, &LoggedChange { key: &write.key, before, after: &record, delta: &sent });
        Ok(Applied { sent, attempts: None, record, outcome, seq })
    }

    /// The least stamp of a write that comes after what its session has seen. A session that has met a clock far
    /// ahead is not followed, or it would carry that clock from key to key.
    pub(super) fn stamp_after(&self, t: &Turn<'_>, attributes: &Attributes) -> Stamp {
        let bound_ms = t.now.wall_ms.saturating_add(SESSION_AHEAD_MAX.as_millis() as u64);
        let believed = attributes.after <= Stamp::at_ms(bound_ms) && !planted(Mutant::SessionStampIgnored);
        if believed { attributes.after.next() } else { Stamp::ZERO }
    }

    /// To every replica that may be asked; the others get hints.
    pub(super) fn send_to_replicas(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.me;
        let Some(writing) = self.write_op(id) else { return };
        writing.stage = WriteStage::AwaitingAcks;
        let (key, attempts) = (writing.write.key.clone(), writing.attempts.clone());
        let tracker = &writing.tracker;
        let others = writing.route.everyone().filter(|node| *node != me && !tracker.is_acked(*node));
        for node in others.collect::<Vec<_>>() {
            if self.peers.may_ask(node, t.now.at) {
                self.send_store(t, node, id);
            } else {
                attempts.iter().for_each(|(key, _)| self.hint(t, node, key));
                self.hint(t, node, &key);
                self.write_op(id).expect("it is under way").tracker.add_absent(node);
                self.send_to_stand_in(t, id, node);
            }
        }
        self.give_up_without_quorum(t, id);
    }

    /// Sends a replica the record, and before it what it is to remember of the request: it never has the one without the
    /// other.
    fn send_store(&mut self, t: &mut Turn<'_>, node: NodeId, id: OpId) {
        let Some(writing) = self.write_op(id) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        if let Some((key, record)) = writing.attempts.clone() {
            self.send(t, node, Frame::Store { id: OpId(0), key, record, reason: StoreReason::Repair });
        }
        self.send(t, node, Frame::Store { id, key, record, reason: StoreReason::Write });
    }

    pub(super) fn write_stored(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, outcome: StoreOutcome) {
        let Some(writing) = self.write_op(id) else { return };
        // Nothing was sent yet that could be stored.
        if matches!(writing.stage, WriteStage::Gathering { .. }) {
            return;
        }
        let from = writing.tracker.target(from);
        if writing.tracker.is_acked(from) || !writing.route.contains(from) {
            return;
        }
        if outcome == StoreOutcome::KeyDecided && !writing.answered {
            return self.decide_write(t, id);
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
        let Some(writing) = self.write_op(id) else { return };
        let regions = writing.reached.len() + 1;
        if !writing.answered
            && writing.tracker.is_met(&writing.route, writing.write.w)
            && regions >= self.regions_needed(id)
            && let Some(writing) = self.write_op(id)
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
        let Some(writing) = self.write_op(id) else { return };
        if writing.answered && writing.route.everyone().all(|node| writing.tracker.is_settled(node)) {
            self.finish(id);
        }
    }

    /// What the client is told, once.
    fn answer_write(&mut self, t: &mut Turn<'_>, id: OpId, reply: Reply) {
        let Some(writing) = self.write_op(id) else { return };
        writing.answered = true;
        let (client, result) = (writing.client, writing.result.take());
        if let Some(result) = result {
            self.remote.awaited.remove(&result.header.dot.counter);
        }
        self.reply(t, client, reply);
    }

    /// How many regions must have a write, with this one.
    fn regions_needed(&self, id: OpId) -> usize {
        match self.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Write(writing)) if !planted(Mutant::RegionsNotCounted) => {
                self.remote.table.needed(writing.write.attributes.level, self.params.actor.region)
            }
            _ => 1,
        }
    }

    /// Another region has an entry of the log.
    pub(super) fn add_reached(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        seq: u64,
        outcome: StoreOutcome,
    ) {
        let Some(id) = self.remote.awaited.get(&seq).copied() else { return };
        let Some(writing) = self.write_op(id) else { return };
        writing.reached.push(region);
        if let StoreOutcome::Superseded(stamp) = outcome {
            writing.superseded = writing.superseded.max(Some(stamp));
        }
        self.try_finish_write(t, id);
    }

    /// The same write again, behind what beat it. Under a new name, so that late answers to the first are not
    /// taken for answers to the second.
    fn restamp(&mut self, t: &mut Turn<'_>, id: OpId, superseded: Stamp) {
        if self.is_past_deadline(t, id) {
            return self.expire(t, id);
        }
        let Some(pending) = self.finish(id) else { return };
        let Operation::Write(mut writing) = pending.operation else { return };
        if let Some(result) = &writing.result {
            self.remote.awaited.remove(&result.header.dot.counter);
        }
        if writing.origin.is_some() {
            return self.reply_behind(t, writing.client, superseded, StampCheck::Quorum);
        }
        writing.restamped = true;
        (writing.superseded, writing.reached, writing.tracker) = (None, Vec::new(), AckTracker::default());
        let id = self.begin(t, Operation::Write(writing), pending.deadline);
        self.apply_and_replicate(t, id, Stamped::Restamped(superseded));
    }

    pub(super) fn expire_write(&mut self, t: &mut Turn<'_>, writing: WriteOp) {
        let (me, was_sent) = (self.me, matches!(writing.stage, WriteStage::AwaitingAcks));
        for node in writing.route.everyone().filter(|node| *node != me && was_sent) {
            if !writing.tracker.is_settled(node) {
                self.peers.mark_unanswered(node, t.now.at);
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
        if !writing.answered {
            let reply = self.shortfall(&writing);
            self.reply(t, writing.client, reply);
        }
    }

    /// After a change of topology: new replicas are sent the write. A write that is still gathering begins again: nothing is
    /// stored yet, and by now other nodes may be the replicas.
    pub(super) fn reroute_writes(&mut self, t: &mut Turn<'_>) {
        let key = |pending: &Pending| match &pending.operation {
            Operation::Write(writing) => Some(writing.write.key.clone()),
            _ => None,
        };
        let keys = self.operations.iter().filter_map(|(id, pending)| Some((*id, key(pending)?)));
        for (id, key) in keys.collect::<Vec<_>>() {
            let Some(shard) = self.shard_of(&key) else { continue };
            let route = self.route(shard.partition, shard.copies).clone();
            let Some(writing) = self.write_op(id) else { continue };
            match writing.stage {
                WriteStage::Gathering { .. } => {
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
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) = self.finish(id) else {
            return;
        };
        self.coordinate(t, writing.client, writing.write, writing.origin, deadline);
    }
}

/// What a write asks of a replica that it must know more of first.
fn fetch(id: OpId, write: &Write) -> Frame {
    let key = write.key.clone();
    match write.attributes.request.filter(|_| !write.is_decided()) {
        Some(request) => Frame::FetchFor { id, key, request },
        None => Frame::Fetch { id, key },
    }
}

/// What several replicas have, as one.
pub(super) fn join(records: impl Iterator<Item = Record>) -> Option<Record> {
    records.reduce(|left, right| merge(&left, &right).record)
}
