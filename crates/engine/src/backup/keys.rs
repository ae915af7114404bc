//! The keys of a backup as they were at a point, with their values and leases: what is put into a running cluster. The file is read
//! twice: first which version of each key was current, then the values of these.

use super::{DigestRule, Source, read};
use crate::error::Error;
use base::{LeaseId, Revision, Row, Table};
use bytes::Bytes;
use coord::rows::{LoggedChange, parse_log_key, parse_version_key, record_from_row};
use coord::{CorruptRow, Lease, RestoreCut, RestorePoint};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedKey {
    pub key: Bytes,
    pub value: Bytes,
    pub lease: Option<LeaseId>,
}

/// The keys at the point.
#[derive(Debug, Default)]
pub struct SavedKeys {
    live: BTreeMap<Bytes, Revision>,
    /// The leases of the backup, with the seconds that were granted.
    pub leases: BTreeMap<LeaseId, i64>,
}

impl SavedKeys {
    pub fn read(
        source: &mut dyn Source,
        digest: DigestRule,
        point: RestorePoint,
    ) -> Result<SavedKeys, Error> {
        let (mut keys, mut cut) = (SavedKeys::default(), RestoreCut::new(point));
        let summary = read(source, digest, &mut |rows, _| {
            rows.iter().try_for_each(|row| if cut.takes(row)? { keys.note(row) } else { Ok(()) })
        })?;
        super::check_moment(point, &summary)?;
        for ended in cut.finish(&mut |_, _, _| ())? {
            keys.live.remove(&ended);
        }
        Ok(keys)
    }

    pub fn count(&self) -> usize {
        self.live.len()
    }

    fn note(&mut self, row: &Row) -> Result<(), Error> {
        let corrupt = || CorruptRow::malformed(row.table, &row.key);
        let value = row.value.clone().unwrap_or_default();
        match row.table {
            Table::Leases => {
                let id = row.key[..].try_into().map(i64::from_be_bytes).map_err(|_| corrupt())?;
                let lease = Lease::decode(value).ok_or_else(corrupt)?;
                self.leases.insert(LeaseId(id), lease.ttl);
            }
            Table::Log => {
                let (revision, _) = parse_log_key(&row.key).ok_or_else(corrupt)?;
                let logged = LoggedChange::from_row(value).ok_or_else(corrupt)?;
                match logged.put {
                    Some(_) => drop(self.live.insert(logged.key, revision)),
                    None => drop(self.live.remove(&logged.key)),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Hands the keys on, some at a time, from the same source again; until the receiver answers `false`.
    pub fn values(
        &self,
        source: &mut dyn Source,
        digest: DigestRule,
        take: &mut dyn FnMut(Vec<SavedKey>) -> bool,
    ) -> Result<(), Error> {
        let mut goes_on = true;
        read(source, digest, &mut |rows, _| {
            let found: Result<Vec<Option<SavedKey>>, CorruptRow> =
                rows.iter().filter(|row| row.table == Table::Versions).map(|row| self.current(row)).collect();
            let found: Vec<SavedKey> = found?.into_iter().flatten().collect();
            goes_on = goes_on && (found.is_empty() || take(found));
            Ok(())
        })?;
        Ok(())
    }

    /// None for a version that was not current.
    fn current(&self, row: &Row) -> Result<Option<SavedKey>, CorruptRow> {
        let corrupt = || CorruptRow::malformed(row.table, &row.key);
        let (key, revision) = parse_version_key(&row.key).ok_or_else(corrupt)?;
        if self.live.get(key) != Some(&revision) {
            return Ok(None);
        }
        let record = record_from_row(row.value.clone().unwrap_or_default()).ok_or_else(corrupt)?;
        let lease = Some(record.lease).filter(|lease| *lease != LeaseId::NONE);
        Ok(Some(SavedKey { key: Bytes::copy_from_slice(key), value: record.value, lease }))
    }
}
