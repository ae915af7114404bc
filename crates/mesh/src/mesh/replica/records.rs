//! The replica: stores records, merges them with what it has, and returns them.
//! A record is acknowledged when the merged record is durable. A record is durable before a reader receives it, so no crash
//! takes back what a client has seen.

use crate::actor::RegionId;
use crate::attempts::{Attempt, attempts_of, without_repeats};
use crate::conflict::{Conflict, row_key};
use crate::feed::ChangeKind;
use crate::frame::{Shard, StoreOutcome, StoreReason};
use crate::hlc::Stamp;
use crate::index;
use crate::key::Key;
use crate::mesh::replica::Replica;
use crate::mesh::{MeshEvent, Turn};
use crate::mutant::Mutant;
use crate::overlay::Seq;
use crate::record::{Kind, Record};
use crate::resolve::{LostWrite, Resolution, resolve};
use crate::rows;
use base::mutant::planted;
use bytes::Bytes;
use std::time::Duration;

/// A key that was deleted by a ballot stays so much longer: stamps of proposals that were given up may lie a little behind
/// that of the delete.
const BALLOT_KEPT: Duration = Duration::from_secs(600);

/// Keys with requests that were carried out more than once, of which something is still on its way.
const REPEATED_MAX: usize = 65_536;

/// The record of a key on this node: its bytes, its value, and the batch with which it is durable.
pub(in crate::mesh) struct LocalRecord {
    pub bytes: Option<Bytes>,
    pub record: Option<Record>,
    pub seq: Seq,
}

/// A record that comes from elsewhere.
#[derive(Clone, Copy)]
pub(in crate::mesh) struct IncomingRecord<'a> {
    pub record: &'a Record,
    /// The record's bytes as they arrived; they are stored unchanged.
    pub bytes: Option<&'a [u8]>,
}

impl<'a> From<&'a Record> for IncomingRecord<'a> {
    fn from(record: &'a Record) -> IncomingRecord<'a> {
        IncomingRecord { record, bytes: None }
    }
}

impl IncomingRecord<'_> {
    /// Copied, because the buffer holds other records that are not needed so long.
    fn encode(&self) -> Bytes {
        self.bytes.map_or_else(|| self.record.encode(), Bytes::copy_from_slice)
    }
}

impl Replica {
    pub(in crate::mesh) fn load(&self, t: &Turn<'_>, key: &Key) -> LocalRecord {
        let (bytes, seq) = self.storage.get(t.rows, &rows::record(key));
        let mut record =
            bytes.clone().map(|bytes| Record::decode(bytes).expect("a row that we wrote can be read"));
        // A node of 0.1.0 kept what clients claimed.
        record.iter_mut().for_each(|record| {
            self.clip_claims(record);
        });
        LocalRecord { bytes, record, seq }
    }

    /// Puts a record in the place of what is there, and tells followers.
    pub(in crate::mesh) fn save(
        &mut self,
        key: &Key,
        shard: Shard,
        old: &LocalRecord,
        record: &Record,
        bytes: Bytes,
    ) -> Seq {
        self.feed.changed(ChangeKind::Record, shard, key, &bytes);
        self.store(key, shard, old, record, bytes)
    }

    /// Puts a record in the place of what is there.
    pub(in crate::mesh) fn store(
        &mut self,
        key: &Key,
        shard: Shard,
        old: &LocalRecord,
        record: &Record,
        bytes: Bytes,
    ) -> Seq {
        if record.kind == Kind::BoundedCounter {
            self.bounded_changed.insert(key.clone());
        }
        let before = old.record.as_ref().and_then(due);
        let now = due(record);
        if before != now {
            self.index_due(key, before, None);
            self.index_due(key, now, Some(Bytes::new()));
        }
        self.index(key, old.record.as_ref(), Some(record));
        self.note_ballot(key, record);
        self.shards.changed(shard, key, old.bytes.as_ref(), Some(&bytes));
        self.storage.put_row(rows::record(key), Some(bytes));
        self.storage.next_seq()
    }

    /// Removes a record, whose rows are gone if it is a collection. Whether something may have been promised about its key.
    pub(in crate::mesh) fn remove(
        &mut self,
        t: &Turn<'_>,
        key: &Key,
        shard: Shard,
        old: &LocalRecord,
    ) -> bool {
        let had_promise = self.forget_promise(t, key, shard, old);
        self.index_due(key, old.record.as_ref().and_then(due), None);
        self.index(key, old.record.as_ref(), None);
        self.shards.changed(shard, key, old.bytes.as_ref(), None);
        self.storage.put_row(rows::record(key), None);
        had_promise
    }

