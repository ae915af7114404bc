//! The state as one command sees it: what was there before, under the command's own writes.
//! Reads and writes of the command go through it; a list of changes comes out. Nothing reaches the state
//! until the whole command has succeeded, so dropping a draft undoes everything.

use crate::alarms::{Alarm, Alarms};
use crate::change::{Change, ChangeKind, Record, Records};
use crate::entry::{Current, Version};
use crate::index::Index;
use crate::leases::Leases;
use crate::locks::{Fence, LockClaim, Locks};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Code, FormatLevel, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::iter::Peekable;

pub struct Draft<'a> {
    index: &'a Index,
    leases: &'a Leases,
    alarms: &'a Alarms,
    locks: &'a Locks,
    records: &'a dyn Records,
    level: FormatLevel,
    /// Before the command.
    revision: Revision,
    compacted: Revision,
    changes: Vec<Change>,
    /// Which change is a key's.
    changed: BTreeMap<Bytes, usize>,
    effects: Vec<Effect>,
}

/// What a command does beside changing keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Grant {
        id: LeaseId,
        ttl: i64,
    },
    /// The lease's keys are deleted by changes.
    Revoke(LeaseId),
    Checkpoint {
        id: LeaseId,
        remaining: i64,
    },
    Compact(Revision),
    /// The revision before the command was the newest at this time.
    TimeMark {
        millis: i64,
    },
    /// `None` removes the quota that was set.
    Quota(Option<u64>),
    Alarm {
        alarm: Alarm,
        raised: bool,
    },
    /// The client behind a place in a lock's queue from now on.
    Claim {
        key: Bytes,
        claim: LockClaim,
    },
    Fence {
        resource: Bytes,
        fence: Fence,
    },
}

/// Which state a range is to be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// The newest, with the command's own writes.
    Now,
    Past(Revision),
}

impl<'a> Draft<'a> {
    pub fn new(
        index: &'a Index,
        leases: &'a Leases,
        alarms: &'a Alarms,
        locks: &'a Locks,
        records: &'a dyn Records,
        revisions: Revisions,
    ) -> Draft<'a> {
        Draft {
            index,
            leases,
            alarms,
            locks,
            records,
            level: FormatLevel::NEWEST,
            revision: revisions.current,
            compacted: revisions.compacted,
            changes: Vec::new(),
            changed: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    /// The level of the formats that the command's effects are written in.
    pub fn at_level(self, level: FormatLevel) -> Draft<'a> {
        Draft { level, ..self }
    }

    pub fn level(&self) -> FormatLevel {
        self.level
    }

    pub fn into_parts(self) -> (Vec<Change>, Vec<Effect>) {
        (self.changes, self.effects)
    }

