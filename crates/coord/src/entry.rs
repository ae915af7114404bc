//! The index entry of one key: its current version, or when it ended, and its past. A key with a single version and
//! without a lease costs 32 bytes here and no allocation. Changes come by rising revision and at most once in a
//! revision.

use crate::key_history::KeyHistory;
use base::limits::REQUEST_BYTES_MAX;
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
pub struct VisibleVersion {
    pub version: Version,
    /// None for a version of the past, whose content only its record has.
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

/// The current version; of a key that was deleted, only `modified` means something and says when, and the version is
/// zero.
#[derive(Debug)]
pub struct IndexEntry {
    create: Revision,
    modified: Revision,
    /// The version, and above it the length of the value.
    packed: u64,
    more: Option<Box<EntryExtra>>,
}

/// What most keys do not have.
#[derive(Debug, Default)]
struct EntryExtra {
    lease: LeaseId,
    /// What of the version does not fit above.
    version_high: u32,
    past: Option<KeyHistory>,
}

impl EntryExtra {
    fn is_empty(&self) -> bool {
        self.lease == LeaseId::NONE && self.version_high == 0 && self.past.is_none()
    }
}

const VERSION_BITS: u32 = 40;

const _: () = assert!(size_of::<IndexEntry>() == 32, "an entry is paid for every key");
const _: () = assert!(REQUEST_BYTES_MAX < 1 << (u64::BITS - VERSION_BITS), "the length of a value fits");

/// A line of the log, as the history is read back from it.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
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
pub struct LogMismatch(pub &'static str);

impl IndexEntry {
    /// The entry of a key that is not live and whose history is unknown.
    pub fn unknown() -> IndexEntry {
        IndexEntry { create: Revision::ZERO, modified: Revision::ZERO, packed: 0, more: None }
    }

    pub fn current(&self) -> Option<Current> {
        self.is_live().then(|| Current {
            create: self.create,
            modified: self.modified,
            version: self.version(),
            lease: self.more.as_ref().map_or(LeaseId::NONE, |more| more.lease),
            value_len: (self.packed >> VERSION_BITS) as u32,
        })
    }

    pub fn is_live(&self) -> bool {
        self.version() > 0
    }

    fn version(&self) -> i64 {
        let high = self.more.as_ref().map_or(0, |more| u64::from(more.version_high));
        (high << VERSION_BITS | self.packed & ((1 << VERSION_BITS) - 1)) as i64
    }

    fn past(&self) -> Option<&KeyHistory> {
        self.more.as_ref()?.past.as_ref()
    }

    fn latest(&self) -> Option<Version> {
        self.is_live().then(|| Version {
            create: self.create,
            modified: self.modified,
            version: self.version(),
        })
    }

    /// Puts a version in the place of what was current.
    fn set(&mut self, current: Current) {
        let version = current.version as u64;
        let version_high = (version >> VERSION_BITS) as u32;
        self.create = current.create;
        self.modified = current.modified;
        self.packed = u64::from(current.value_len) << VERSION_BITS | version & ((1 << VERSION_BITS) - 1);
        if let Some(more) = &mut self.more {
            (more.lease, more.version_high) = (current.lease, version_high);
        } else if current.lease != LeaseId::NONE || version_high != 0 {
            self.more = Some(Box::new(EntryExtra { lease: current.lease, version_high, past: None }));
        }
        self.drop_empty_extra();
    }

    /// Drops an empty extra, which needs no allocation.
    fn drop_empty_extra(&mut self) {
        if self.more.as_deref().is_some_and(EntryExtra::is_empty) {
            self.more = None;
        }
    }

    /// When the key last changed.
    pub fn changed(&self) -> Revision {
        self.modified
    }

    pub fn at(&self, revision: Revision) -> Option<Version> {
        if self.modified <= revision { self.latest() } else { self.past()?.at(revision) }
    }

    /// The visible version, with what the entry knows of its content.
    pub fn shown(&self, revision: Revision) -> Option<VisibleVersion> {
        if self.modified > revision {
            return Some(VisibleVersion { version: self.past()?.at(revision)?, content: None });
        }
        self.current().map(|current| VisibleVersion {
            version: current.as_version(),
            content: Some(Content { lease: current.lease, value_len: current.value_len }),
        })
    }

    pub fn put(&mut self, current: Current) {
        assert!(current.version > 0, "versions count from 1");
        assert!(self.modified < current.modified, "a key changes once in a revision, and forward");
        let replaced = self.latest();
        self.set(current);
        if let Some(replaced) = replaced {
            self.push_past(replaced);
        }
    }

    pub fn delete(&mut self, revision: Revision) {
        let last = self.latest().filter(|last| last.modified < revision).expect("only a live key is deleted");
        self.set(ended(revision));
        self.push_past(last).end(revision);
    }

    /// Forgets the versions that no revision from `floor` on shows. Answers whether nothing is left to know:
    /// a key that ended at the floor itself is still known to have done so.
    pub fn compact(&mut self, floor: Revision) -> bool {
        let hides_all = self.modified <= floor;
        if let Some(more) = &mut self.more {
            let is_empty = |past: &mut KeyHistory| hides_all || !past.compact(floor);
            drop(more.past.take_if(is_empty));
            self.drop_empty_extra();
        }
        !self.is_live() && self.modified < floor
    }

    /// The version count that the key had reached before its current generation.
    pub fn version_before(&self) -> i64 {
        self.past().map_or(0, |past| past.newest().version)
    }

    /// Takes up a line of the log, when the history is read back over the current versions. Answers whether
    /// it is the current version of its key.
    pub fn replay(&mut self, line: &LogLine<'_>) -> Result<bool, LogMismatch> {
        let newer = self.is_live() && self.modified < line.revision;
        let newest = self.is_live() && self.modified == line.revision;
        if newer {
            return Err(LogMismatch("the log is ahead of the index"));
        }
        if line.prev.is_some_and(|prev| prev != self.open_put()) {
            return Err(LogMismatch("the change before this one is missing from the log"));
        }
        match line.put {
            Some(version) if !self.continues_with(version) => {
                Err(LogMismatch("a version that does not follow the one before"))
            }
            Some(version) if newest && Some(version) != self.latest() => {
                Err(LogMismatch("log and index disagree on a version"))
            }
            Some(version) => {
                if !newest {
                    self.push_past(version);
                }
                Ok(newest)
            }
            None if newest => Err(LogMismatch("a deleted key is in the index")),
            None => self.replay_end(line).map(|()| false),
        }
    }

    /// All versions lie in the past although nothing ended them.
    pub fn is_unended(&self) -> bool {
        let never_ended = self.modified == Revision::ZERO;
        !self.is_live() && self.past().map_or(never_ended, KeyHistory::is_open)
    }

    fn replay_end(&mut self, line: &LogLine<'_>) -> Result<(), LogMismatch> {
        let past = self.more.as_mut().and_then(|more| more.past.as_mut());
        match past.filter(|past| past.is_open()) {
            Some(open) => open.end(line.revision),
            None if line.compacted => {}
            None => return Err(LogMismatch("a delete of a key that was not there")),
        }
        if !self.is_live() {
            self.set(ended(line.revision));
        }
        Ok(())
    }

    /// A put continues the version count, or begins a generation.
    fn continues_with(&self, next: Version) -> bool {
        match self.open_version() {
            Some(last) => next.create == last.create && last.version.checked_add(1) == Some(next.version),
            None => next.create <= next.modified && next.version > 0,
        }
    }

    fn open_put(&self) -> Revision {
        self.open_version().map_or(Revision::ZERO, |version| version.modified)
    }

    /// The last version in the past, if its generation has not ended there.
    fn open_version(&self) -> Option<Version> {
        self.past().filter(|past| past.is_open()).map(KeyHistory::newest)
    }

    fn push_past(&mut self, version: Version) -> &mut KeyHistory {
        let more = self.more.get_or_insert_default();
        match &mut more.past {
            Some(past) => {
                past.push(version);
                past
            }
            none => none.insert(KeyHistory::new(version)),
        }
    }
}

fn ended(revision: Revision) -> Current {
    Current { create: Revision::ZERO, modified: revision, version: 0, lease: LeaseId::NONE, value_len: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_beyond_forty_bits_lengths_and_leases_are_kept_apart() {
        let mut entry = IndexEntry::unknown();
        let longest = REQUEST_BYTES_MAX as u32;
        let mut revision = 1;
        for version in [1, 2, (1 << 40) - 1, 1 << 40, (1 << 40) + 7, i64::MAX, 3] {
            for (lease, value_len) in [(LeaseId(-1), longest), (LeaseId::NONE, 0), (LeaseId(9), 1)] {
                revision += 1;
                let (create, modified) = (Revision(1), Revision(revision));
                let current = Current { create, modified, version, lease, value_len };
                entry.put(current);
                assert_eq!(entry.current(), Some(current));
            }
        }
        entry.delete(Revision(revision + 1));
        assert_eq!(entry.current(), None);
        assert!(entry.compact(Revision(revision + 2)));
        assert!(entry.more.is_none(), "nothing is kept of what is nothing");
    }
}
