//! The lock state beside the keys of the queues: the client behind each place, and the highest token that each
//! external resource has seen. Commands set both by log order; a claim is removed with its key, whatever deletes it.
//! What was touched since the last flush is remembered, so that a flush writes that alone.

use crate::rows::{Emit, FORMAT, formatted};
use base::codec::{put_bytes, put_signed, put_varint};
use base::limits::LOCK_CALLS_MAX;
use base::{Revision, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[derive(Debug, Default)]
pub struct Locks {
    claims: TouchedRows<LockClaim>,
    fences: TouchedRows<Fence>,
}

/// Rows of one kind by key, and which of them were touched.
#[derive(Debug)]
struct TouchedRows<T> {
    by_key: BTreeMap<Bytes, T>,
    touched: BTreeSet<Bytes>,
}

/// The client behind a place in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockClaim {
    /// What the client calls itself.
    pub holder: Bytes,
    /// When it joined the queue, in milliseconds of the clock of the member that it asked; for people to read.
    pub since: i64,
    pub calls: ClaimCalls,
}

/// The calls that a place belongs to: while it waits, the one that asked last; while it holds the lock, also those
/// that ask again, because any of them may have been answered. The last call to leave removes the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimCalls {
    Few(Vec<u64>),
    /// So many have joined that they are no longer counted: only a release or the end of the lease removes the place.
    Many,
}

/// What a resource has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub lock: Bytes,
    /// The highest so far.
    pub token: Revision,
}

impl ClaimCalls {
    /// Whether the place may still be this call's.
    pub fn may_have(&self, call: u64) -> bool {
        matches!(self, ClaimCalls::Many) || self.has(call)
    }

    pub(crate) fn has(&self, call: u64) -> bool {
        matches!(self, ClaimCalls::Few(calls) if calls.contains(&call))
    }

    pub(crate) fn join(&mut self, call: u64, is_held: bool) {
        match self {
            ClaimCalls::Many => {}
            ClaimCalls::Few(calls) if !is_held => *calls = vec![call],
            ClaimCalls::Few(calls) if calls.contains(&call) => {}
            ClaimCalls::Few(calls) if calls.len() >= LOCK_CALLS_MAX => *self = ClaimCalls::Many,
            ClaimCalls::Few(calls) => calls.push(call),
        }
    }

    /// Whether no call is left.
    pub(crate) fn leave(&mut self, call: u64) -> bool {
        match self {
            ClaimCalls::Many => false,
            ClaimCalls::Few(calls) => {
                calls.retain(|other| *other != call);
                calls.is_empty()
            }
        }
    }
}

impl LockClaim {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_bytes(out, &self.holder);
        put_signed(out, self.since);
        match &self.calls {
            ClaimCalls::Many => put_varint(out, 0),
            ClaimCalls::Few(calls) => {
                put_varint(out, calls.len() as u64);
                calls.iter().for_each(|call| put_varint(out, *call));
            }
        }
    }

    pub(crate) fn decode(row: Bytes) -> Option<LockClaim> {
        let mut reader = formatted(row)?;
        let (holder, since) = (reader.bytes()?, reader.signed()?);
        let count = reader.count()?;
        if count > LOCK_CALLS_MAX {
            return None;
        }
        let calls = (0..count).map(|_| reader.varint()).collect::<Option<Vec<u64>>>()?;
        let calls = if calls.is_empty() { ClaimCalls::Many } else { ClaimCalls::Few(calls) };
        reader.is_empty().then_some(LockClaim { holder, since, calls })
    }
}

impl Fence {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_signed(out, self.token.0);
        put_bytes(out, &self.lock);
    }

    pub(crate) fn decode(row: Bytes) -> Option<Fence> {
        let mut reader = formatted(row)?;
        let token = Revision(reader.signed()?);
        let lock = reader.bytes()?;
        (reader.is_empty() && token > Revision::ZERO).then_some(Fence { lock, token })
    }
}

impl Locks {
    pub fn claim(&self, key: &[u8]) -> Option<&LockClaim> {
        self.claims.by_key.get(key)
    }

    /// Every place that has one, in key order.
    pub fn claims(&self) -> impl Iterator<Item = (&Bytes, &LockClaim)> {
        self.claims.by_key.iter()
    }

    /// Claims from this key on.
    pub fn claims_from(&self, start: &[u8]) -> impl Iterator<Item = (&Bytes, &LockClaim)> {
        self.claims.by_key.range::<[u8], _>((Bound::Included(start), Bound::Unbounded))
    }

    pub fn fence(&self, resource: &[u8]) -> Option<&Fence> {
        self.fences.by_key.get(resource)
    }

    pub fn fences(&self) -> impl Iterator<Item = (&Bytes, &Fence)> {
        self.fences.by_key.iter()
    }

    pub fn set_claim(&mut self, key: Bytes, claim: LockClaim) {
        self.claims.set(key, claim);
    }

    pub fn set_fence(&mut self, resource: Bytes, fence: Fence) {
        self.fences.set(resource, fence);
    }

    /// A key was deleted.
    pub fn forget(&mut self, key: &Bytes) {
        if self.claims.by_key.remove(key).is_some() {
            self.claims.touched.insert(key.clone());
        }
    }

    /// Takes up what was read back.
    pub fn insert_claim(&mut self, key: Bytes, claim: LockClaim) {
        self.claims.by_key.insert(key, claim);
    }

    pub fn insert_fence(&mut self, resource: Bytes, fence: Fence) {
        self.fences.by_key.insert(resource, fence);
    }

    /// The rows of what was touched since this was last called.
    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        self.claims.take_rows(Table::Claims, LockClaim::encode, emit);
        self.fences.take_rows(Table::Fences, Fence::encode, emit);
    }
}

impl<T> Default for TouchedRows<T> {
    fn default() -> TouchedRows<T> {
        TouchedRows { by_key: BTreeMap::new(), touched: BTreeSet::new() }
    }
}

impl<T> TouchedRows<T> {
    fn set(&mut self, key: Bytes, value: T) {
        self.touched.insert(key.clone());
        self.by_key.insert(key, value);
    }

    fn take_rows(&mut self, table: Table, encode: fn(&T, &mut Vec<u8>), emit: &mut Emit<'_>) {
        let mut row = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            row.clear();
            let value = self.by_key.get(&key);
            value.inspect(|value| encode(value, &mut row));
            emit(table, &key, value.map(|_| row.as_slice()));
        }
    }
}
