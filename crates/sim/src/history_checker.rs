//! The judge of the history: in the end every member knows of every change of every key, compacted or not, and keeps no
//! more of it with its value than the floor shows.
//! The members' stores and the true states go in; the first change that is missing, invented, of the wrong kind or kept too
//! long comes out. In these worlds the window holds everything that ever happens.

use crate::oracle::{Checker, Violation};
use crate::truth::Truth;
use crate::world::{Checked, World};
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use coord::rows::{LoggedChange, Meta, parse_log_key};
use coord::{CorruptRow, history_of};
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;

/// Revisions, and whether the key was put.
type Changes = Vec<(Revision, bool)>;

impl World {
    pub fn check_history(&self) -> Checked {
        let truly = changes_of(&self.truth);
        for host in self.member_hosts() {
            let Some(process) = &self.hosts[host].process else { continue };
            let view = process.member.member_store.view();
            let swept = !process.member.apply.is_sweeping();
            let judged = compare(view, &truly).and_then(|()| if swept { kept_once(view) } else { Ok(()) });
            judged.map_err(|what| {
                let what = format!("{}: {what}", self.hosts[host].id);
                Violation { checker: Checker::History, what }
            })?;
        }
        Ok(())
    }
}

fn changes_of(truth: &Truth) -> BTreeMap<Bytes, Changes> {
    let mut changes: BTreeMap<Bytes, Changes> = BTreeMap::new();
    let mut state = truth.state();
    while let Some(before) = state.past() {
        let revision = state.revision();
        let put = state.keys().values().filter(|kv| kv.mod_revision == revision).map(|kv| (&kv.key, true));
        let gone =
            before.keys().keys().filter(|key| !state.keys().contains_key(*key)).map(|key| (key, false));
        for (key, is_put) in put.chain(gone) {
            changes.entry(key.clone()).or_default().push((revision, is_put));
        }
        state = before;
    }
    changes.values_mut().for_each(|changes| changes.reverse());
    changes
}

/// What is not flushed yet is not asked for.
fn compare(view: &dyn ReadView, truly: &BTreeMap<Bytes, Changes>) -> Result<(), String> {
    let damaged = |corrupt: CorruptRow| corrupt.to_string();
    let flushed = Meta::read(view).map_err(damaged)?.map_or(Revision::ZERO, |meta| meta.revision);
    for (key, changes) in truly {
        let (known, _) = history_of(view, key, usize::MAX).map_err(damaged)?;
        let known = known.iter().map(|past| (past.revision, past.put.is_some()));
        let expected = changes.iter().copied().filter(|(revision, _)| *revision <= flushed);
        if !known.clone().eq(expected.clone()) {
            let missing: Vec<_> = expected.filter(|change| !known.clone().any(|it| it == *change)).collect();
            return Err(format!("the history of {key:?} is not what happened; missing: {missing:?}"));
        }
    }
    Ok(())
}

/// Of each key one line at or below the floor: the version that the floor shows, or the delete that lies at it. A sweep
/// that the store does not show yet is not judged.
fn kept_once(view: &dyn ReadView) -> Result<(), String> {
    let damaged = |corrupt: CorruptRow| corrupt.to_string();
    let floor = Meta::read(view).map_err(damaged)?.map_or(Revision::ZERO, |meta| meta.compacted);
    if view.get(Table::Meta, b"sweep").is_some() {
        return Ok(());
    }
    let mut kept: BTreeMap<Bytes, Revision> = BTreeMap::new();
    let mut outcome = Ok(());
    view.scan(Table::Log, Unbounded, Unbounded, &mut |row, value| {
        let parsed = parse_log_key(row).zip(LoggedChange::from_row(Bytes::copy_from_slice(value)));
        let Some(((revision, _), line)) = parsed.filter(|((revision, _), _)| *revision <= floor) else {
            return false;
        };
        let key = line.key.clone();
        if let Some(earlier) = kept.insert(line.key, revision) {
            outcome = Err(format!("{key:?} is kept at {earlier} and at {revision}, both below {floor}"));
        }
        outcome.is_ok()
    });
    outcome
}
