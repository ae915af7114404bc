//! Session reads: wait until this region has everything that the session has seen, then ask a region that has it, then report
//! the lag. A minimum context that a client demands of a record is waited for in the same way. A read never returns anything
//! older than either.

use super::{Client, Mesh, Operation, Turn};
use crate::actor::RegionId;
use crate::frame::{Ask, Frame};
use crate::key::Key;
use crate::record::Record;
use crate::request::{Get, Got, Level, Reply};
use crate::session::Session;
use base::limits::MESH_OPERATIONS_MAX;
use base::mutant::{Mutant, planted};
use base::{Instant, NodeId, Token};
use bytes::Bytes;
use std::time::Duration;

/// After so long a record is looked at again that did not show enough.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Guarding {
    token: Token,
    get: Get,
    /// When to ask another region.
    ask_abroad_at: Instant,
    /// A read is under way here.
    reading: bool,
    /// The last one did not show what is demanded.
    short: bool,
    /// Who is being asked.
    abroad: Option<RegionId>,
    /// Who lacks something too.
    lacking: Vec<RegionId>,
}

impl Mesh {
    pub(super) fn start_get(&mut self, t: &mut Turn<'_>, token: Token, get: Get, deadline: Instant) {
        if get.level == Level::Linearizable {
            return self.start_decided_read(t, Client::Here(token), get.key, deadline);
        }
        let half = deadline.since(t.now.at) / 2;
        let ask_abroad_at = t.now.at.after(half);
        let (reading, short, abroad, lacking) = (false, false, None, Vec::new());
        let guarding = Guarding { token, get, ask_abroad_at, reading, short, abroad, lacking };
        // The read that it waits for expires first.
        let ask = self.begin(t, Operation::Guard(Box::new(guarding)), Instant(deadline.0.saturating_add(1)));
        self.alarms.set(ask_abroad_at, ask);
        self.look(t, ask);
    }

