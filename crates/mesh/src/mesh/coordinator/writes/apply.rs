//! Carries a write out on the coordinator's own record: the stamp that it gets, its dot, and the record after it. A write that
//! began elsewhere keeps the stamp of its origin, or the origin is told what is later (ADR 43).

use super::collections::FoundElements;
use crate::actor::Dot;
use crate::frame::{Shard, StampCheck, StoreOutcome, StoreReason, WriteOrigin};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::remote_regions::streams::LoggedChange;
use crate::mesh::replica::Replica;
use crate::mesh::replica::records::LocalRecord;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::op::{self, Attributes, Op, WriteEvent};
use crate::overlay::Seq;
use crate::record::Record;
use crate::request::Write;
use crate::resolve::resolve;
use base::Code;
use base::limits::MESH_RECORD_BYTES_MAX;
use base::mutant::planted;
use bytes::Bytes;
use std::time::Duration;

/// How far ahead of this node's clock a session's is believed: more than regions disagree, less than does harm.
const SESSION_AHEAD_MAX: Duration = Duration::from_secs(3_600);

/// Which stamp a write gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stamped {
    Now,
    /// The stamp of an earlier moment.
    At(Stamp),
    /// A second stamp, later than the write that superseded the first.
    Restamped(Stamp),
    /// The stamp of the node where the write began.
    ByOrigin(WriteOrigin),
}

/// A write that was applied here.
pub(super) struct Applied {
    /// The record that the others are sent.
    pub sent: Bytes,
    pub attempts: Option<(Key, Bytes)>,
    /// The record in the client's reply.
    pub record: Record,
    pub outcome: StoreOutcome,
    pub seq: Seq,
}

/// Why a write was not applied here.
pub(super) enum NotApplied {
    Refused(Code),
    /// The write's stamp is older than this one, and only the node where it began may give another.
    Behind(Stamp, StampCheck),
    /// The key is decided by ballots.
    KeyDecided,
}

impl From<Code> for NotApplied {
    fn from(code: Code) -> NotApplied {
        NotApplied::Refused(code)
    }
}

impl Replica {
    /// Whether a write that began elsewhere may be carried out here under the stamp that it has.
    pub(super) fn check_origin(
        &self,
        write: &Write,
        shard: Shard,
        local: &LocalRecord,
        origin: WriteOrigin,
        after: Stamp,
    ) -> Result<(), NotApplied> {
        let stamp = origin.stamp.max(after);
        let shown = local.record.as_ref().map_or(Stamp::ZERO, |record| record.header.stamp);
        // A majority's records were gathered for a write with a request id, and are part of the record here.
        let gathered = write.attributes.once().is_some();
        let check = if gathered { StampCheck::Quorum } else { StampCheck::Replica };
        // This node has vouched that it gives no stamp so early any more, and what was deleted so late may be forgotten.
        let floor = self.promised.max(self.shards.marks(shard).of(self.actor.region));
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
}

impl Mesh {
    pub(super) fn apply(
        &mut self,
        t: &mut Turn<'_>,
        write: &Write,
        stamped: Stamped,
        found: Option<&FoundElements>,
    ) -> Result<Applied, NotApplied> {
        let shard = self.membership.shard_of(&write.key).ok_or(Code::UnknownSpace)?;
        let local = self.replica.load(t, &write.key);
        if self.replica.is_balloted(&write.key, local.record.as_ref()) && !planted(Mutant::PlainMixedIn) {
            return Err(NotApplied::KeyDecided);
        }
        let is_here = local.record.as_ref().is_some_and(Record::is_collection);
        if write.kind.collection().is_some() || is_here && write.op == Op::Delete {
            let nothing = FoundElements::default();
            return self.apply_to_collection(t, write, shard, stamped, found.unwrap_or(&nothing));
        }
        if is_here {
            return Err(Code::WrongType.into());
        }
        let remembered = self.replica.remembered(t, write);
        if self.replica.was_applied(t, write, shard, &local, remembered.as_ref(), stamped)?
            && let Some(record) = &local.record
        {
            let sent = local.bytes.clone().expect("a record has bytes");
            let (record, outcome, seq) = (record.clone(), StoreOutcome::Applied, local.seq);
            return Ok(Applied { sent, attempts: None, record, outcome, seq });
        }
        let after = stamp_after(t, &write.attributes);
        if let Stamped::ByOrigin(origin) = stamped {
            self.replica.check_origin(write, shard, &local, origin, after)?;
        }
        let counter = self.replica.dots.take().ok_or(Code::NotInStep)?;
        let noted = match remembered {
            Some((key, noted)) => Some((key, noted, self.replica.dots.take().ok_or(Code::NotInStep)?)),
            None => None,
        };
        let stamp = match stamped {
            Stamped::Now => self.replica.clock.tick(t.now.wall_ms),
            Stamped::At(stamp) => stamp,
            Stamped::Restamped(superseded) => self.replica.clock.tick(t.now.wall_ms).max(superseded.next()),
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
        let folded = self.coordinator.with_handler(t, local.record.as_ref(), write);
        let write = folded.as_ref().unwrap_or(write);
        let written = op::apply(local.record.as_ref(), write.kind, &write.op, &write.attributes, event)?;
        let full = written.full.encode();
        let before = local.bytes.as_ref().map_or(0, Bytes::len);
        if full.len() > MESH_RECORD_BYTES_MAX && full.len() > before {
            return Err(Code::RequestTooLarge.into());
        }
        let delta = written.delta.as_ref().map_or_else(|| full.clone(), Record::encode);
        let unmerged = local.record.as_ref().filter(|_| written.full.header.replaces_apart());
        if let Some(loss) = unmerged.and_then(|before| resolve(before, &written.full).conflict) {
            self.replica.log_conflict(t, &write.key, &loss, event.dot.actor.region);
        }
        let seq = self.replica.save(&write.key, shard, &local, &written.full, full);
        let (before, after) = (local.record.as_ref(), &written.full);
        self.append(t, &LoggedChange { key: &write.key, before, after, delta: &delta });
        let sums = |record: &Record| record.sums_by(event.dot.actor);
        let (before, after) = (before.map(sums).unwrap_or_default(), sums(&written.full));
        let attempts = self.note_attempt(t, noted, write, shard, event, (before, after))?;
        Ok(Applied { sent: delta, attempts, record: written.full, outcome: StoreOutcome::Applied, seq })
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
        let (outcome, seq) = self.replica.absorb(t, &write.key, shard, &record, StoreReason::Write);
        let (sent, before) = (record.encode(), Some(shown));
        self.append(t, &LoggedChange { key: &write.key, before, after: &record, delta: &sent });
        Ok(Applied { sent, attempts: None, record, outcome, seq })
    }
}

/// The least stamp of a write that comes after what its session has seen. A session that has met a clock far
/// ahead is not followed, or it would carry that clock from key to key.
pub(in crate::mesh) fn stamp_after(t: &Turn<'_>, attributes: &Attributes) -> Stamp {
    let bound_ms = t.now.wall_ms.saturating_add(SESSION_AHEAD_MAX.as_millis() as u64);
    let believed = attributes.after <= Stamp::at_ms(bound_ms) && !planted(Mutant::SessionStampIgnored);
    if believed { attributes.after.next() } else { Stamp::ZERO }
}