    /// Updates the index: removes the rows of the old record and adds those of the new one.
    fn index(&mut self, key: &Key, old: Option<&Record>, new: Option<&Record>) {
        let is_remembered = key.request().is_some();
        if is_remembered || old.zip(new).is_some_and(|(old, new)| index::stays(old, new)) {
            return;
        }
        let rows =
            |record: Option<&Record>| record.map_or_else(Default::default, |record| index::rows(key, record));
        for (old, new) in rows(old).into_iter().zip(rows(new)).filter(|(old, new)| old != new) {
            let moves = |row: &Bytes| new.as_ref().is_none_or(|(new, _)| new != row);
            if let Some((row, _)) = old.filter(|(row, _)| moves(row)) {
                self.storage.put_row(row, None);
            }
            if let Some((row, value)) = new {
                self.storage.put_row(row, Some(value));
            }
        }
    }

    fn index_due(&mut self, key: &Key, stamp: Option<Stamp>, value: Option<Bytes>) {
        if let Some(stamp) = stamp {
            self.storage.put_row(rows::due(key.partition(), stamp, key), value);
        }
    }

    /// Merges a record into what is here. The outcome may be told when the batch is durable.
    pub(in crate::mesh) fn absorb<'a>(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        shard: Shard,
        incoming: impl Into<IncomingRecord<'a>>,
        reason: StoreReason,
    ) -> (StoreOutcome, Seq) {
        let mut came = incoming.into();
        let clipped = self.clip_incoming(t, came.record);
        if let Some(clipped) = &clipped {
            came = IncomingRecord::from(clipped);
        }
        let incoming = came.record;
        if !self.clock.observe(incoming.header.stamp, t.now.wall_ms) {
            let (actor, stamp) = (incoming.header.dot.actor, incoming.header.stamp);
            t.out.events.push(MeshEvent::ClockAhead { actor, stamp });
        }
        let local = self.load(t, key);
        let is_plain = reason == StoreReason::Write && incoming.ballot().is_none();
        if is_plain && self.is_balloted(key, local.record.as_ref()) && !planted(Mutant::PlainMixedIn) {
            return (StoreOutcome::KeyDecided, Seq(0));
        }
        if incoming.is_collection() {
            return self.absorb_delta(t, key, shard, &local, incoming, reason);
        }
        if let Some(mine) = local.record.as_ref().filter(|record| record.is_collection()) {
            return self.refuse_beside_collection(t, key, &local, mine, incoming, reason);
        }
        let Some(mine) = &local.record else {
            if self.is_purged(shard, incoming) {
                return (StoreOutcome::Purged, Seq(0));
            }
            let seq = self.save(key, shard, &local, incoming, came.encode());
            self.reconcile_attempts(t, key, shard);
            return (StoreOutcome::Applied, seq);
        };
        let passed = reason == StoreReason::Write && incoming.header.token() < mine.header.token();
        if passed && !planted(Mutant::FenceIgnored) {
            return (StoreOutcome::Fenced, Seq(0));
        }
        if reason == StoreReason::Write && (incoming.era, incoming.kind) < (mine.era, mine.kind) {
            return (StoreOutcome::WrongType, Seq(0));
        }
        let Resolution { record, conflict, .. } = resolve(mine, incoming);
        if let Some(loss) = conflict {
            self.log_conflict(t, key, &loss, incoming.header.dot.actor.region);
        }
        let outcome = if self.is_superseded(t, key, mine, &record, incoming) {
            StoreOutcome::Superseded(record.header.stamp)
        } else {
            StoreOutcome::Applied
        };
        if record == *mine {
            return (outcome, local.seq);
        }
        let bytes = if record == *incoming { came.encode() } else { record.encode() };
        let seq = self.save(key, shard, &local, &record, bytes);
        self.reconcile_attempts(t, key, shard);
        (outcome, seq)
    }

    /// Something came that may be a second attempt at a request, or tell of one.
    fn reconcile_attempts(&mut self, t: &Turn<'_>, key: &Key, shard: Shard) {
        if let Some((of, request)) = key.request() {
            return self.undo_repeats(t, &of, shard, request);
        }
        for request in self.repeated.get(key).cloned().unwrap_or_default() {
            self.undo_repeats(t, key, shard, request);
        }
    }

    /// Undoes the effect of attempts that repeated a request.
    pub(in crate::mesh) fn undo_repeats(&mut self, t: &Turn<'_>, key: &Key, shard: Shard, request: u64) {
        let Some(remembered) = self.load(t, &key.of_request(request)).record else { return };
        let attempts = attempts_of(&remembered);
        if attempts.len() < 2 || planted(Mutant::RepeatCounted) {
            return;
        }
        let local = self.load(t, key);
        let settled = local.record.as_ref().and_then(|record| without_repeats(record, request, &attempts));
        let has = |attempt: &Attempt| {
            local.record.as_ref().is_some_and(|record| record.context.covers(attempt.dot))
        };
        if attempts.iter().all(has) {
            if let Some(requests) = self.repeated.get_mut(key) {
                requests.remove(&request);
            }
            self.repeated.retain(|_, requests| !requests.is_empty());
        } else if self.repeated.len() < REPEATED_MAX {
            self.repeated.entry(key.clone()).or_default().insert(request);
        }
        if let Some(settled) = settled {
            self.save(key, shard, &local, &settled, settled.encode());
        }
    }

    /// Puts what lost into the log of conflicts.
    pub(in crate::mesh) fn log_conflict(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        loss: &LostWrite,
        source: RegionId,
    ) {
        if planted(Mutant::LoserNotKept) {
            return;
        }
        let conflict = Conflict::new(key, &loss.winner, &loss.loser, source, t.now.wall_ms);
        let row = conflict.row();
        self.storage.put_row(row.key, row.value);
        self.feed.noticed(&conflict);
        t.out.events.push(MeshEvent::Conflict(Box::new(conflict)));
    }

    /// Merges the records of several replicas; losers go to the conflict log. None if there are no records.
    pub(in crate::mesh) fn join(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        records: impl Iterator<Item = Record>,
    ) -> (Option<Record>, Seq) {
        let mut joined: Option<Record> = None;
        let mut seq = Seq(0);
        for record in records {
            let Some(before) = joined else {
                joined = Some(record);
                continue;
            };
            let resolution = resolve(&before, &record);
            if let Some(loss) = resolution.conflict {
                self.log_conflict(t, key, &loss, record.header.dot.actor.region);
                seq = self.storage.next_seq();
            }
            joined = Some(resolution.record);
        }
        (joined, seq)
    }

    /// Whether a last write lost here against one that had not seen it. What an origin says to have seen is no
    /// help: it may have forgotten in a crash what others have.
    fn is_superseded(
        &self,
        t: &Turn<'_>,
        key: &Key,
        mine: &Record,
        shown: &Record,
        incoming: &Record,
    ) -> bool {
        if !shown.kind.is_last_write_wins() || shown.header.dot == incoming.header.dot {
            return false;
        }
        if was_applied_before(mine, incoming) && !planted(Mutant::RetryRestamped) {
            return false;
        }
        // The record may have come before, by another way, and lost then.
        let lost = || self.storage.get(t.rows, &row_key(key, shown, incoming)).0.is_some();
        !mine.context.covers(incoming.header.dot) || lost()
    }

    /// Whether a record that is not here was here once, and deleted everywhere.
    pub(in crate::mesh) fn is_purged(&self, shard: Shard, record: &Record) -> bool {
        self.shards.cover(shard, record)
    }
}

/// When a record may be removed, if ever: a tombstone once all replicas have passed its stamp, an expiring record once all
/// clocks have passed its end.
pub(in crate::mesh) fn due(record: &Record) -> Option<Stamp> {
    let Stamp(stamp) = record.header.stamp;
    if record.is_tombstone() {
        let kept = if record.ballot().is_some() { BALLOT_KEPT } else { Duration::ZERO };
        let due = Stamp::at_ms(record.updated_ms() + kept.as_millis() as u64);
        return Some(Stamp(due.0.max(stamp)));
    }
    record.header.expires_ms.map(|expires_ms| Stamp(Stamp::at_ms(expires_ms).0.max(stamp)))
}

/// Whether another attempt at the same request was carried out, and the local record is later than it.
fn was_applied_before(mine: &Record, incoming: &Record) -> bool {
    let stamp = incoming.header.stamp;
    let own = incoming.recent.iter().find(|recent| recent.stamp == stamp);
    own.is_some_and(|own| {
        mine.recent.iter().any(|other| other.request == own.request && other.stamp != stamp)
    })
}
