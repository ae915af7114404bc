//! Compaction: the floor that hides the past at once, and the sweep that removes it from memory and store. The
//! command only moves the floor below which nothing is read; it takes no time however much lies there. The sweep
//! follows line by line through the log of changes from the old floor to the new one, a bounded piece with each
//! flush. The index says which lines the new floor still shows; the others go as they are met, neighbours together,
//! which is what the store takes cheaply. What an earlier sweep left goes with the line that replaced it. The place
//! is part of the flush, so a crash loses none of it and repeats none of it. Of each key the newest version at or
//! below the floor stays, if the key was there, and so does every change at the floor itself.

use crate::command::Compact;
use crate::draft::{Draft, Effect};
use crate::history_rows::HistoryWindow;
use crate::mutant::Mutant;
use crate::reply::Body;
use crate::rows::{
    CorruptRow, Emit, FORMAT, LoggedChange, Meta, change_bytes, formatted, log_key, parse_log_key,
    version_key,
};
use crate::state::{ChangePosition, State};
use base::codec::{put_signed, put_varint};
use base::mutant::planted;
use base::{Code, ReadView, Revision, Table};
use bytes::Bytes;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The row in `Table::Meta` that says where the sweep goes on; there is none when it is done.
pub(crate) const SWEEP_KEY: &[u8] = b"sweep";

/// How far a sweep is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    /// The next line to look at.
    next: ChangePosition,
    /// From here on every line is judged by itself under the present floor. Lines before it were judged under an earlier
    /// one, and go when what replaced them is met.
    since: ChangePosition,
}

impl Sweep {
    /// Resumes at a position, as after a start.
    fn at(next: ChangePosition) -> Sweep {
        Sweep { next, since: next }
    }

    /// What a floor that rises from `old` makes of a sweep that is still under way. The lines at the old floor are looked
    /// at once more: deletes were kept there.
    pub fn rise(old: Revision, under_way: Option<Sweep>) -> Sweep {
        let from = (old, 0);
        Sweep::at(under_way.map_or(from, |sweep| sweep.next.min(from)))
    }
}

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
pub(crate) fn load(view: &dyn ReadView) -> Result<Option<Sweep>, CorruptRow> {
    let Some(row) = view.get(Table::Meta, SWEEP_KEY) else { return Ok(None) };
    decode(row)
        .ok_or_else(|| CorruptRow::new(Table::Meta, SWEEP_KEY, "malformed"))
        .map(|next| Some(Sweep::at(next)))
}

/// The row that says where the sweep goes on.
pub(crate) fn sweep_row((revision, sub): ChangePosition, emit: &mut Emit<'_>) {
    let mut value = vec![FORMAT];
    put_signed(&mut value, revision.0);
    put_varint(&mut value, u64::from(sub));
    emit(Table::Meta, SWEEP_KEY, Some(&value));
}

fn decode(row: Bytes) -> Option<ChangePosition> {
    let mut reader = formatted(row)?;
    let place = (Revision(reader.signed()?), u32::try_from(reader.varint()?).ok()?);
    reader.is_empty().then_some(place)
}

impl State {
    /// Something that was compacted has not been removed yet.
    pub fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// How many revisions a sweep is behind the floor.
    pub fn sweep_behind(&self) -> u64 {
        let next = self.sweep.map_or(self.compacted, |sweep| sweep.next.0);
        self.compacted.0.saturating_sub(next.0).max(0) as u64
    }

