//! The state read back from the store.
//! Rows go in, the state that wrote them comes out; values are never read, so the time it takes depends on
//! keys and changes alone. The tables say some things twice, and what does not agree is reported as corrupt
//! with the row that shows it, instead of being served.

use crate::alarms::Alarms;
use crate::auth::Auth;
use crate::clock::RevisionClock;
use crate::compaction;
use crate::compaction_times::CompactionTimes;
use crate::documents::Documents;
use crate::entry::{Current, LogLine};
use crate::history_rows::HistoryRows;
use crate::index::Index;
use crate::leases::{self, Lease, Leases};
use crate::locks::{Fence, LockClaim, Locks};
use crate::members::Members;
use crate::origins::{Origin, Origins};
use crate::quota::Quota;
use crate::rebase::Rebase;
use crate::rows::{
    CorruptRow, LoggedChange, META_KEY, Meta, change_bytes, current_from_row, parse_log_key, parse_origin_key,
};
use crate::sessions::{self, Sessions};
use crate::state::{self, State};
use crate::unindexed::{self, Unindexed};
use base::{FormatLevel, LeaseId, ReadView, Revision, Table};
use bytes::Bytes;
use std::ops::Bound::Unbounded;

impl State {
    /// `None` when the store was never written.
    pub fn load(view: &dyn ReadView) -> Result<Option<State>, CorruptRow> {
        let Some(meta) = Meta::read(view)? else {
            return check_unwritten(view).map(|()| None);
        };
        let sane = Revision::EMPTY_STORE.0..i64::MAX;
        if !sane.contains(&meta.revision.0) || !(0..=meta.revision.0).contains(&meta.compacted.0) {
            return Err(CorruptRow::new(Table::Meta, META_KEY, "revisions out of order"));
        }
        let mut leases = load_leases(view)?;
        let sessions = load_sessions(view, &leases)?;
        let mut index = load_current(view, &mut leases)?;
        let stored_bytes = load_history(view, &mut index, &meta)?;
        let locks = load_locks(view, &index, meta.revision)?;
        let members = Members::read(view)?.unwrap_or_default();
        let documents = Documents::load(view)?;
        let level = state::format_level(&documents, &members);
        if level > FormatLevel::NEWEST {
            let what = "the cluster writes formats of a later release than this one";
            return Err(CorruptRow::new(Table::Meta, FormatLevel::DOCUMENT.as_bytes(), what));
        }
        Ok(Some(State {
            index,
            origins: load_origins(view)?,
            leases,
            locks,
            sessions,
            members,
            alarms: Alarms::load(view)?,
            clock: RevisionClock::load(view)?,
            history_rows: HistoryRows::load(view)?,
            compaction_times: CompactionTimes::load(view)?,
            quota: Quota::load(view)?,
            documents,
            auth: Auth::load(view)?,
            level,
            stored_bytes,
            sweep: compaction::load(view)?,
            revision: meta.revision,
            compacted: meta.compacted,
            hash: meta.hash,
        }))
    }
}

/// Without the meta row there must be nothing at all: the row is part of every batch.
fn check_unwritten(view: &dyn ReadView) -> Result<(), CorruptRow> {
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Meta) {
        scan_all(view, table, |key, _| {
            Err(CorruptRow::new(table, key, "a row in a store without meta row"))
        })?;
    }
    Ok(())
}

fn load_leases(view: &dyn ReadView) -> Result<Leases, CorruptRow> {
    let mut leases = Leases::default();
    scan_all(view, Table::Leases, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Leases, key, what);
        let id = leases::parse_key(key).ok_or_else(|| corrupt("malformed key"))?;
        let lease = Lease::decode(Bytes::copy_from_slice(value)).ok_or_else(|| corrupt("malformed"))?;
        leases.insert(id, lease);
        Ok(())
    })?;
    Ok(leases)
}

/// A claim is there only as long as its key.
fn load_locks(view: &dyn ReadView, index: &Index, newest: Revision) -> Result<Locks, CorruptRow> {
    let mut locks = Locks::default();
    scan_all(view, Table::Claims, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Claims, key, what);
        let claim = LockClaim::decode(Bytes::copy_from_slice(value)).ok_or_else(|| corrupt("malformed"))?;
        index.current(key).ok_or_else(|| corrupt("a claim to a key that does not exist"))?;
        locks.insert_claim(Bytes::copy_from_slice(key), claim);
        Ok(())
    })?;
    scan_all(view, Table::Fences, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Fences, key, what);
        let fence = Fence::decode(Bytes::copy_from_slice(value)).ok_or_else(|| corrupt("malformed"))?;
        if fence.token > newest {
            return Err(corrupt("outside the state's revisions"));
        }
        locks.insert_fence(Bytes::copy_from_slice(key), fence);
        Ok(())
    })?;
    Ok(locks)
}

