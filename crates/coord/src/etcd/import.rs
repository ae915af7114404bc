//! Rows of etcd's buckets made into rows of ours. Keys come first, in their order; whatever is malformed is refused.

use super::message::{Field, read};
use super::{SEPARATOR, TOMBSTONE, bucket, row};
use crate::auth::Auth;
use crate::change::{Change, ChangeKind, Record};
use crate::compaction::sweep_row;
use crate::leases::{Lease, Leases};
use crate::rebase;
use crate::rows::{Emit, META_KEY, Meta, change_rows};
use base::{Index, LeaseId, Position, Revision, Table, Term};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The state that was imported so far.
#[derive(Default)]
pub struct Import {
    /// The revision of the last put of each key that is live.
    live: BTreeMap<Bytes, Revision>,
    last: Option<(Revision, u32)>,
    leases: Leases,
    auth: Auth,
    scheduled: Revision,
    finished: Revision,
    applied: Position,
}

impl Import {
    /// Takes in a row of one of etcd's buckets. Those that mean nothing in another cluster are left out.
    pub fn row(
        &mut self,
        name: &str,
        key: &[u8],
        value: Bytes,
        emit: &mut Emit<'_>,
    ) -> Result<(), &'static str> {
        let done = match name {
            bucket::KEY => return self.key(key, value, emit),
            bucket::LEASE => self.lease(key, value),
            bucket::AUTH => {
                self.auth.take_etcd_head(key == row::AUTH_ENABLED, key == row::AUTH_REVISION, &value)
            }
            bucket::USERS => self.auth.take_etcd_user(value),
            bucket::ROLES => self.auth.take_etcd_role(value),
            bucket::META => self.meta(key, &value),
            _ => Some(()),
        };
        done.ok_or("a row that etcd does not write")
    }

    fn key(&mut self, name: &[u8], value: Bytes, emit: &mut Emit<'_>) -> Result<(), &'static str> {
        let (revision, sub, is_delete) = parse_revision(name).ok_or("a revision that etcd does not write")?;
        if self.last.is_some_and(|last| last >= (revision, sub)) {
            return Err("revisions out of order");
        }
        self.last = Some((revision, sub));
        let EtcdKeyValue { key, record } =
            EtcdKeyValue::decode(value).ok_or("a key that etcd does not write")?;
        let prev = self.live.get(&key).copied().unwrap_or(Revision::ZERO);
        let kind = if is_delete {
            self.live.remove(&key);
            ChangeKind::Delete
        } else {
            self.live.insert(key.clone(), revision);
            ChangeKind::Put(record)
        };
        change_rows(&[Change { key, revision, sub, prev, kind }], emit);
        Ok(())
    }

    fn lease(&mut self, key: &[u8], value: Bytes) -> Option<()> {
        let (mut ttl, mut remaining) = (0, 0);
        read(value, &mut |field, content| {
            match (field, content) {
                (2, Field::Number(number)) => ttl = number as i64,
                (3, Field::Number(number)) => remaining = number as i64,
                _ => {}
            }
            Some(())
        })?;
        let id = LeaseId(i64::from_be_bytes(key.try_into().ok()?));
        let mut lease = Lease::new(Some(ttl).filter(|ttl| *ttl > 0)?, Index(0));
        lease.remaining = remaining.clamp(0, ttl);
        self.leases.grant(id, lease);
        Some(())
    }

    fn meta(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let number = || Some(u64::from_be_bytes(value.try_into().ok()?));
        let revision = || parse_revision(value).map(|(revision, ..)| revision);
        match key {
            row::CONSISTENT_INDEX => self.applied.index = Index(number()?),
            row::TERM => self.applied.term = Term(number()?),
            row::COMPACT_SCHEDULED => self.scheduled = revision()?,
            row::COMPACT_FINISHED => self.finished = revision()?,
            _ => {}
        }
        Some(())
    }

    /// The rest of the rows, and where the state stands.
    pub fn finish(mut self, emit: &mut Emit<'_>) -> Meta {
        self.leases.take_rows(emit);
        self.auth.take_rows(emit);
        let last = self.last.map_or(Revision::EMPTY_STORE, |(revision, _)| revision);
        let compacted = self.scheduled.max(self.finished);
        let revision = last.max(compacted);
        // A log begins at its first entry and its first term.
        let Position { index, term } = self.applied;
        let applied = Position { index: Index(index.0.max(1)), term: Term(term.0.max(1)) };
        let meta = Meta { applied, revision, compacted, hash: 0 };
        let mut value = Vec::new();
        meta.encode(&mut value);
        emit(Table::Meta, META_KEY, Some(&value));
        if last < revision {
            rebase::rebase_row(last, revision, emit);
        }
        if self.finished < compacted {
            sweep_row((Revision::ZERO, 0), emit);
        }
        meta
    }
}

/// Its numbers, and whether it is of a delete.
fn parse_revision(bytes: &[u8]) -> Option<(Revision, u32, bool)> {
    let (revision, rest) = bytes.split_first_chunk::<8>()?;
    let (separator, rest) = rest.split_first()?;
    let (sub, rest) = rest.split_first_chunk::<8>()?;
    let is_delete = rest == [TOMBSTONE];
    let sub = u32::try_from(u64::from_be_bytes(*sub)).ok()?;
    let revision = Revision(i64::from_be_bytes(*revision));
    let is_one = *separator == SEPARATOR && revision > Revision::ZERO && (rest.is_empty() || is_delete);
    is_one.then_some((revision, sub, is_delete))
}

struct EtcdKeyValue {
    key: Bytes,
    record: Record,
}

impl EtcdKeyValue {
    fn decode(value: Bytes) -> Option<EtcdKeyValue> {
        let mut key = Bytes::new();
        let (create, lease) = (Revision::ZERO, LeaseId::NONE);
        let mut record = Record { create, version: 0, lease, value: Bytes::new() };
        read(value, &mut |field, content| {
            match (field, content) {
                (1, Field::Bytes(bytes)) => key = bytes,
                (2, Field::Number(number)) => record.create = Revision(number as i64),
                (4, Field::Number(number)) => record.version = number as i64,
                (5, Field::Bytes(bytes)) => record.value = bytes,
                (6, Field::Number(number)) => record.lease = LeaseId(number as i64),
                _ => {}
            }
            Some(())
        })?;
        (!key.is_empty()).then_some(EtcdKeyValue { key, record })
    }
}
