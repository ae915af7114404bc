//! What the index keeps of one key: its current version, or when it ended, and its past.
//! A key with a single version costs 48 bytes here and no allocation. Changes come by rising revision and at
//! most once in a revision.

use crate::history::History;
use base::{LeaseId, Revision};

/// A live key's current version, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    pub create: Revision,
    pub modified: Revision,
    /// At least 1.
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

/// A version as far as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub version: Version,
    /// Of a version of the past only its record knows.
    pub content: Option<Content>,
}

/// What a version has beside its revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub lease: LeaseId,
    pub value_len: u32,
}

impl Current {
    pub fn as_version(&self) -> Version {
        Version { create: self.create, modified: self.modified, version: self.version }
    }
}

#[derive(Debug)]
pub struct Entry {
    /// The current version; of a key that was deleted, only `modified` means something and says when, and the
    /// version is zero.
    latest: Current,
    past: Option<Box<History>>,
}

const _: () = assert!(size_of::<Entry>() == 48, "an entry is paid for every key");

/// A line of the log, as the history is read back from it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub key: &'a [u8],
    pub revision: Revision,
    /// What the key must have been put at before; `None` where the log may have been compacted.
    pub prev: Option<Revision>,
    /// The version that was put; `None` for a delete.
    pub put: Option<Version>,
    /// The lines before it may have been removed.
    pub compacted: bool,
}

/// A line of the log does not fit the index or the lines before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit(pub &'static str);

impl Entry {
    /// A key of which nothing is known but that it is not live.
    pub fn unknown() -> Entry {
        Entry { latest: ended(Revision::ZERO), past: None }
    }

    pub fn current(&self) -> Option<&Current> {
        self.is_live().then_some(&self.latest)
    }

    pub fn is_live(&self) -> bool {
        self.latest.version > 0
    }

    /// When the key last changed.
    pub fn changed(&self) -> Revision {
        self.latest.modified
    }

    pub fn at(&self, revision: Revision) -> Option<Version> {
        match self.latest.modified <= revision {
            true => self.current().map(Current::as_version),
            false => self.past.as_ref()?.at(revision),
        }
    }

    /// The same, with what is known of its content.
    pub fn shown(&self, revision: Revision) -> Option<Shown> {
        if self.latest.modified > revision {
            return Some(Shown { version: self.past.as_ref()?.at(revision)?, content: None });
        }
        self.current().map(|current| Shown {
            version: current.as_version(),
            content: Some(Content { lease: current.lease, value_len: current.value_len }),
        })
    }

    pub fn put(&mut self, current: Current) {
        assert!(current.version > 0, "versions count from 1");
        assert!(self.latest.modified < current.modified, "a key changes once in a revision, and forward");
        let replaced = std::mem::replace(&mut self.latest, current);
        if replaced.version > 0 {
            self.push_past(replaced.as_version());
        }
    }

    pub fn delete(&mut self, revision: Revision) {
        assert!(self.is_live() && self.latest.modified < revision, "only a live key is deleted");
        let last = std::mem::replace(&mut self.latest, ended(revision));
        self.push_past(last.as_version()).end(revision);
    }

    /// Forgets the versions that no revision from `floor` on shows. Answers whether nothing is left to know:
    /// a key that ended at the floor itself is still known to have done so.
    pub fn compact(&mut self, floor: Revision) -> bool {
        let is_nothing = |past: &mut Box<History>| !past.compact(floor);
        if self.latest.modified <= floor || self.past.as_mut().is_some_and(is_nothing) {
            self.past = None;
        }
        !self.is_live() && self.latest.modified < floor
    }

    /// The version count that the key had reached before its current life.
    pub fn version_before(&self) -> i64 {
        self.past.as_ref().map_or(0, |past| past.newest().version)
    }

    /// Takes up a line of the log, when the history is read back over the current versions. Answers whether
    /// it is the current version of its key.
    pub fn replay(&mut self, line: &Line<'_>) -> Result<bool, Misfit> {
        let newer = self.is_live() && self.latest.modified < line.revision;
        let newest = self.is_live() && self.latest.modified == line.revision;
        if newer {
            return Err(Misfit("the log is ahead of the index"));
        }
        if line.prev.is_some_and(|prev| prev != self.open_put()) {
            return Err(Misfit("the change before this one is missing from the log"));
        }
        match line.put {
            Some(version) if !self.continues_with(version) => {
                Err(Misfit("a version that does not follow the one before"))
            }
            Some(version) if newest && version != self.latest.as_version() => {
                Err(Misfit("log and index disagree on a version"))
            }
            Some(version) => {
                if !newest {
                    self.push_past(version);
                }
                Ok(newest)
            }
            None if newest => Err(Misfit("a deleted key is in the index")),
            None => self.replay_end(line).map(|()| false),
        }
    }

    /// All versions lie in the past although nothing ended them.
    pub fn is_unended(&self) -> bool {
        let is_open = |past: &History| past.is_open();
        let never_ended = self.latest.modified == Revision::ZERO;
        !self.is_live() && self.past.as_deref().map_or(never_ended, is_open)
    }

    fn replay_end(&mut self, line: &Line<'_>) -> Result<(), Misfit> {
        match self.past.as_mut().filter(|past| past.is_open()) {
            Some(open) => open.end(line.revision),
            None if line.compacted => {}
            None => return Err(Misfit("a delete of a key that was not there")),
        }
        if !self.is_live() {
            self.latest = ended(line.revision);
        }
        Ok(())
    }

    /// A put goes on counting where the last one stopped, or begins a life.
    fn continues_with(&self, next: Version) -> bool {
        match self.open_version() {
            Some(last) => next.create == last.create && last.version.checked_add(1) == Some(next.version),
            None => next.create <= next.modified && next.version > 0,
        }
    }

    fn open_put(&self) -> Revision {
        self.open_version().map_or(Revision::ZERO, |version| version.modified)
    }

    /// The last version in the past, if its life has not ended there.
    fn open_version(&self) -> Option<Version> {
        self.past.as_ref().filter(|past| past.is_open()).map(|past| past.newest())
    }

    fn push_past(&mut self, version: Version) -> &mut History {
        match &mut self.past {
            Some(past) => {
                past.push(version);
                past
            }
            none => none.insert(Box::new(History::new(version))),
        }
    }
}

fn ended(revision: Revision) -> Current {
    Current { create: Revision::ZERO, modified: revision, version: 0, lease: LeaseId::NONE, value_len: 0 }
}
