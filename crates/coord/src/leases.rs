//! The leases, and the keys attached to each. Grants, revokes and checkpoints come in by log order, and every change
//! of a key that moves it from one lease to another. No time is counted here: a lease lives until a command ends it.
//! Leases touched since the last flush are remembered, so that a flush writes those alone.

use crate::rows::{Emit, FORMAT, formatted};
use base::codec::{put_signed, put_varint};
use base::{Index, LeaseId, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

#[derive(Debug, Default)]
pub struct Leases {
    by_id: BTreeMap<LeaseId, Lease>,
    touched: BTreeSet<LeaseId>,
    /// Leases that wait for the next time mark.
    unmarked: BTreeSet<LeaseId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Seconds that were granted.
    pub ttl: i64,
    /// Seconds that were left at the last checkpoint; zero stands for all of them.
    pub remaining: i64,
    /// The log index of the grant: tells this lease from an earlier or later one of the same id.
    pub granted: Index,
    pub granted_at: GrantTime,
    keys: BTreeSet<Box<[u8]>>,
}

/// When a lease was granted, by the time marks of the log: a second late at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantTime {
    /// Granted by a version that did not record it.
    Unknown,
    /// No mark has come since.
    Unmarked,
    /// In milliseconds since 1970.
    At(i64),
}

impl GrantTime {
    /// Zero while it is not known.
    pub fn millis(self) -> i64 {
        match self {
            GrantTime::At(millis) => millis,
            GrantTime::Unknown | GrantTime::Unmarked => 0,
        }
    }
}

impl Lease {
    pub fn new(ttl: i64, granted: Index) -> Lease {
        Lease { ttl, remaining: 0, granted, granted_at: GrantTime::Unmarked, keys: BTreeSet::new() }
    }

    /// The keys attached to it, in order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(AsRef::as_ref)
    }

    /// Seconds that a new leader owes it at least.
    pub fn owed(&self) -> i64 {
        if self.remaining > 0 { self.remaining } else { self.ttl }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_signed(out, self.ttl);
        put_signed(out, self.remaining);
        put_varint(out, self.granted.0);
        if self.granted_at != GrantTime::Unknown {
            put_signed(out, self.granted_at.millis());
        }
    }

    /// Without keys: those are found in the index.
    pub fn decode(row: Bytes) -> Option<Lease> {
        let mut reader = formatted(row)?;
        let (ttl, remaining) = (reader.signed()?, reader.signed()?);
        let granted = Index(reader.varint()?);
        let granted_at = if reader.is_empty() {
            GrantTime::Unknown
        } else {
            match reader.signed()? {
                0 => GrantTime::Unmarked,
                millis => GrantTime::At(millis),
            }
        };
        let sane = ttl > 0 && (0..=ttl).contains(&remaining) && reader.is_empty();
        sane.then(|| Lease { remaining, granted_at, ..Lease::new(ttl, granted) })
    }
}

impl Leases {
    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.by_id.get(&id)
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.by_id.iter().map(|(id, lease)| (*id, lease))
    }

    pub fn after(&self, id: LeaseId) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.by_id.range((Excluded(id), Unbounded)).map(|(id, lease)| (*id, lease))
    }

    pub fn grant(&mut self, id: LeaseId, lease: Lease) {
        self.touched.insert(id);
        self.insert(id, lease);
    }

    /// Takes up a lease that was read back.
    pub fn insert(&mut self, id: LeaseId, lease: Lease) {
        if lease.granted_at == GrantTime::Unmarked {
            self.unmarked.insert(id);
        }
        self.by_id.insert(id, lease);
    }

    /// Some lease waits for a time mark.
    pub fn need_time_mark(&self) -> bool {
        !self.unmarked.is_empty()
    }

    /// The time of day, by which every lease so far was granted.
    pub fn mark(&mut self, millis: i64) {
        for id in std::mem::take(&mut self.unmarked) {
            if let Some(lease) = self.by_id.get_mut(&id) {
                lease.granted_at = GrantTime::At(millis);
                self.touched.insert(id);
            }
        }
    }

    pub fn remove(&mut self, id: LeaseId) {
        self.touched.insert(id);
        self.unmarked.remove(&id);
        self.by_id.remove(&id);
    }

    pub fn checkpoint(&mut self, id: LeaseId, remaining: i64) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            self.touched.insert(id);
            lease.remaining = remaining;
        }
    }

    pub fn attach(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.insert(key.into());
        }
    }

    pub fn detach(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// The rows of the leases that were touched since this was last called.
    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        let mut value = Vec::new();
        for id in std::mem::take(&mut self.touched) {
            value.clear();
            let lease = self.by_id.get(&id);
            lease.inspect(|lease| lease.encode(&mut value));
            emit(Table::Leases, &key_of(id), lease.map(|_| value.as_slice()));
        }
    }
}

fn key_of(id: LeaseId) -> [u8; 8] {
    id.0.to_be_bytes()
}

pub(crate) fn parse_key(row: &[u8]) -> Option<LeaseId> {
    row.try_into().ok().map(|bytes| LeaseId(i64::from_be_bytes(bytes)))
}
