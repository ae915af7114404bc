//! The past of one key: its generations, each from a put to a delete, with the revisions at which it changed.
//! Versions go in by rising revision; the version that was current at a revision comes out. The versions of a
//! generation count up by one, so one number and a list of revisions describe them.

use crate::entry::Version;
use base::Revision;

/// Most keys that were ever changed have one generation and few versions, so these lie in the history itself: it
/// costs one allocation, and 88 bytes.
#[derive(Debug)]
pub struct KeyHistory {
    earlier: Vec<Generation>,
    last: Generation,
}

#[derive(Debug)]
struct Generation {
    create: Revision,
    /// The version number of the first revision in the list.
    first_version: i64,
    puts: PutRevisions,
    /// When the key was deleted; zero while it lives.
    end: Revision,
}

/// The revisions at which the key was put in one generation, at least one. The current version of a key is not among
/// them.
#[derive(Debug)]
struct PutRevisions {
    first: Revision,
    later: Vec<Revision>,
}

const _: () = assert!(size_of::<KeyHistory>() <= 88, "a history is paid for every key that was changed");

impl KeyHistory {
    pub fn new(version: Version) -> KeyHistory {
        KeyHistory { earlier: Vec::new(), last: Generation::new(version) }
    }

    pub fn push(&mut self, version: Version) {
        let last = &mut self.last;
        if last.is_open() && last.create == version.create {
            last.puts.later.push(version.modified)
        } else {
            let ended = std::mem::replace(last, Generation::new(version));
            self.earlier.push(ended);
        }
    }

    pub fn end(&mut self, revision: Revision) {
        self.last.end = revision;
    }

    /// Forgets what no revision from `floor` on shows. False if nothing is left.
    pub fn compact(&mut self, floor: Revision) -> bool {
        self.earlier.retain(|life| life.end > floor);
        if self.earlier.is_empty() {
            self.earlier = Vec::new();
        }
        match self.earlier.first_mut() {
            Some(first) => first.compact(floor),
            None if self.last.is_open() || self.last.end > floor => self.last.compact(floor),
            None => return false,
        }
        true
    }

    /// The last generation has not ended.
    pub fn is_open(&self) -> bool {
        self.last.is_open()
    }

    /// The newest version in the past.
    pub fn newest(&self) -> Version {
        self.last.version(self.last.puts.len() - 1)
    }

    pub fn at(&self, revision: Revision) -> Option<Version> {
        let life = if self.last.puts.first <= revision {
            &self.last
        } else {
            let begun = self.earlier.partition_point(|life| life.puts.first <= revision);
            &self.earlier[begun.checked_sub(1)?]
        };
        if !life.is_open() && life.end <= revision {
            return None;
        }
        Some(life.version(life.puts.upto(revision) - 1))
    }
}

impl Generation {
    fn new(version: Version) -> Generation {
        let puts = PutRevisions { first: version.modified, later: Vec::new() };
        Generation { create: version.create, first_version: version.version, puts, end: Revision::ZERO }
    }

    fn is_open(&self) -> bool {
        self.end == Revision::ZERO
    }

    fn compact(&mut self, floor: Revision) {
        let hidden = self.puts.upto(floor).saturating_sub(1);
        self.puts.forget(hidden);
        self.first_version += hidden as i64;
    }

    fn version(&self, nth: usize) -> Version {
        Version {
            create: self.create,
            modified: self.puts.get(nth),
            version: self.first_version + nth as i64,
        }
    }
}

impl PutRevisions {
    fn len(&self) -> usize {
        1 + self.later.len()
    }

    fn get(&self, nth: usize) -> Revision {
        nth.checked_sub(1).map_or(self.first, |nth| self.later[nth])
    }

    /// How many are not above a revision.
    fn upto(&self, revision: Revision) -> usize {
        if self.first <= revision { 1 + self.later.partition_point(|put| *put <= revision) } else { 0 }
    }

    /// Forgets the oldest `count` versions, and never all of them.
    fn forget(&mut self, count: usize) {
        if count > 0 {
            self.first = self.get(count);
            self.later.drain(..count);
            self.later.shrink_to(2 * self.later.len());
        }
    }
}
