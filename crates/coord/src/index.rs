//! Every key with its current version, and the revisions of its earlier ones, in memory and in key order.
//! Changes go in by rising revision; which keys are there at a revision comes out. Values are not here: a
//! version is named by (key, revision) and read elsewhere. It is built for millions of keys, and looking up
//! never allocates.

use crate::chunks::{Chunks, Slot};
use crate::entry::{Current, IndexEntry, LogLine, LogMismatch, Version, VisibleVersion};
use base::{KeyRange, RangeEnd, Revision};

#[derive(Debug, Default)]
pub struct Index {
    keys: Chunks,
}

impl Index {
    /// Live keys.
    pub fn len(&self) -> usize {
        self.keys.live()
    }

    pub fn current(&self, key: &[u8]) -> Option<Current> {
        self.keys.get(key)?.entry.current()
    }

    /// The live keys of a range with their current versions.
    pub fn iter(&self, keys: &KeyRange) -> impl Iterator<Item = (&[u8], Current)> {
        self.slots(keys).filter_map(|slot| Some((slot.key.as_ref(), slot.entry.current()?)))
    }

    /// The keys of a range that were live at a revision, with the versions they then had.
    pub fn iter_at(&self, keys: &KeyRange, at: Revision) -> impl Iterator<Item = (&[u8], Version)> {
        self.slots(keys).filter_map(move |slot| Some((slot.key.as_ref(), slot.entry.at(at)?)))
    }

    /// Every key of a range that is known, with the version it had at a revision if it was live then.
    pub fn visible_at(
        &self,
        keys: &KeyRange,
        at: Revision,
    ) -> impl Iterator<Item = (&[u8], Option<VisibleVersion>)> {
        self.slots(keys).map(move |slot| (slot.key.as_ref(), slot.entry.shown(at)))
    }

    /// Live keys of a range.
    pub fn count(&self, keys: &KeyRange) -> usize {
        let live = |slot: &&Slot| slot.entry.is_live();
        let slices = self.keys.slices(keys);
        slices
            .map(|slice| match slice.whole {
                Some(whole) => whole.live,
                None => slice.slots.iter().filter(live).count(),
            })
            .sum()
    }

    /// Keys of a range that were live at a revision. Where nothing changed since, they are those of today.
    pub fn count_at(&self, keys: &KeyRange, at: Revision) -> usize {
        let live = |slot: &&Slot| slot.entry.at(at).is_some();
        let slices = self.keys.slices(keys);
        slices
            .map(|slice| match slice.whole {
                Some(whole) if whole.changed <= at => whole.live,
                _ => slice.slots.iter().filter(live).count(),
            })
            .sum()
    }

    pub fn put(&mut self, key: &[u8], current: Current) {
        self.keys.edit(key, IndexEntry::unknown, |entry| entry.put(current));
    }

    pub fn delete(&mut self, key: &[u8], revision: Revision) {
        self.keys.edit(key, IndexEntry::unknown, |entry| entry.delete(revision));
    }

    /// Forgets the versions of a key that no revision from `floor` on shows, and the key if none is left. Answers when the
    /// version that the floor shows was put, if it shows one.
    pub fn compact(&mut self, key: &[u8], floor: Revision) -> Option<Revision> {
        let shown = self.keys.get(key)?.entry.at(floor).map(|version| version.modified);
        if self.keys.edit(key, IndexEntry::unknown, |entry| entry.compact(floor)) {
            self.keys.remove(key);
        }
        shown
    }

    /// The version count that a deleted key had reached.
    pub fn version_before_end(&self, key: &[u8]) -> i64 {
        self.keys.get(key).map_or(0, |slot| slot.entry.version_before())
    }

    /// Takes up a line of the log, when the history is read back over the current versions. Answers whether
    /// it is the current version of its key.
    pub fn replay(&mut self, line: &LogLine<'_>) -> Result<bool, LogMismatch> {
        self.keys.edit(line.key, IndexEntry::unknown, |entry| entry.replay(line))
    }

    /// A key whose versions all lie in the past although nothing ended them, when all is read back.
    pub fn first_unended(&self) -> Option<&[u8]> {
        let everything = KeyRange { start: Default::default(), end: RangeEnd::Open };
        let found = self.slots(&everything).find(|slot| slot.entry.is_unended());
        found.map(|slot| slot.key.as_ref())
    }

    /// One key is looked up, more are walked.
    fn slots(&self, keys: &KeyRange) -> impl Iterator<Item = &Slot> {
        let (one, many) = match keys.end {
            RangeEnd::Single => (self.keys.get(&keys.start), None),
            _ => (None, Some(self.keys.slices(keys))),
        };
        one.into_iter().chain(many.into_iter().flatten().flat_map(|slice| slice.slots))
    }
}