/// A session without its lease would answer for another of the same id.
fn load_sessions(view: &dyn ReadView, leases: &Leases) -> Result<Sessions, CorruptRow> {
    let mut sessions = Sessions::default();
    scan_all(view, Table::Sessions, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Sessions, key, what);
        let place = sessions::parse_key(key).ok_or_else(|| corrupt("malformed key"))?;
        if leases.get(place.0).is_none() {
            return Err(corrupt("a session of a lease that does not exist"));
        }
        sessions.insert(place, Bytes::copy_from_slice(value)).map_err(corrupt)
    })?;
    Ok(sessions)
}

/// What the index says, and where the log is ahead of it, what the log says. A lease's keys are those whose
/// current version names it.
fn load_current(view: &dyn ReadView, leases: &mut Leases) -> Result<Index, CorruptRow> {
    let unindexed = Unindexed::load(view)?;
    let indexed = unindexed::indexed(view)?;
    let mut index = Index::default();
    let mut take_up = |table, key: &[u8], current: Current| {
        if current.modified <= Revision::EMPTY_STORE || current.version < 1 {
            return Err(CorruptRow::new(table, key, "a version that no change makes"));
        }
        if current.lease != LeaseId::NONE && leases.get(current.lease).is_none() {
            return Err(CorruptRow::new(table, key, "attached to a lease that does not exist"));
        }
        leases.attach(current.lease, key);
        index.put(key, current);
        Ok(())
    };
    scan_all(view, Table::Index, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Index, key, what);
        let current = current_from_row(Bytes::copy_from_slice(value)).ok_or_else(|| corrupt("malformed"))?;
        if current.modified <= Revision::EMPTY_STORE || current.modified > indexed {
            return Err(corrupt("outside the state's revisions"));
        }
        if unindexed.contains(key) { Ok(()) } else { take_up(Table::Index, key, current) }
    })?;
    for (key, current) in unindexed.iter() {
        if let Some(current) = current {
            take_up(Table::Log, key, *current)?;
        }
    }
    Ok(index)
}

/// Rows come by rising revision, so every key's past grows at its end. Tells what they and their versions take.
fn load_history(view: &dyn ReadView, index: &mut Index, meta: &Meta) -> Result<u64, CorruptRow> {
    let mut current_seen = 0;
    let mut stored_bytes = 0;
    let mut last = (Revision::EMPTY_STORE, 0);
    scan_all(view, Table::Log, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Log, key, what);
        let place = parse_log_key(key).ok_or_else(|| corrupt("malformed key"))?;
        let logged =
            LoggedChange::from_row(Bytes::copy_from_slice(value)).ok_or_else(|| corrupt("malformed"))?;
        check_place(last, place, meta).map_err(corrupt)?;
        last = place;
        stored_bytes += change_bytes(&logged);
        let line = LogLine {
            key: &logged.key,
            revision: place.0,
            prev: (logged.prev >= meta.compacted).then_some(logged.prev),
            put: logged.version(place.0),
            compacted: place.0 <= meta.compacted,
        };
        current_seen += usize::from(index.replay(&line).map_err(|misfit| corrupt(misfit.0))?);
        Ok(())
    })?;
    let raised = Rebase::load(view)?;
    if last.0 != meta.revision && !raised.is_some_and(|raised| raised.explains(last.0, meta.revision)) {
        return Err(CorruptRow::new(Table::Meta, META_KEY, "the log ends before the state's revision"));
    }
    if let Some(key) = index.first_unended() {
        return Err(CorruptRow::new(Table::Index, key, "a live key is missing from the index"));
    }
    if current_seen != index.len() {
        return Err(CorruptRow::new(Table::Index, b"", "a key of the index is missing from the log"));
    }
    Ok(stored_bytes)
}

/// Above the compacted revision the log has no gaps.
fn check_place(last: (Revision, u32), place: (Revision, u32), meta: &Meta) -> Result<(), &'static str> {
    if place.0 <= Revision::EMPTY_STORE || place.0 > meta.revision {
        return Err("outside the state's revisions");
    }
    let same_revision = place.0 == last.0 && last.1.checked_add(1) == Some(place.1);
    let follows = same_revision || place == (last.0.next(), 0);
    if follows || place.0 <= meta.compacted.next() {
        Ok(())
    } else {
        Err("the row before this one is missing from the log")
    }
}

fn load_origins(view: &dyn ReadView) -> Result<Origins, CorruptRow> {
    let mut origins = Origins::default();
    scan_all(view, Table::Origins, |key, value| {
        let corrupt = |what| CorruptRow::new(Table::Origins, key, what);
        let member = parse_origin_key(key).ok_or_else(|| corrupt("malformed key"))?;
        let origin = Origin::decode(Bytes::copy_from_slice(value)).ok_or_else(|| corrupt("malformed"))?;
        origins.insert(member, origin);
        Ok(())
    })?;
    Ok(origins)
}

/// Visits a whole table until the visitor finds a fault.
fn scan_all(
    view: &dyn ReadView,
    table: Table,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), CorruptRow>,
) -> Result<(), CorruptRow> {
    let mut outcome = Ok(());
    view.scan(table, Unbounded, Unbounded, &mut |key, value| {
        outcome = visit(key, value);
        outcome.is_ok()
    });
    outcome
}
