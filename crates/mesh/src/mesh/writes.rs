//! Writes: a replica of the key assigns the dot, sends the record to the other replicas, and replies when as many as the
//! client asked for have it durably. A write that meets a later stamp is stamped again, once, so it comes after everything
//! that was acknowledged before it began. Only the node where it began stamps it, while its client waits (ADR 43). Replicas
//! that do not answer in time get hints. A node that is no replica forwards the write (`forward.rs`).

mod balloted;
mod declined;
mod prospect;
mod repeated;
mod route;

pub(super) use route::Route;

use super::forward::{Obstacle, Tried, is_ordered};
use super::replica::Local;
use super::streams::Change;
use super::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::actor::{Dot, RegionId};
use crate::frame::{Ask, Begun, Frame, Outcome, Shard, StampCheck, Why};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::merge::merge;
use crate::moves::majority;
use crate::op::{self, Attributes, Birth, Op};
use crate::overlay::Seq;
use crate::record::{Kind, METADATA_MAX, Record};
use crate::request::{Reply, Write};
use base::limits::{MESH_NAME_BYTES_MAX, MESH_RECORD_BYTES_MAX, REQUEST_BYTES_MAX};
use base::mutant::{Mutant, planted};
use base::{Code, Instant, NodeId};
use bytes::Bytes;
use prospect::Prospect;
use std::sync::Arc;
use std::time::Duration;

/// How far ahead of this node's clock a session's is believed: more than regions disagree, less than does harm.
const SESSION_AHEAD_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub(super) struct Writing {
    client: Client,
    write: Arc<Write>,
    /// How it began, if it began at another node.
    begun: Option<Begun>,
    route: Arc<Route>,
    stage: Stage,
    /// What the others are sent.
    record: Bytes,
    /// What they are sent before it, to remember the request.
    attempts: Option<(Key, Bytes)>,
    /// What the client is told.
    result: Option<Box<Record>>,
    prospect: Prospect,
    /// Other regions that have it, when they are waited for.
    reached: Vec<RegionId>,
    beaten: Option<Stamp>,
    /// It has its second stamp.
    restamped: bool,
    answered: bool,
}

#[derive(Debug)]
enum Stage {
    /// What others have must be known first: a retry cannot be judged alone. The write gets the stamp of
    /// the moment in which it began to ask, so that it does not pass what came after another attempt at it.
    Gathering {
        heard: Vec<NodeId>,
        stamp: Stamp,
    },
    /// Durable here before it leaves.
    Waiting,
    Spreading,
}

/// Which stamp a write gets.
#[derive(Clone, Copy, Debug)]
enum Stamped {
    Now,
    /// That of an earlier moment.
    At(Stamp),
    /// A second one, behind what has beaten the first.
    Anew(Stamp),
    /// That of the node where it began.
    Begun(Begun),
}

/// A write that was applied here.
struct Created {
    /// What the others are sent.
    sent: Bytes,
    attempts: Option<(Key, Bytes)>,
    /// What the client is told.
    record: Record,
    outcome: Outcome,
    seq: Seq,
}

/// Why a write was not applied here.
enum NotCreated {
    Refused(Code),
    /// Its stamp is behind this one, and another is the origin's to give.
    Behind(Stamp, StampCheck),
    /// The key is decided by ballots.
    Balloted,
}

impl From<Code> for NotCreated {
    fn from(code: Code) -> NotCreated {
        NotCreated::Refused(code)
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
        begun: Option<Begun>,
        deadline: Instant,
    ) {
        let route = match self.check_write(&write) {
            Ok(route) => route,
            Err(code) => return self.reply(t, client, Reply::Refused(code)),
        };
        if write.is_decided() {
            return self.start_decided_write(t, client, write, &route, deadline);
        }
        if !route.read.contains(&self.me) || !self.is_serving() || self.dots.is_dry() {
            return self.pass_on(t, client, write, Tried::default(), deadline);
        }
        if !self.may_begin(t, &write) {
            return self.pass_on(t, client, write, Tried::by(self.me, Obstacle::FullDisk), deadline);
        }
        let gathers = write.attributes.request.is_some() || self.unknown_claim(t, &write).is_some();
        let stage = if gathers { self.gathering_now(t, begun) } else { Stage::Waiting };
        let writing = Writing {
            client,
            write,
            begun,
            route,
            stage,
            record: Bytes::new(),
            attempts: None,
            result: None,
            prospect: Prospect::default(),
            reached: Vec::new(),
            beaten: None,
            restamped: false,
            answered: false,
        };
        let ask = self.begin(t, Operation::Write(Box::new(writing)), deadline);
        if gathers {
            return self.gather(t, ask);
        }
        self.originate(t, ask, begun.map_or(Stamped::Now, Stamped::Begun));
    }