    /// The rows that this flush has beside those of changes and `state_rows`: leases, sessions, locks, and what else
    /// has changed; and where the sweep is.
    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        self.leases.take_rows(emit);
        self.sessions.take_rows(emit);
        self.locks.take_rows(emit);
        self.alarms.take_rows(emit);
        self.clock.take_rows(emit);
        self.history_rows.take_rows(emit);
        self.compaction_times.take_rows(emit);
        self.quota.take_rows(emit);
        self.documents.take_rows(emit);
        self.auth.take_rows(emit);
        if let Some(sweep) = self.sweep {
            sweep_row(sweep.next, emit);
        }
    }

    /// Looks at the next lines of the flushed log, `lines_max` at most, and removes those that the floor hides,
    /// with their versions. With a window something is left of them.
    pub fn sweep(
        &mut self,
        view: &dyn ReadView,
        window: HistoryWindow,
        lines_max: usize,
        emit: &mut Emit<'_>,
    ) -> Result<(), CorruptRow> {
        let Some(sweep) = self.sweep else { return Ok(()) };
        let lines = self.lines_from(view, sweep.next, lines_max)?;
        for (place, line) in &lines {
            self.drop_replaced(view, window, sweep.since, line, emit)?;
            let shown = self.index.compact(&line.key, self.compacted);
            if !self.is_kept(*place, line, shown) {
                self.drop_line(window, *place, line, emit);
            }
        }
        if let Some(((revision, sub), _)) = lines.last() {
            self.sweep = Some(Sweep { next: (*revision, sub + 1), ..sweep });
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
        view: &dyn ReadView,
        from: ChangePosition,
        lines_max: usize,
    ) -> Result<Vec<(ChangePosition, LoggedChange)>, CorruptRow> {
        let mut start = Vec::new();
        log_key(from.0, from.1, &mut start);
        let mut lines = Vec::new();
        let mut outcome = Ok(());
        view.scan(Table::Log, Included(&start), Unbounded, &mut |key, value| {
            let place = parse_log_key(key);
            let logged = LoggedChange::from_row(Bytes::copy_from_slice(value));
            let Some((place, logged)) = place.zip(logged) else {
                outcome = Err(CorruptRow::new(Table::Log, key, "malformed"));
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

    /// A version stays if the floor shows it, a delete if it lies at the floor: a watch from there must get it.
    fn is_kept(&self, place: ChangePosition, line: &LoggedChange, shown: Option<Revision>) -> bool {
        match line.put {
            Some(_) if planted(Mutant::CompactionDropsLive) => place.0 >= self.compacted,
            Some(_) => shown == Some(place.0),
            None => place.0 >= self.compacted && !planted(Mutant::TombstoneDropped),
        }
    }

    /// What an earlier sweep left, and this change replaced. Later lines are judged by themselves, and must not be taken
    /// twice: the view still shows what this flush removes.
    fn drop_replaced(
        &mut self,
        view: &dyn ReadView,
        window: HistoryWindow,
        since: ChangePosition,
        line: &LoggedChange,
        emit: &mut Emit<'_>,
    ) -> Result<(), CorruptRow> {
        let is_old = line.prev > Revision::ZERO && line.prev <= since.0;
        if is_old
            && !planted(Mutant::SweptOnceOnly)
            && let Some((place, replaced)) = find_line(view, line.prev, &line.key)?
            && place < since
        {
            self.drop_line(window, place, &replaced, emit);
        }
        Ok(())
    }

    fn drop_line(
        &mut self,
        window: HistoryWindow,
        (revision, sub): ChangePosition,
        line: &LoggedChange,
        emit: &mut Emit<'_>,
    ) {
        if !window.is_none() {
            self.history_rows.keep((revision, sub), line, emit);
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

/// The line of a key at a revision, if it has not been removed yet. Mostly it is the only one there.
fn find_line(
    view: &dyn ReadView,
    revision: Revision,
    key: &[u8],
) -> Result<Option<(ChangePosition, LoggedChange)>, CorruptRow> {
    let (mut start, mut end) = (Vec::new(), Vec::new());
    log_key(revision, 0, &mut start);
    if let Some(row) = view.get(Table::Log, &start) {
        let line = LoggedChange::from_row(row).ok_or_else(|| CorruptRow::malformed(Table::Log, &start))?;
        if line.key == key {
            return Ok(Some(((revision, 0), line)));
        }
    }
    log_key(revision.next(), 0, &mut end);
    let mut outcome = Ok(None);
    view.scan(Table::Log, Included(&start), Excluded(&end), &mut |row, value| {
        let parsed = parse_log_key(row).zip(LoggedChange::from_row(Bytes::copy_from_slice(value)));
        match parsed {
            None => outcome = Err(CorruptRow::malformed(Table::Log, row)),
            Some((place, logged)) if logged.key == key => outcome = Ok(Some((place, logged))),
            Some(_) => return true,
        }
        false
    });
    outcome
}