    fn guarding(&mut self, ask: Ask) -> Option<&mut Guarding> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::Guard(guarding)) => Some(guarding),
            _ => None,
        }
    }

    /// A region of which this one lacks something that the session has seen.
    fn unmet(&self, key: &Key, session: &Session) -> Option<RegionId> {
        if planted(Mutant::TokenIgnored) {
            return None;
        }
        let shard = self.shard_of(key).filter(|shard| self.keeps(*shard));
        let marks = shard.map(|shard| self.shards.marks(shard));
        session.unmet(self.params.actor.region, |actor, seen| {
            let marked = marks.as_ref().is_some_and(|marks| marks.of(actor.region) >= seen.stamp);
            marked || self.abroad.position(actor) >= seen.position
        })
    }

    /// Reads, if everything is here that the session has seen.
    fn look(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(guarding) = self.guarding(ask).filter(|guarding| !guarding.reading) else { return };
        let get = guarding.get.clone();
        if self.unmet(&get.key, &get.session).is_some() {
            self.abroad.waiting.insert(ask);
            return;
        }
        self.abroad.waiting.remove(&ask);
        let Some(deadline) = self.operations.get(&ask).map(|pending| Instant(pending.deadline.0 - 1)) else {
            return;
        };
        if let Some(guarding) = self.guarding(ask) {
            guarding.reading = true;
        }
        // A session needs a quorum read.
        let r = if get.level == Level::LocalOne && get.session.is_empty() { Some(1) } else { get.r };
        match get.level {
            Level::GlobalQuorum | Level::EachQuorum => {
                self.start_global(t, Client::Guard(ask), get.key, get.level, deadline)
            }
            Level::LocalOne | Level::LocalQuorum | Level::Linearizable => {
                self.start_read(t, Client::Guard(ask), get.key, r, deadline)
            }
        }
    }

    /// What a read has come to.
    pub(super) fn guarded(&mut self, t: &mut Turn<'_>, ask: Ask, reply: Reply) {
        let here = self.params.actor.region;
        let Some(guarding) = self.guarding(ask) else { return };
        guarding.reading = false;
        let token = guarding.token;
        match reply {
            Reply::Found(record) if shows(&guarding.get, record.as_deref()) => self.got(t, ask, here, record),
            Reply::Found(_) => {
                guarding.short = true;
                self.alarms.set(t.now.at.after(LOOK_AGAIN), ask);
            }
            other => {
                self.finish(ask);
                t.out.replies.push((token, other));
            }
        }
    }

    fn got(&mut self, t: &mut Turn<'_>, ask: Ask, from: RegionId, record: Option<Box<Record>>) {
        self.abroad.waiting.remove(&ask);
        let Some(Operation::Guard(guarding)) = self.finish(ask).map(|pending| pending.operation) else {
            return;
        };
        let record = record.map(|record| self.show(t, record));
        let got = Got { record, from, lag_ms: self.lag_ms(t) };
        t.out.replies.push((guarding.token, Reply::Got(Box::new(got))));
    }

    fn lag_ms(&self, t: &Turn<'_>) -> u64 {
        self.regions(t.now).iter().map(|region| region.lag_in_ms).max().unwrap_or(0)
    }

    /// More of another region's log is here.
    pub(super) fn wake_sessions(&mut self, t: &mut Turn<'_>) {
        let waits =
            |operation: &Operation| matches!(operation, Operation::Guard(guarding) if !guarding.reading);
        let all = self.operations.iter().filter(|(_, pending)| waits(&pending.operation));
        for ask in all.map(|(ask, _)| *ask).collect::<Vec<_>>() {
            self.look(t, ask);
        }
    }

    /// It is time to look again, or to ask elsewhere.
    pub(super) fn nudge(&mut self, t: &mut Turn<'_>, ask: Ask) {
        self.ask_abroad(t, ask);
        self.look(t, ask);
    }

    fn ask_abroad(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let here = self.params.actor.region;
        let Some(guarding) = self.guarding(ask) else { return };
        if guarding.abroad.is_some() || t.now.at < guarding.ask_abroad_at {
            return;
        }
        let (get, short, lacking) = (guarding.get.clone(), guarding.short, guarding.lacking.clone());
        let writers = get.min.spans().iter().map(|(actor, _)| actor.region).filter(|_| short);
        let unmet = self.unmet(&get.key, &get.session);
        let behind = short || unmet.is_some();
        // First the regions that wrote it, then any other.
        let likely = unmet.into_iter().chain(writers).chain(self.abroad.regions());
        let region = { likely }.find(|region| *region != here && !lacking.contains(region));
        let Some(region) = region.filter(|_| behind) else { return };
        let to = self.abroad.keeper(&mut self.peers, t.now.at, region, &get.key);
        if let (Some(to), Some(guarding)) = (to, self.guarding(ask)) {
            guarding.abroad = Some(region);
            let session = get.session.encode();
            self.send(t, to, Frame::Seek { ask, key: get.key, session });
        }
    }

    /// The region that was asked lacks something too.
    pub(super) fn decline_guard(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        let region = self.abroad.home(from);
        if let Some(guarding) = self.guarding(ask).filter(|guarding| guarding.abroad == region) {
            guarding.lacking.extend(guarding.abroad.take());
            self.ask_abroad(t, ask);
        }
    }

    /// Reads for another region.
    pub(super) fn step_seek(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, key: Key, session: Bytes) {
        let busy = self.operations.len() >= MESH_OPERATIONS_MAX;
        if busy || Session::decode(session).is_none_or(|session| self.unmet(&key, &session).is_some()) {
            return self.send(t, from, Frame::Declined { ask });
        }
        let deadline = t.now.at.after(self.params.timeout);
        self.start_read(t, Client::Abroad(from, ask), key, None, deadline);
    }

    pub(super) fn step_sought(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, record: Option<Bytes>) {
        let Some(region) = self.abroad.home(from) else { return };
        let record = match record.map(Record::decode) {
            Some(None) => return,
            Some(Some(record)) => Some(Box::new(record)),
            None => None,
        };
        match self.operations.get(&ask).map(|pending| &pending.operation) {
            Some(Operation::Guard(guarding)) if shows(&guarding.get, record.as_deref()) => {
                self.got(t, ask, region, record);
            }
            Some(Operation::Global(_)) => self.global_heard(t, region, ask, record.map(|record| *record)),
            _ => {}
        }
    }

    pub(super) fn expire_guard(&mut self, t: &mut Turn<'_>, ask: Ask, guarding: Guarding) {
        self.abroad.waiting.remove(&ask);
        let lag_ms = self.lag_ms(t);
        t.out.replies.push((guarding.token, Reply::Lagging { lag_ms }));
    }
}

/// Whether a record shows at least what is demanded.
fn shows(get: &Get, record: Option<&Record>) -> bool {
    get.min.is_empty() || record.is_some_and(|record| record.context.dominates(&get.min))
}
