//! The judge of watches: what each was sent, against what really happened.
//! Records and the true states go in; the first broken promise comes out. The promises are etcd's: filtered,
//! ordered, unique, atomic, reliable, resumable (a resumed watch is a watch like any other), bookmarkable,
//! right about previous versions, and silent about what came before the revision asked for.

use crate::model::{Keys, State};
use crate::oracle::{Checker, Violation};
use crate::truth::Truth;
use crate::watchers::{WatchRecord, WatchSeen, Watchers};
use base::Revision;
use bytes::Bytes;
use coord::reply::KeyValue;
use coord::watch::Event;
use std::collections::{BTreeMap, BTreeSet};

/// What happened to the keys of one revision.
type Changes = BTreeMap<Bytes, TrueChange>;

struct TrueChange {
    /// `None` for a delete.
    now: Option<KeyValue>,
    before: Option<KeyValue>,
}

pub fn check(watchers: &Watchers, truth: &Truth) -> Result<(), Violation> {
    let history = History::of(truth);
    for (number, record) in watchers.records.iter().enumerate() {
        let judged = WatchJudge::new(record, &history).judge();
        judged.map_err(|what| {
            let WatchRecord { wanted, start, .. } = record;
            Violation {
                checker: Checker::Watch,
                what: format!("watch {number} of {wanted:?} from {start}: {what}"),
            }
        })?;
    }
    if !watchers.is_connected() {
        let what = "a watcher finds no member although faults have stopped".to_owned();
        return Err(Violation { checker: Checker::Live, what });
    }
    Ok(())
}

struct History {
    changes: BTreeMap<Revision, Changes>,
    newest: Revision,
    compactions: BTreeSet<Revision>,
}

impl History {
    fn of(truth: &Truth) -> History {
        let newest: &State = truth.state();
        let mut changes = BTreeMap::new();
        let mut state = newest;
        while let Some(before) = state.past() {
            changes.insert(state.revision(), difference(before.keys(), state.keys(), state.revision()));
            state = before;
        }
        History { changes, newest: newest.revision(), compactions: truth.compactions.clone() }
    }
}

fn difference(before: &Keys, now: &Keys, revision: Revision) -> Changes {
    let put = now.values().filter(|kv| kv.mod_revision == revision);
    let put = put.map(|kv| {
        (kv.key.clone(), TrueChange { now: Some(kv.clone()), before: before.get(&kv.key).cloned() })
    });
    let gone = before.values().filter(|kv| !now.contains_key(&kv.key));
    let gone = gone.map(|kv| (kv.key.clone(), TrueChange { now: None, before: Some(kv.clone()) }));
    put.chain(gone).collect()
}

/// Follows one record from its beginning.
struct WatchJudge<'a> {
    record: &'a WatchRecord,
    history: &'a History,
    /// Everything below was seen, or is not wanted.
    next: Revision,
    /// Fragments of a response that is not complete.
    parts: Vec<&'a Event>,
}

type Judged = Result<(), String>;

impl<'a> WatchJudge<'a> {
    fn new(record: &'a WatchRecord, history: &'a History) -> WatchJudge<'a> {
        WatchJudge { record, history, next: record.start, parts: Vec::new() }
    }

    fn judge(mut self) -> Judged {
        for (nth, seen) in self.record.seen.iter().enumerate() {
            if (nth == 0) != matches!(seen, WatchSeen::Created(_)) {
                return Err(format!("created does not come first, and once: {seen:?}"));
            }
            self.see(seen)?;
        }
        if self.record.open { self.nothing_until(self.history.newest.next(), "reliable") } else { Ok(()) }
    }

    fn see(&mut self, seen: &'a WatchSeen) -> Judged {
        match seen {
            WatchSeen::Refused(refusal) => Err(format!("refused: {}", refusal.reason())),
            WatchSeen::Created(header) => {
                if self.record.start == Revision::ZERO {
                    self.next = header.next();
                }
                Ok(())
            }
            WatchSeen::Events { header, batch, fragment } => {
                if batch.last_revision() > *header {
                    return Err(format!("the header's revision {header} is below the events'"));
                }
                if *fragment && !self.record.wanted.fragment {
                    return Err("a fragment was not asked for".into());
                }
                self.parts.extend(batch.events());
                if *fragment { Ok(()) } else { self.take_response() }
            }
            WatchSeen::Progress(revision) => {
                if *revision < self.record.start {
                    return Err(format!("progress at {revision}, before the revision asked for"));
                }
                self.nothing_until(revision.next(), "bookmarkable")?;
                self.next = self.next.max(revision.next());
                Ok(())
            }
            WatchSeen::Canceled(None) => Ok(()),
            WatchSeen::Canceled(Some(compacted)) if self.next < *compacted => Ok(()),
            WatchSeen::Canceled(Some(compacted)) => {
                Err(format!("canceled although {compacted} was not needed"))
            }
        }
    }

    fn take_response(&mut self) -> Judged {
        let events = std::mem::take(&mut self.parts);
        for of_revision in events.chunk_by(|a, b| a.kv.mod_revision == b.kv.mod_revision) {
            self.take_revision(of_revision[0].kv.mod_revision, of_revision)?;
        }
        Ok(())
    }

    fn take_revision(&mut self, revision: Revision, events: &[&Event]) -> Judged {
        if revision < self.next {
            return Err(format!("ordered and unique: revision {revision} comes after {}", self.next.0 - 1));
        }
        self.nothing_until(revision, "reliable")?;
        let expected = self.wanted_at(revision);
        if events.len() != expected.len() {
            let (got, all) = (events.len(), expected.len());
            return Err(format!("atomic: {got} events of revision {revision} came together, not {all}"));
        }
        for event in events {
            let truly = expected.get(&event.kv.key).ok_or_else(|| format!("filter: {:?} came", event.kv))?;
            self.compare(event, truly)?;
        }
        self.next = revision.next();
        Ok(())
    }

    fn compare(&self, event: &Event, truly: &TrueChange) -> Judged {
        let same = match &truly.now {
            Some(kv) => !event.deleted && event.kv == *kv,
            None => event.deleted && event.kv.value.is_empty() && event.kv.version == 0,
        };
        let prev = if self.record.wanted.prev_kv { &truly.before } else { &None };
        // What came before the compacted revision can no longer be read.
        let gone = event.prev.is_none() && self.history.compactions.contains(&event.kv.mod_revision);
        match (same, event.prev == *prev || gone) {
            (false, _) => Err(format!("the event is {event:?}, but {:?} is true", truly.now)),
            (true, false) => Err(format!("prevKV: {:?}, but {prev:?} was there", event.prev)),
            (true, true) => Ok(()),
        }
    }

    /// No wanted event lies between what was seen and this revision.
    fn nothing_until(&self, end: Revision, promise: &str) -> Judged {
        if end <= self.next {
            return Ok(());
        }
        let missed = self
            .history
            .changes
            .range(self.next..end)
            .find(|(revision, _)| !self.wanted_at(**revision).is_empty());
        match missed {
            Some((revision, _)) => Err(format!("{promise}: the events of revision {revision} did not come")),
            None => Ok(()),
        }
    }

    fn wanted_at(&self, revision: Revision) -> BTreeMap<&Bytes, &TrueChange> {
        let wanted = &self.record.wanted;
        let shown = |truly: &TrueChange| match truly.now {
            Some(_) => !wanted.filters.no_put,
            None => !wanted.filters.no_delete,
        };
        let changes = self.history.changes.get(&revision).into_iter().flatten();
        changes.filter(|(key, truly)| wanted.keys.contains(key) && shown(truly)).collect()
    }
}