    /// The leases before the command; no command uses a lease that it grants or revokes itself.
    pub fn leases(&self) -> &'a Leases {
        self.leases
    }

    /// The alarms before the command.
    pub fn alarms(&self) -> &'a Alarms {
        self.alarms
    }

    pub fn locks(&self) -> &'a Locks {
        self.locks
    }

    pub fn add_effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn revisions(&self) -> Revisions {
        Revisions { current: self.revision, compacted: self.compacted }
    }

    /// The index before the command.
    pub fn before(&self) -> &'a Index {
        self.index
    }

    /// Where to read for an asked revision; zero means the newest. So does one below zero that etcd does not
    /// take for compacted: in a store where nothing was, its floor is at -1.
    pub fn at(&self, revision: Revision) -> Result<ReadAt, Code> {
        let floor = if self.compacted == Revision::ZERO { Revision(-1) } else { self.compacted };
        match revision {
            Revision::ZERO => Ok(ReadAt::Now),
            revision if revision < floor && !planted(Mutant::CompactedRead) => Err(Code::Compacted),
            revision if revision < Revision::ZERO => Ok(ReadAt::Now),
            revision if revision > self.revision => Err(Code::FutureRevision),
            revision => Ok(ReadAt::Past(revision)),
        }
    }

    pub fn current(&self, key: &[u8]) -> Option<Current> {
        match self.change_of(key) {
            None => self.index.current(key),
            Some(change) => pending(change),
        }
    }

    /// Keys of a range in order, with the versions they have there.
    pub fn versions<'s>(
        &'s self,
        keys: &'s KeyRange,
        at: ReadAt,
    ) -> Box<dyn Iterator<Item = (&'s [u8], Version)> + 's> {
        match at {
            ReadAt::Past(revision) => Box::new(self.index.iter_at(keys, revision)),
            ReadAt::Now if self.is_untouched() => Box::new(self.before_versions(keys)),
            ReadAt::Now => Box::new(Merge {
                before: self.before_versions(keys).peekable(),
                pending: self.pending_in(keys).peekable(),
            }),
        }
    }

    pub fn count(&self, keys: &KeyRange, at: ReadAt) -> usize {
        match at {
            ReadAt::Past(revision) => self.index.count_at(keys, revision),
            ReadAt::Now if self.is_untouched() => self.index.count(keys),
            ReadAt::Now => self.versions(keys, at).count(),
        }
    }

    /// One version with its value.
    pub fn record(&self, key: &[u8], revision: Revision) -> Record {
        let own = self.change_of(key).filter(|change| change.revision == revision);
        match own.map(|change| &change.kind) {
            Some(ChangeKind::Put(record)) => record.clone(),
            _ => self.records.record(key, revision).expect("an indexed version has a record"),
        }
    }

    /// The revision that the command's writes get.
    pub fn next_revision(&self) -> Revision {
        self.revision.next()
    }

    /// Changes a key that was last put at `prev`, or is not there if that is zero. Validation has refused
    /// whatever writes a key twice; should such a command come all the same, it is refused here on every
    /// member alike.
    pub fn change(&mut self, key: Bytes, prev: Revision, kind: ChangeKind) -> Result<(), Code> {
        if self.changed.contains_key(&key) {
            return Err(Code::DuplicateKey);
        }
        let sub = u32::try_from(self.changes.len()).expect("a command's changes fit in 32 bits");
        self.changed.insert(key.clone(), self.changes.len());
        self.changes.push(Change { key, revision: self.next_revision(), sub, prev, kind });
        Ok(())
    }

    fn change_of(&self, key: &[u8]) -> Option<&Change> {
        self.changed.get(key).map(|at| &self.changes[*at])
    }

    fn is_untouched(&self) -> bool {
        self.changes.is_empty() || planted(Mutant::TxnBlindToItself)
    }

    fn before_versions<'s>(&'s self, keys: &'s KeyRange) -> impl Iterator<Item = (&'s [u8], Version)> {
        self.index.iter(keys).map(|(key, current)| (key, current.as_version()))
    }

    fn pending_in<'s>(&'s self, keys: &KeyRange) -> impl Iterator<Item = (&'s [u8], Option<Version>)> {
        let inside = (!keys.is_empty()).then(|| self.changed.range::<[u8], _>(keys.bounds()));
        inside
            .into_iter()
            .flatten()
            .map(|(key, at)| (key.as_ref(), pending(&self.changes[*at]).map(|current| current.as_version())))
    }
}

/// The revisions between which a state can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    pub current: Revision,
    pub compacted: Revision,
}

/// The version that a change leaves behind, if it leaves one.
pub fn pending(change: &Change) -> Option<Current> {
    let ChangeKind::Put(record) = &change.kind else { return None };
    Some(Current {
        create: record.create,
        modified: change.revision,
        version: record.version,
        lease: record.lease,
        value_len: u32::try_from(record.value.len()).expect("a request is far below 4 GiB"),
    })
}

/// Two walks in key order made one, where the command's own writes hide what was before.
struct Merge<B: Iterator, P: Iterator> {
    before: Peekable<B>,
    pending: Peekable<P>,
}

impl<'s, B, P> Iterator for Merge<B, P>
where
    B: Iterator<Item = (&'s [u8], Version)>,
    P: Iterator<Item = (&'s [u8], Option<Version>)>,
{
    type Item = (&'s [u8], Version);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((pending_key, _)) = self.pending.peek() else { return self.before.next() };
            if let Some(item) = self.before.next_if(|(key, _)| key < pending_key) {
                return Some(item);
            }
            let (key, version) = self.pending.next()?;
            self.before.next_if(|(hidden, _)| *hidden == key);
            if let Some(version) = version {
                return Some((key, version));
            }
        }
    }
}
