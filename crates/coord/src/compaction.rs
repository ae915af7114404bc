//! Forgetting the past: what a compaction hides at once, and the sweep that removes it from memory and store.
//! The command only moves the floor below which nothing is read; it takes no time however much lies there. The
//! sweep follows line by line through the log of changes from the old floor to the new one, a bounded piece with each
//! flush: every change takes what it replaced with it. Its place is part of the flush, so a crash loses none of it and
//! repeats none of it. Of each key the newest version at or below the floor stays, if the key was there, and so does
//! every change at the floor itself.

use crate::command::Compact;
use crate::draft::{Draft, Effect};
use crate::reply::Body;
use crate::rows::{
    Corrupt, Emit, FORMAT, Logged, Meta, change_bytes, formatted, log_key, parse_log_key, version_key,
};
use crate::skeletons::Window;
use crate::state::{Place, State};
use base::codec::{put_signed, put_varint};
use base::mutant::{Mutant, planted};
use base::{Code, Revision, Table, View};
use bytes::Bytes;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The row in `Table::Meta` that says where the sweep goes on; there is none when it is done.
pub(crate) const SWEEP_KEY: &[u8] = b"sweep";

pub fn run(draft: &mut Draft<'_>, compact: Compact) -> Result<Body, Code> {
    let revisions = draft.revisions();
    match compact.revision {
        revision if revision <= revisions.compacted => Err(Code::Compacted),
        revision if revision > revisions.current => Err(Code::FutureRevision),
        revision => {
            draft.add_effect(Effect::Compact(revision));
            Ok(Body::Compacted)
        }
    }
}

/// Where a sweep was when the store was written.
pub fn load(view: &dyn View) -> Result<Option<Place>, Corrupt> {
    let Some(row) = view.get(Table::Meta, SWEEP_KEY) else { return Ok(None) };
    decode(row).ok_or_else(|| Corrupt::new(Table::Meta, SWEEP_KEY, "malformed")).map(Some)
}

/// The row that says where the sweep goes on.
pub(crate) fn sweep_row((revision, sub): Place, emit: &mut Emit<'_>) {
    let mut value = vec![FORMAT];
    put_signed(&mut value, revision.0);
    put_varint(&mut value, u64::from(sub));
    emit(Table::Meta, SWEEP_KEY, Some(&value));
}

fn decode(row: Bytes) -> Option<Place> {
    let mut reader = formatted(row)?;
    let place = (Revision(reader.signed()?), u32::try_from(reader.varint()?).ok()?);
    reader.is_empty().then_some(place)
}

