//! Session reads: wait until this region has everything that the session has seen, then ask a region that has it, then report
//! the lag. A minimum context that a client demands of a record is waited for in the same way. A read never returns anything
//! older than either.

use crate::actor::RegionId;
use crate::frame::{Frame, OpId};
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::{Client, Mesh, Operation, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::request::{Get, GetResult, Level, Reply};
use crate::session::Session;
use base::limits::MESH_OPERATIONS_MAX;
use base::mutant::planted;
use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::time::Duration;

/// After so long a record is looked at again that did not show enough.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(in crate::mesh) struct SessionReadOp {
    token: ReplyToken,
    get: Get,
    /// When to ask another region.
    ask_region_at: Instant,
    /// A read is under way here.
    reading: bool,
    /// The last one did not show what is demanded.
    is_insufficient: bool,
    /// The region that is being asked.
    asked_region: Option<RegionId>,
    /// The regions that lack something too.
    lacking: Vec<RegionId>,
}

impl Coordinator {
    fn session_read_op(&mut self, id: OpId) -> Option<&mut SessionReadOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::SessionRead(guarding)) => Some(guarding),
            _ => None,
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_get(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        get: Get,
        deadline: Instant,
    ) {
        if get.level == Level::Linearizable {
            return self.start_decided_read(t, Client::Local(token), get.key, deadline);
        }
        let half = deadline.since(t.now.at) / 2;
        let ask_region_at = t.now.at.after(half);
        let (reading, is_insufficient, asked_region, lacking) = (false, false, None, Vec::new());
        let guarding =
            SessionReadOp { token, get, ask_region_at, reading, is_insufficient, asked_region, lacking };
        // The read that it waits for expires first.
        let id = self.coordinator.begin(
            t,
            Operation::SessionRead(Box::new(guarding)),
            Instant(deadline.0.saturating_add(1)),
        );
        self.coordinator.timers.set(ask_region_at, id);
        self.try_session_read(t, id);
    }

    /// A region of which this one lacks something that the session has seen.
    fn missing_region(&self, key: &Key, session: &Session) -> Option<RegionId> {
        if planted(Mutant::TokenIgnored) {
            return None;
        }
        let shard = self.membership.shard_of(key).filter(|shard| self.membership.keeps(*shard));
        let marks = shard.map(|shard| self.replica.shards.marks(shard));
        session.missing_region(self.params.actor.region, |actor, seen| {
            let marked = marks.as_ref().is_some_and(|marks| marks.of(actor.region) >= seen.stamp);
            marked || self.remote.position(actor) >= seen.position
        })
    }

    /// Reads, if everything is here that the session has seen.
    fn try_session_read(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(guarding) = self.coordinator.session_read_op(id).filter(|guarding| !guarding.reading) else {
            return;
        };
        let get = guarding.get.clone();
        if self.missing_region(&get.key, &get.session).is_some() {
            self.remote.waiting.insert(id);
            return;
        }
        self.remote.waiting.remove(&id);
        let Some(deadline) =
            self.coordinator.operations.get(&id).map(|pending| Instant(pending.deadline.0 - 1))
        else {
            return;
        };
        if let Some(guarding) = self.coordinator.session_read_op(id) {
            guarding.reading = true;
        }
        // A session needs a quorum read.
        let r = if get.level == Level::LocalOne && get.session.is_empty() { Some(1) } else { get.r };
        match get.level {
            Level::GlobalQuorum | Level::EachQuorum => {
                self.start_global_read(t, Client::SessionRead(id), get.key, get.level, deadline)
            }
            Level::LocalOne | Level::LocalQuorum | Level::Linearizable => {
                self.start_read(t, Client::SessionRead(id), get.key, r, deadline)
            }
        }
    }

    /// What a read has come to.
    pub(in crate::mesh) fn session_read_done(&mut self, t: &mut Turn<'_>, id: OpId, reply: Reply) {
        let here = self.params.actor.region;
        let Some(guarding) = self.coordinator.session_read_op(id) else { return };
        guarding.reading = false;
        let token = guarding.token;
        match reply {
            Reply::Found(record) if satisfies(&guarding.get, record.as_deref()) => {
                self.finish_session_read(t, id, here, record)
            }
            Reply::Found(_) => {
                guarding.is_insufficient = true;
                self.coordinator.timers.set(t.now.at.after(LOOK_AGAIN), id);
            }
            other => {
                self.coordinator.finish(id);
                t.out.replies.push((token, other));
            }
        }
    }

    fn finish_session_read(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        from: RegionId,
        record: Option<Box<Record>>,
    ) {
        self.remote.waiting.remove(&id);
        let Some(Operation::SessionRead(guarding)) =
            self.coordinator.finish(id).map(|pending| pending.operation)
        else {
            return;
        };
        let record = record.map(|record| self.coordinator.show(t, record));
        let finish_session_read = GetResult { record, from, lag_ms: self.remote.lag_ms(t) };
        t.out.replies.push((guarding.token, Reply::Got(Box::new(finish_session_read))));
    }

    /// More of another region's log is here.
    pub(in crate::mesh) fn retry_session_reads(&mut self, t: &mut Turn<'_>) {
        let waits = |operation: &Operation| matches!(operation, Operation::SessionRead(guarding) if !guarding.reading);
        let all = self.coordinator.operations.iter().filter(|(_, pending)| waits(&pending.operation));
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.try_session_read(t, id);
        }
    }

    /// The retry timer of a session read: looks again here, or asks another region.
    pub(in crate::mesh) fn wake_session_read(&mut self, t: &mut Turn<'_>, id: OpId) {
        self.ask_region(t, id);
        self.try_session_read(t, id);
    }

    fn ask_region(&mut self, t: &mut Turn<'_>, id: OpId) {
        let here = self.params.actor.region;
        let Some(guarding) = self.coordinator.session_read_op(id) else { return };
        if guarding.asked_region.is_some() || t.now.at < guarding.ask_region_at {
            return;
        }
        let (get, is_insufficient, lacking) =
            (guarding.get.clone(), guarding.is_insufficient, guarding.lacking.clone());
        let writers = get.min.spans().iter().map(|(actor, _)| actor.region).filter(|_| is_insufficient);
        let missing_region = self.missing_region(&get.key, &get.session);
        let behind = is_insufficient || missing_region.is_some();
        // First the regions that wrote it, then any other.
        let likely = missing_region.into_iter().chain(writers).chain(self.remote.regions());
        let region = { likely }.find(|region| *region != here && !lacking.contains(region));
        let Some(region) = region.filter(|_| behind) else { return };
        let to = self.remote.replica_in(&mut self.membership.peers, t.now.at, region, &get.key);
        if let (Some(to), Some(guarding)) = (to, self.coordinator.session_read_op(id)) {
            guarding.asked_region = Some(region);
            let session = get.session.encode();
            self.send(t, to, Frame::RemoteRead { id, key: get.key, session });
        }
    }

    /// The region that was asked lacks something too.
    pub(in crate::mesh) fn decline_session_read(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let region = self.remote.region_of(from);
        if let Some(guarding) =
            self.coordinator.session_read_op(id).filter(|guarding| guarding.asked_region == region)
        {
            guarding.lacking.extend(guarding.asked_region.take());
            self.ask_region(t, id);
        }
    }

    /// Reads for another region.
    pub(in crate::mesh) fn step_remote_read(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        key: Key,
        session: Bytes,
    ) {
        let busy = self.coordinator.operations.len() >= MESH_OPERATIONS_MAX;
        if busy
            || Session::decode(session).is_none_or(|session| self.missing_region(&key, &session).is_some())
        {
            return self.send(t, from, Frame::Declined { id });
        }
        let deadline = t.now.at.after(self.params.timeout);
        self.start_read(t, Client::RemoteNode(from, id), key, None, deadline);
    }

    pub(in crate::mesh) fn step_remote_read_result(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Bytes>,
    ) {
        let Some(region) = self.remote.region_of(from) else { return };
        let record = match record.map(Record::decode) {
            Some(None) => return,
            Some(Some(record)) => Some(Box::new(record)),
            None => None,
        };
        match self.coordinator.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::SessionRead(guarding)) if satisfies(&guarding.get, record.as_deref()) => {
                self.finish_session_read(t, id, region, record);
            }
            Some(Operation::GlobalRead(_)) => {
                self.global_read_answer(t, region, id, record.map(|record| *record))
            }
            _ => {}
        }
    }

    pub(in crate::mesh) fn expire_session_read(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        guarding: SessionReadOp,
    ) {
        self.remote.waiting.remove(&id);
        let lag_ms = self.remote.lag_ms(t);
        t.out.replies.push((guarding.token, Reply::Lagging { lag_ms }));
    }
}

/// Whether a record shows at least what is demanded.
fn satisfies(get: &Get, record: Option<&Record>) -> bool {
    get.min.is_empty() || record.is_some_and(|record| record.context.dominates(&get.min))
}