    fn gathering_now(&mut self, t: &Turn<'_>, begun: Option<Begun>) -> Stage {
        let stamp = begun.map_or_else(|| self.clock.tick(t.now.wall_ms), |begun| begun.stamp);
        Stage::Gathering { heard: vec![self.me], stamp }
    }

    /// The client of an operation was told that its time is over, or is about to be.
    fn is_past_deadline(&self, t: &Turn<'_>, ask: Ask) -> bool {
        let over = self.operations.get(&ask).is_some_and(|pending| pending.deadline <= t.now.at);
        over && !planted(Mutant::RestampedAfterDeadline)
    }

    fn check_write(&self, write: &Write) -> Result<Arc<Route>, Code> {
        let copies = self.topology.copies(write.key.space()).ok_or(Code::UnknownSpace)?;
        let route = self.route(write.key.partition(), copies).clone();
        let size = match &write.op {
            Op::Put(bytes) | Op::Insert(bytes) | Op::Remove(bytes) => bytes.len(),
            Op::Delete | Op::Add(_) | Op::Assign(_) => 0,
        };
        if write.key.name_bytes() == 0 {
            return Err(Code::EmptyKey);
        }
        let crowded = write.attributes.metadata.len() > METADATA_MAX;
        if crowded || size > REQUEST_BYTES_MAX || write.key.name_bytes() > MESH_NAME_BYTES_MAX {
            return Err(Code::RequestTooLarge);
        }
        if write.w.is_some_and(|w| w == 0 || usize::from(w) > route.read.len()) || route.read.is_empty() {
            return Err(Code::BadQuorum);
        }
        self.check_handler(write)?;
        Ok(route)
    }