impl State {
    /// Something that was compacted has not been removed yet.
    pub fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// The rows that this flush has beside those of changes and `state_rows`: leases, sessions, locks, and what else
    /// has changed; and where the sweep is.
    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        self.leases.take_rows(emit);
        self.sessions.take_rows(emit);
        self.locks.take_rows(emit);
        self.alarms.take_rows(emit);
        self.clock.take_rows(emit);
        self.skeletons.take_rows(emit);
        self.quota.take_rows(emit);
        self.documents.take_rows(emit);
        self.auth.take_rows(emit);
        if let Some(place) = self.sweep {
            sweep_row(place, emit);
        }
    }

    /// Looks at the next lines of the flushed log, `lines_max` at most, and removes those that the floor hides,
    /// with their versions. With a window something is left of them.
    pub fn sweep(
        &mut self,
        view: &dyn View,
        window: Window,
        lines_max: usize,
        emit: &mut Emit<'_>,
    ) -> Result<(), Corrupt> {
        let Some(from) = self.sweep else { return Ok(()) };
        let lines = self.lines_from(view, from, lines_max)?;
        for (place, line) in &lines {
            self.sweep_line(view, window, *place, line, emit)?;
        }
        if let Some(((revision, sub), _)) = lines.last() {
            self.sweep = Some((*revision, sub + 1));
        }
        let flushed = Meta::read(view)?.map_or(Revision::ZERO, |meta| meta.revision);
        if lines.len() < lines_max && flushed >= self.compacted {
            self.sweep = None;
            emit(Table::Meta, SWEEP_KEY, None);
        }
        Ok(())
    }

    fn lines_from(
        &self,
        view: &dyn View,
        from: Place,
        lines_max: usize,
    ) -> Result<Vec<(Place, Logged)>, Corrupt> {
        let mut start = Vec::new();
        log_key(from.0, from.1, &mut start);
        let mut lines = Vec::new();
        let mut outcome = Ok(());
        view.scan(Table::Log, Included(&start), Unbounded, &mut |key, value| {
            let place = parse_log_key(key);
            let logged = Logged::from_row(Bytes::copy_from_slice(value));
            let Some((place, logged)) = place.zip(logged) else {
                outcome = Err(Corrupt::new(Table::Log, key, "malformed"));
                return false;
            };
            let inside = place.0 <= self.compacted && lines.len() < lines_max;
            if inside {
                lines.push((place, logged));
            }
            inside
        });
        outcome.map(|()| lines)
    }

    /// What a change at or below the floor replaced is shown no more; a delete that lies below it is not needed itself.
    fn sweep_line(
        &mut self,
        view: &dyn View,
        window: Window,
        place: Place,
        line: &Logged,
        emit: &mut Emit<'_>,
    ) -> Result<(), Corrupt> {
        if line.prev > Revision::ZERO
            && let Some((replaced_at, replaced)) = find_line(view, line.prev, &line.key)?
        {
            self.drop_line(window, replaced_at, &replaced, emit);
        }
        let below = place.0 < self.compacted;
        let needless = match line.put {
            Some(_) => below && planted(Mutant::CompactionDropsLive),
            None => below || planted(Mutant::TombstoneDropped),
        };
        if needless {
            self.drop_line(window, place, line, emit);
        }
        self.index.compact(&line.key, self.compacted);
        Ok(())
    }

    fn drop_line(&mut self, window: Window, (revision, sub): Place, line: &Logged, emit: &mut Emit<'_>) {
        if !window.is_none() {
            self.skeletons.keep((revision, sub), line, emit);
        }
        let mut key = Vec::new();
        log_key(revision, sub, &mut key);
        emit(Table::Log, &key, None);
        self.stored_bytes -= change_bytes(line);
        if line.put.is_some() {
            key.clear();
            version_key(&line.key, revision, &mut key);
            emit(Table::Versions, &key, None);
        }
    }
}

/// Where a floor that rises from `old` goes on, if the sweep of an earlier rise is still under way. The lines at the
/// old floor are looked at once more: deletes were kept there.
pub(crate) fn sweep_from(old: Revision, under_way: Option<Place>) -> Place {
    let from = (old, 0);
    under_way.map_or(from, |place| place.min(from))
}

/// The line of a key at a revision, if it has not been removed yet. Mostly it is the only one there.
fn find_line(view: &dyn View, revision: Revision, key: &[u8]) -> Result<Option<(Place, Logged)>, Corrupt> {
    let (mut start, mut end) = (Vec::new(), Vec::new());
    log_key(revision, 0, &mut start);
    if let Some(row) = view.get(Table::Log, &start) {
        let line = Logged::from_row(row).ok_or_else(|| Corrupt::malformed(Table::Log, &start))?;
        if line.key == key {
            return Ok(Some(((revision, 0), line)));
        }
    }
    log_key(revision.next(), 0, &mut end);
    let mut outcome = Ok(None);
    view.scan(Table::Log, Included(&start), Excluded(&end), &mut |row, value| {
        let parsed = parse_log_key(row).zip(Logged::from_row(Bytes::copy_from_slice(value)));
        match parsed {
            None => outcome = Err(Corrupt::malformed(Table::Log, row)),
            Some((place, logged)) if logged.key == key => outcome = Ok(Some((place, logged))),
            Some(_) => return true,
        }
        false
    });
    outcome
}
