//! Every key with its current version, and the revisions of its earlier ones, in memory and in key order.
//! Changes go in by rising revision; who is where at a revision comes out. Values are not here: a version is
//! named by (key, revision) and read elsewhere. It is built for millions of keys: one boxed key and 48 bytes
//! each, nothing more until a key has a past, and looking up never allocates.

use crate::history::History;
use base::{KeyRange, LeaseId, RangeEnd, Revision};
use std::collections::BTreeMap;

/// A live key's current version, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    pub create: Revision,
    pub modified: Revision,
    /// Zero only inside this file and for an ended key.
    pub version: i64,
    pub lease: LeaseId,
    pub value_len: u32,
}

/// What is kept of any version, current or past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub create: Revision,
    pub modified: Revision,
    pub version: i64,
}

impl Current {
    /// The mark of a key that was deleted at this revision.
    fn ended(revision: Revision) -> Current {
        Current { create: Revision::ZERO, modified: revision, version: 0, lease: LeaseId::NONE, value_len: 0 }
    }

    fn is_live(&self) -> bool {
        self.version > 0
    }

    pub fn as_version(&self) -> Version {
        Version { create: self.create, modified: self.modified, version: self.version }
    }
}

#[derive(Debug, Default)]
pub struct Index {
    keys: BTreeMap<Box<[u8]>, Entry>,
    live: usize,
}

#[derive(Debug)]
struct Entry {
    latest: Current,
    past: Option<Box<History>>,
}

const _: () = assert!(size_of::<Entry>() == 48, "an entry is paid for every key");

/// A row of the log does not fit what the index says; the name says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit(pub &'static str);

impl Index {
    /// Live keys.
    pub fn len(&self) -> usize {
        self.live
    }

    pub fn current(&self, key: &[u8]) -> Option<&Current> {
        self.keys.get(key).map(|entry| &entry.latest).filter(|latest| latest.is_live())
    }

    /// The live keys of a range with their current versions.
    pub fn iter(&self, keys: &KeyRange) -> impl Iterator<Item = (&[u8], &Current)> {
        self.entries(keys)
            .filter(|(_, entry)| entry.latest.is_live())
            .map(|(key, entry)| (key, &entry.latest))
    }

    /// The keys of a range that were live at a revision, with the versions they then had.
    pub fn iter_at(&self, keys: &KeyRange, at: Revision) -> impl Iterator<Item = (&[u8], Version)> {
        self.entries(keys).filter_map(move |(key, entry)| Some((key, entry.at(at)?)))
    }

    /// Live keys of a range. Everything is counted already; the rest is a walk over the index alone.
    pub fn count(&self, keys: &KeyRange) -> usize {
        let starts_before_all =
            || self.keys.first_key_value().is_none_or(|(first, _)| keys.start.as_ref() <= first.as_ref());
        match keys.end {
            RangeEnd::Open if starts_before_all() => self.live,
            _ => self.iter(keys).count(),
        }
    }

    pub fn put(&mut self, key: &[u8], current: Current) {
        debug_assert!(current.is_live());
        let Some(entry) = self.keys.get_mut(key) else {
            return self.insert(key, current);
        };
        assert!(entry.latest.modified < current.modified, "a key changes once in a revision, and forward");
        let replaced = std::mem::replace(&mut entry.latest, current);
        match replaced.is_live() {
            true => entry.past_mut().push(replaced.as_version()),
            false => self.live += 1,
        }
    }

    pub fn delete(&mut self, key: &[u8], revision: Revision) {
        let entry = self.keys.get_mut(key).expect("only a live key is deleted");
        assert!(entry.latest.is_live() && entry.latest.modified < revision, "only a live key is deleted");
        let last = std::mem::replace(&mut entry.latest, Current::ended(revision));
        let past = entry.past_mut();
        past.push(last.as_version());
        past.end(revision);
        self.live -= 1;
    }

    /// The version count that a deleted key had reached.
    pub fn version_before_end(&self, key: &[u8]) -> i64 {
        let past = self.keys.get(key).and_then(|entry| entry.past.as_ref());
        past.and_then(|past| past.last()).map_or(0, |version| version.version)
    }

    /// A key without a past, when the index is read back.
    pub fn insert(&mut self, key: &[u8], current: Current) {
        self.live += 1;
        self.keys.insert(key.into(), Entry { latest: current, past: None });
    }

    /// A put of the log, when the history is read back over the current versions. Answers whether it is the
    /// current version of its key.
    pub fn replay_put(&mut self, key: &[u8], version: Version) -> Result<bool, Misfit> {
        let entry = self.entry_or_ended(key);
        let latest = entry.latest;
        if latest.is_live() && latest.modified < version.modified {
            return Err(Misfit("the log is ahead of the index"));
        }
        if latest.is_live() && latest.modified == version.modified {
            return match latest.as_version() == version {
                true => Ok(true),
                false => Err(Misfit("log and index disagree on a version")),
            };
        }
        entry.past_mut().push(version);
        Ok(false)
    }

    /// A delete of the log, when the history is read back.
    pub fn replay_delete(&mut self, key: &[u8], revision: Revision) -> Result<(), Misfit> {
        let entry = self.entry_or_ended(key);
        if entry.latest.is_live() && entry.latest.modified < revision {
            return Err(Misfit("a deleted key is in the index"));
        }
        if entry.past.as_ref().is_none_or(|past| !past.is_open()) {
            return Err(Misfit("a delete of a key that was not there"));
        }
        entry.past_mut().end(revision);
        if !entry.latest.is_live() {
            entry.latest = Current::ended(revision);
        }
        Ok(())
    }

    /// A key whose versions all lie in the past although nothing deleted it.
    pub fn first_unended(&self) -> Option<&[u8]> {
        let unended =
            |entry: &Entry| !entry.latest.is_live() && entry.past.as_ref().is_none_or(|past| past.is_open());
        self.keys.iter().find(|(_, entry)| unended(entry)).map(|(key, _)| key.as_ref())
    }

    fn entry_or_ended(&mut self, key: &[u8]) -> &mut Entry {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), Entry { latest: Current::ended(Revision::ZERO), past: None });
        }
        self.keys.get_mut(key).expect("it was inserted if it was missing")
    }

    fn entries(&self, keys: &KeyRange) -> impl Iterator<Item = (&[u8], &Entry)> {
        let inside = (!keys.is_empty()).then(|| self.keys.range::<[u8], _>(keys.bounds()));
        inside.into_iter().flatten().map(|(key, entry)| (key.as_ref(), entry))
    }
}

impl Entry {
    fn at(&self, revision: Revision) -> Option<Version> {
        match self.latest.modified <= revision {
            true => self.latest.is_live().then(|| self.latest.as_version()),
            false => self.past.as_ref()?.at(revision),
        }
    }

    fn past_mut(&mut self) -> &mut History {
        self.past.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests;