    fn writing(&mut self, ask: Ask) -> Option<&mut Writing> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::Write(writing)) => Some(writing),
            _ => None,
        }
    }

    fn gather(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let me = self.me;
        let Some(writing) = self.writing(ask) else { return };
        let (write, others) = (writing.write.clone(), writing.route.read.clone());
        for node in others.into_iter().filter(|node| *node != me) {
            self.send(t, node, fetch(ask, &write));
        }
        self.gathered(t, ask);
    }

    pub(super) fn step_fetched_for(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        record: Option<Bytes>,
        attempts: Option<Bytes>,
    ) {
        self.time(t, from, ask);
        let decode = |bytes: Option<Bytes>| match bytes {
            Some(bytes) => Record::decode(bytes).map(Some),
            None => Some(None),
        };
        if let (Some(record), Some(attempts)) = (decode(record), decode(attempts)) {
            self.write_fetched(t, from, ask, record, attempts);
        }
    }

    /// What a replica has, on the way to a write that must know.
    pub(super) fn write_fetched(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        record: Option<Record>,
        attempts: Option<Record>,
    ) {
        let Some(writing) = self.writing(ask) else { return };
        let Stage::Gathering { heard, .. } = &mut writing.stage else { return };
        if heard.contains(&from) || !writing.route.read.contains(&from) {
            return;
        }
        heard.push(from);
        let (key, request) = (writing.write.key.clone(), writing.write.attributes.request);
        if let (Some(attempts), Some(request), Some(shard)) = (attempts, request, self.shard_of(&key)) {
            self.absorb(t, &key.of_request(request), shard, &attempts, Why::Repair);
        }
        if let (Some(record), Some(shard)) = (record, self.shard_of(&key)) {
            if !self.may_take(t, &key, &record, record.encode().len()) {
                return self.let_another_judge(t, ask);
            }
            self.absorb(t, &key, shard, &record, Why::Repair);
        }
        self.gathered(t, ask);
    }

    /// There is no room for what it must be judged by. Nothing was begun yet.
    fn let_another_judge(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) = self.finish(ask) else {
            return;
        };
        let tried = Tried::by(self.me, Obstacle::FullDisk);
        self.pass_on(t, writing.client, writing.write, tried, deadline);
    }

    fn gathered(&mut self, t: &mut Turn<'_>, ask: Ask) {
        if self.is_past_deadline(t, ask) {
            return self.expire(t, ask);
        }
        let Some(writing) = self.writing(ask) else { return };
        let Stage::Gathering { heard, stamp } = &writing.stage else { return };
        let (stamp, heard_count) = (*stamp, heard.len());
        if heard_count < majority(writing.route.read.len()) {
            return;
        }
        let (write, client) = (writing.write.clone(), writing.client);
        let all_heard = heard_count == writing.route.read.len();
        if let Some(code) = self.unknown_claim(t, &write) {
            // Another replica may know of it.
            if all_heard {
                self.finish(ask);
                self.reply(t, client, Reply::Refused(code));
            }
            return;
        }
        let begun = self.writing(ask).and_then(|writing| writing.begun);
        if let Some(begun) = begun {
            return self.originate(t, ask, Stamped::Begun(begun));
        }
        if stamp <= self.promised {
            // No stamp so early may be assigned any more: the replicas are asked again.
            let stage = self.gathering_now(t, None);
            self.writing(ask).expect("it is under way").stage = stage;
            return self.gather(t, ask);
        }
        let new = planted(Mutant::RetryStampedAnew);
        self.originate(t, ask, if new { Stamped::Now } else { Stamped::At(stamp) });
    }

    /// Applies the operation here, under a new dot, and lets it out as soon as it may leave.
    fn originate(&mut self, t: &mut Turn<'_>, ask: Ask, stamped: Stamped) {
        let Some(writing) = self.writing(ask) else { return };
        let (write, client) = (writing.write.clone(), writing.client);
        let Created { sent, attempts, record: result, outcome, seq } = match self.create(t, &write, stamped) {
            Ok(created) => created,
            Err(NotCreated::Balloted) => return self.decide_write(t, ask),
            Err(NotCreated::Refused(code)) => {
                self.finish(ask);
                return self.reply(t, client, Reply::Refused(code));
            }
            Err(NotCreated::Behind(stamp, check)) => {
                self.finish(ask);
                return self.call_behind(t, client, stamp, check);
            }
        };
        if write.attributes.level.is_abroad() {
            self.abroad.awaited.insert(result.header.dot.counter, ask);
        }
        let reached = self.abroad.reached(result.header.dot);
        let may_leave = self.may_leave_early(result.kind);
        let writing = self.writing(ask).expect("it is under way");
        (writing.record, writing.result, writing.stage) = (sent, Some(Box::new(result)), Stage::Waiting);
        (writing.reached, writing.attempts) = (reached, attempts);
        if may_leave {
            self.spread(t, ask);
        } else {
            self.after(t, seq, Then::Spread(ask));
        }
        self.after(t, seq, Then::Stored(ask, outcome));
    }

    /// Tells the node where a write began that there is something later.
    fn call_behind(&mut self, t: &mut Turn<'_>, client: Client, stamp: Stamp, check: StampCheck) {
        match client {
            Client::Peer(node, ask) => self.send(t, node, Frame::Behind { ask, stamp, check }),
            _ => unreachable!("only what began elsewhere keeps a stamp that is behind"),
        }
    }

    /// Whether a write may travel before it is durable here. A last write may, in one region: its order is in itself.
    /// Where others rely on this node's log, what was forgotten in a crash would be missing from it for ever.
    fn may_leave_early(&self, kind: Kind) -> bool {
        let alone = self.abroad.others.is_empty() || planted(Mutant::LastWriteSentEarly);
        kind.is_last_write_wins() && alone || planted(Mutant::MergeableSentEarly)
    }

    fn create(&mut self, t: &mut Turn<'_>, write: &Write, stamped: Stamped) -> Result<Created, NotCreated> {
        let shard = self.shard_of(&write.key).ok_or(Code::UnknownSpace)?;
        let local = self.load(t, &write.key);
        if self.is_balloted(&write.key, local.record.as_ref()) && !planted(Mutant::PlainMixedIn) {
            return Err(NotCreated::Balloted);
        }
        let remembered = self.remembered(t, write);
        if self.was_done(t, write, shard, &local, remembered.as_ref(), stamped)?
            && let Some(record) = &local.record
        {
            let sent = local.bytes.clone().expect("a record has bytes");
            let (record, outcome, seq) = (record.clone(), Outcome::Held, local.seq);
            return Ok(Created { sent, attempts: None, record, outcome, seq });
        }
        let after = self.stamp_after(t, &write.attributes);
        if let Stamped::Begun(begun) = stamped {
            self.check_begun(write, shard, &local, begun, after)?;
        }
        let counter = self.dots.take().ok_or(Code::NotInStep)?;
        let noted = match remembered {
            Some((key, noted)) => Some((key, noted, self.dots.take().ok_or(Code::NotInStep)?)),
            None => None,
        };
        let stamp = match stamped {
            Stamped::Now => self.clock.tick(t.now.wall_ms),
            Stamped::At(stamp) => stamp,
            Stamped::Anew(beaten) => self.clock.tick(t.now.wall_ms).max(beaten.next()),
            Stamped::Begun(begun) => begun.stamp,
        };
        let birth = Birth {
            dot: Dot { actor: self.params.actor, counter },
            stamp: stamp.max(after),
            wall_ms: t.now.wall_ms,
        };
        let later = |record: &&Record| record.header.stamp >= birth.stamp && write.kind.is_last_write_wins();
        if let (Stamped::Begun(_), Some(record)) = (stamped, local.record.as_ref().filter(later)) {
            let created = self.create_behind(t, write, shard, record, birth)?;
            let attempts = self.note_attempt(t, noted, write, shard, birth, Default::default())?;
            return Ok(Created { attempts, ..created });
        }
        let folded = self.with_handler(t, local.record.as_ref(), write);
        let write = folded.as_ref().unwrap_or(write);
        let written = op::apply(local.record.as_ref(), write.kind, &write.op, &write.attributes, birth)?;
        let full = written.full.encode();
        let before = local.bytes.as_ref().map_or(0, Bytes::len);
        if full.len() > MESH_RECORD_BYTES_MAX && full.len() > before {
            return Err(Code::RequestTooLarge.into());
        }
        let delta = written.delta.as_ref().map_or_else(|| full.clone(), Record::encode);
        let seq = self.save(&write.key, shard, &local, &written.full, full);
        let (before, after) = (local.record.as_ref(), &written.full);
        self.append(t, &Change { key: &write.key, before, after, delta: &delta });
        let sums = |record: &Record| record.sums_of(birth.dot.actor);
        let (before, after) = (before.map(sums).unwrap_or_default(), sums(&written.full));
        let attempts = self.note_attempt(t, noted, write, shard, birth, (before, after))?;
        Ok(Created { sent: delta, attempts, record: written.full, outcome: Outcome::Held, seq })
    }

    /// Whether a write that began elsewhere may be carried out here under the stamp that it has.
    fn check_begun(
        &self,
        write: &Write,
        shard: Shard,
        local: &Local,
        begun: Begun,
        after: Stamp,
    ) -> Result<(), NotCreated> {
        let stamp = begun.stamp.max(after);
        let shown = local.record.as_ref().map_or(Stamp::ZERO, |record| record.header.stamp);
        // What a majority has was gathered for a write with a request id, and is part of what is here.
        let gathered = write.attributes.request.is_some();
        let check = if gathered { StampCheck::Quorum } else { StampCheck::Replica };
        // This node has vouched that it gives no stamp so early any more, and what was deleted so late may be forgotten.
        let floor = self.promised.max(self.shards.marks(shard).of(self.params.actor.region));
        if stamp <= floor && planted(Mutant::FloorCountsAsCheck) {
            return Err(NotCreated::Behind(floor, StampCheck::Quorum));
        }
        if stamp <= floor {
            return Err(NotCreated::Behind(floor.max(shown), check));
        }
        // A last write is told once; then it may lose, and a quorum says whether it has to pass something. One with a request
        // id never loses against what is older than it: its attempt is noted, and would be taken for done.
        let told = write.kind.is_last_write_wins() && begun.check >= check;
        if stamp <= shown && is_ordered(write) && !told {
            return Err(NotCreated::Behind(shown, check));
        }
        Ok(())
    }

    /// Applies a last write that something later is here than: it loses, as it would have in any other order.
    fn create_behind(
        &mut self,
        t: &mut Turn<'_>,
        write: &Write,
        shard: Shard,
        shown: &Record,
        birth: Birth,
    ) -> Result<Created, NotCreated> {
        let token = write.attributes.fence.as_ref().map_or(0, |fence| fence.token);
        if token < shown.header.token() {
            return Err(Code::FencePassed.into());
        }
        if shown.kind != write.kind {
            return Err(Code::WrongType.into());
        }
        let written = op::apply(None, write.kind, &write.op, &write.attributes, birth)?;
        let record = Record { era: shown.era, ..written.full };
        let (outcome, seq) = self.absorb(t, &write.key, shard, &record, Why::Write);
        let (sent, before) = (record.encode(), Some(shown));
        self.append(t, &Change { key: &write.key, before, after: &record, delta: &sent });
        Ok(Created { sent, attempts: None, record, outcome, seq })
    }

    /// The least stamp of a write that comes after what its session has seen. A session that has met a clock far
    /// ahead is not followed, or it would carry that clock from key to key.
    pub(super) fn stamp_after(&self, t: &Turn<'_>, attributes: &Attributes) -> Stamp {
        let bound_ms = t.now.wall_ms.saturating_add(SESSION_AHEAD_MAX.as_millis() as u64);
        let believed = attributes.after <= Stamp::at_ms(bound_ms) && !planted(Mutant::SessionStampIgnored);
        if believed { attributes.after.next() } else { Stamp::ZERO }
    }

    /// To every replica that may be asked; the others get hints.
    pub(super) fn spread(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let me = self.me;
        let Some(writing) = self.writing(ask) else { return };
        writing.stage = Stage::Spreading;
        let (key, attempts) = (writing.write.key.clone(), writing.attempts.clone());
        let prospect = &writing.prospect;
        let others = writing.route.everyone().filter(|node| *node != me && !prospect.is_acked(*node));
        for node in others.collect::<Vec<_>>() {
            if self.peers.may_ask(node, t.now.at) {
                self.send_store(t, node, ask);
            } else {
                attempts.iter().for_each(|(key, _)| self.hint(t, node, key));
                self.hint(t, node, &key);
                self.writing(ask).expect("it is under way").prospect.add_absent(node);
                self.find_stand_in(t, ask, node);
            }
        }
        self.give_up_in_vain(t, ask);
    }

    /// Sends a replica the record, and before it what it is to remember of the request: it never has the one without the
    /// other.
    fn send_store(&mut self, t: &mut Turn<'_>, node: NodeId, ask: Ask) {
        let Some(writing) = self.writing(ask) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        if let Some((key, record)) = writing.attempts.clone() {
            self.send(t, node, Frame::Store { ask: Ask(0), key, record, why: Why::Repair });
        }
        self.send(t, node, Frame::Store { ask, key, record, why: Why::Write });
    }

    pub(super) fn write_stored(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, outcome: Outcome) {
        let Some(writing) = self.writing(ask) else { return };
        // Nothing was sent yet that could be stored.
        if matches!(writing.stage, Stage::Gathering { .. }) {
            return;
        }
        let from = writing.prospect.target(from);
        if writing.prospect.is_acked(from) || !writing.route.contains(from) {
            return;
        }
        if outcome == Outcome::Balloted && !writing.answered {
            return self.decide_write(t, ask);
        }
        match outcome {
            Outcome::Held => writing.prospect.add_ack(from),
            Outcome::Beaten(stamp) => {
                writing.prospect.add_ack(from);
                writing.beaten = writing.beaten.max(Some(stamp));
            }
            Outcome::Passed | Outcome::Misfit | Outcome::Purged | Outcome::Balloted | Outcome::Refilling => {
                writing.prospect.add_absent(from);
            }
        }
        let refusal = match outcome {
            Outcome::Passed => Some(Code::FencePassed),
            Outcome::Misfit => Some(Code::WrongType),
            Outcome::Held | Outcome::Beaten(_) | Outcome::Purged | Outcome::Balloted | Outcome::Refilling => {
                None
            }
        };
        if let Some(code) = refusal.filter(|_| !writing.answered) {
            self.answer_write(t, ask, Reply::Refused(code));
        }
        self.settle_write(t, ask);
    }

    fn settle_write(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(writing) = self.writing(ask) else { return };
        let regions = writing.reached.len() + 1;
        if !writing.answered
            && writing.prospect.is_met(&writing.route, writing.write.w)
            && regions >= self.regions_needed(ask)
            && let Some(writing) = self.writing(ask)
        {
            let last_wins = writing.write.kind.is_last_write_wins();
            let last_stamp =
                writing.begun.map_or(writing.restamped, |begun| begun.check == StampCheck::Quorum);
            if let Some(stamp) = writing.beaten.filter(|_| last_wins && !last_stamp)
                && !planted(Mutant::SkewKept)
            {
                return self.restamp(t, ask, stamp);
            }
            let result = writing.result.take().expect("what is stored was made here, and is told once");
            self.abroad.awaited.remove(&result.header.dot.counter);
            self.answer_write(t, ask, Reply::Written(result));
        }
        self.give_up_in_vain(t, ask);
        self.give_up_on_regions(t, ask);
        let Some(writing) = self.writing(ask) else { return };
        if writing.answered && writing.route.everyone().all(|node| writing.prospect.is_settled(node)) {
            self.finish(ask);
        }
    }

    /// What the client is told, once.
    fn answer_write(&mut self, t: &mut Turn<'_>, ask: Ask, reply: Reply) {
        let Some(writing) = self.writing(ask) else { return };
        writing.answered = true;
        let (client, result) = (writing.client, writing.result.take());
        if let Some(result) = result {
            self.abroad.awaited.remove(&result.header.dot.counter);
        }
        self.reply(t, client, reply);
    }

    /// How many regions must have a write, with this one.
    fn regions_needed(&self, ask: Ask) -> usize {
        match self.operations.get(&ask).map(|pending| &pending.operation) {
            Some(Operation::Write(writing)) if !planted(Mutant::RegionsNotCounted) => {
                self.abroad.table.needed(writing.write.attributes.level, self.params.actor.region)
            }
            _ => 1,
        }
    }

    /// Another region has an entry of the log.
    pub(super) fn write_reached(&mut self, t: &mut Turn<'_>, region: RegionId, seq: u64, outcome: Outcome) {
        let Some(ask) = self.abroad.awaited.get(&seq).copied() else { return };
        let Some(writing) = self.writing(ask) else { return };
        writing.reached.push(region);
        if let Outcome::Beaten(stamp) = outcome {
            writing.beaten = writing.beaten.max(Some(stamp));
        }
        self.settle_write(t, ask);
    }

    /// The same write again, behind what beat it. Under a new name, so that late answers to the first are not
    /// taken for answers to the second.
    fn restamp(&mut self, t: &mut Turn<'_>, ask: Ask, beaten: Stamp) {
        if self.is_past_deadline(t, ask) {
            return self.expire(t, ask);
        }
        let Some(pending) = self.finish(ask) else { return };
        let Operation::Write(mut writing) = pending.operation else { return };
        if let Some(result) = &writing.result {
            self.abroad.awaited.remove(&result.header.dot.counter);
        }
        if writing.begun.is_some() {
            return self.call_behind(t, writing.client, beaten, StampCheck::Quorum);
        }
        writing.restamped = true;
        (writing.beaten, writing.reached, writing.prospect) = (None, Vec::new(), Prospect::default());
        let ask = self.begin(t, Operation::Write(writing), pending.deadline);
        self.originate(t, ask, Stamped::Anew(beaten));
    }

    pub(super) fn expire_write(&mut self, t: &mut Turn<'_>, writing: Writing) {
        let (me, spread) = (self.me, matches!(writing.stage, Stage::Spreading));
        for node in writing.route.everyone().filter(|node| *node != me && spread) {
            if !writing.prospect.is_settled(node) {
                self.peers.silent(node, t.now.at);
                writing.attempts.iter().for_each(|(key, _)| self.hint(t, node, key));
                self.hint(t, node, &writing.write.key);
            }
        }
        if let Some(result) = &writing.result {
            self.abroad.awaited.remove(&result.header.dot.counter);
        }
        if matches!(writing.stage, Stage::Gathering { .. }) {
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
        let keys = self.operations.iter().filter_map(|(ask, pending)| Some((*ask, key(pending)?)));
        for (ask, key) in keys.collect::<Vec<_>>() {
            let Some(shard) = self.shard_of(&key) else { continue };
            let route = self.route(shard.partition, shard.copies).clone();
            let Some(writing) = self.writing(ask) else { continue };
            match writing.stage {
                Stage::Gathering { .. } => {
                    self.begin_anew(t, ask);
                    continue;
                }
                Stage::Waiting | Stage::Spreading => writing.prospect.reroute(&route),
            }
            writing.route = route;
            if matches!(writing.stage, Stage::Spreading) {
                self.spread(t, ask);
                self.settle_write(t, ask);
            }
        }
    }

    fn begin_anew(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) = self.finish(ask) else {
            return;
        };
        self.coordinate(t, writing.client, writing.write, writing.begun, deadline);
    }
}

/// What a write asks of a replica that it must know more of first.
fn fetch(ask: Ask, write: &Write) -> Frame {
    let key = write.key.clone();
    match write.attributes.request.filter(|_| !write.is_decided()) {
        Some(request) => Frame::FetchFor { ask, key, request },
        None => Frame::Fetch { ask, key },
    }
}

/// What several replicas have, as one.
pub(super) fn join(records: impl Iterator<Item = Record>) -> Option<Record> {
    records.reduce(|left, right| merge(&left, &right).record)
}
