//! Writes under a request id: whether one was carried out before, and the note that it was (ADR 44).

use super::apply::Stamped;
use crate::actor::Dot;
use crate::attempts::{Attempt, Fate, attempts_of, body_hash, is_other, keep_ms};
use crate::counter::CounterSums;
use crate::frame::Shard;
use crate::key::Key;
use crate::mesh::remote_regions::streams::LoggedChange;
use crate::mesh::replica::Replica;
use crate::mesh::replica::records::LocalRecord;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::op::{self, Attributes, Op, WriteEvent};
use crate::record::{Kind, Record};
use crate::request::Write;
use base::Code;
use base::mutant::planted;
use bytes::Bytes;

impl Replica {
    /// Where a write's request is remembered, and what is. A write under a condition is remembered with its key.
    pub(super) fn remembered(&self, t: &Turn<'_>, write: &Write) -> Option<(Key, LocalRecord)> {
        let request = write.attributes.once().filter(|_| !write.is_decided())?;
        let key = write.key.of_request(request);
        let local = self.load(t, &key);
        (!planted(Mutant::RequestForgotten)).then_some((key, local))
    }

    /// Whether a write's request was carried out, so that it is in the record. The same id for something else is refused, and
    /// so is one whose work was deleted and is forgotten.
    pub(super) fn was_applied(
        &self,
        t: &Turn<'_>,
        write: &Write,
        shard: Shard,
        local: &LocalRecord,
        remembered: Option<&(Key, LocalRecord)>,
        stamped: Stamped,
    ) -> Result<bool, Code> {
        let Some(request) = write.attributes.once().filter(|_| !matches!(stamped, Stamped::Restamped(_)))
        else {
            return Ok(false);
        };
        let noted = remembered.and_then(|(_, local)| local.record.as_ref());
        // A note counts until every replica has forgotten it, whatever this node's clock says.
        let by_clock = planted(Mutant::NoteExpiresByOwnClock);
        let noted = noted.filter(|noted| !by_clock || !noted.is_expired(t.now.wall_ms));
        let attempts = noted.map(attempts_of).unwrap_or_default();
        if attempts.iter().any(|attempt| is_other(attempt.body, write)) {
            return Err(Code::RequestIdReused);
        }
        let Some(record) = &local.record else {
            return match noted.filter(|noted| !attempts.is_empty() && self.is_purged(shard, noted)) {
                Some(_) => Err(Code::KeyDeleted),
                None => Ok(false),
            };
        };
        // An attempt is behind nothing that was acknowledged before its request began: whatever shows in its place came after
        // it, or is concurrent with the request.
        let here = |attempt: &Attempt| attempt.fate != Fate::Refused && record.context.covers(attempt.dot);
        Ok(attempts.iter().any(here) || record.has_taken(request))
    }
}

impl Mesh {
    /// Remembers that a request was carried out, in the batch of the record.
    pub(super) fn note_attempt(
        &mut self,
        t: &mut Turn<'_>,
        noted: Option<(Key, LocalRecord, u64)>,
        write: &Write,
        shard: Shard,
        event: WriteEvent,
        (before, after): (CounterSums, CounterSums),
    ) -> Result<Option<(Key, Bytes)>, Code> {
        let Some((key, local, counter)) = noted else { return Ok(None) };
        let change = CounterSums {
            added: after.added - before.added,
            subtracted: after.subtracted - before.subtracted,
        };
        let attempt =
            Attempt { body: body_hash(write), dot: event.dot, before, change, fate: Fate::InRecord };
        let event = WriteEvent { dot: Dot { counter, ..event.dot }, ..event };
        let delta = self.write_note(t, (&key, &local), shard, attempt, event)?;
        if let Some(request) = write.attributes.once() {
            self.replica.undo_repeats(t, &write.key, shard, request);
        }
        Ok(Some((key, delta)))
    }

    /// Adds an attempt to what is remembered of a request; what others are sent of it.
    pub(in crate::mesh) fn write_note(
        &mut self,
        t: &mut Turn<'_>,
        (key, local): (&Key, &LocalRecord),
        shard: Shard,
        attempt: Attempt,
        event: WriteEvent,
    ) -> Result<Bytes, Code> {
        // A clock that is behind does not shorten it.
        let from_ms = t.now.wall_ms.max(event.stamp.ms());
        let expires_ms = Some(from_ms.saturating_add(keep_ms(attempt.body)));
        let attributes = Attributes { expires_ms, ..Attributes::default() };
        // Nor does one that is ahead end what is there.
        let wall_ms = if planted(Mutant::NoteExpiresByOwnClock) { event.wall_ms } else { 0 };
        let event = WriteEvent { wall_ms, ..event };
        let insert = Op::Insert(attempt.encode());
        let written = op::apply(local.record.as_ref(), Kind::Set, &insert, &attributes, event)?;
        let full = written.full.encode();
        let delta = written.delta.as_ref().map_or_else(|| full.clone(), Record::encode);
        self.replica.save(key, shard, local, &written.full, full);
        let (before, after) = (local.record.as_ref(), &written.full);
        self.append(t, &LoggedChange { key, before, after, delta: &delta });
        Ok(delta)
    }
}
