//! A state that is restored as it was earlier than its backup: at a revision, or at a time of day. Rows of a backup go in, those that
//! stay are told, and at the end come the rows that are to be added. Keys are as they were at that point; leases, users and
//! documents are those of the backup. A key of a lease that has ended since is deleted, for nothing else would ever end it; a claim
//! stays with its key. The rows that say how times, leases and claims stand come before those of keys.

use crate::change::{Change, ChangeKind};
use crate::clock;
use crate::leases;
use crate::rows::{
    CorruptRow, Emit, LoggedChange, META_KEY, Meta, change_rows, parse_log_key, parse_version_key,
};
use base::{LeaseId, Revision, Row, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// As of when a state is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestorePoint {
    #[default]
    Newest,
    Revision(Revision),
    /// In milliseconds since 1970: the newest revision that is known to have been there by then.
    Time(i64),
}

/// Why a backup cannot be restored as of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointError {
    Corrupt(CorruptRow),
    /// What is older is compacted.
    Compacted(Revision),
    /// What is later is not in the backup.
    Later(Revision),
    /// The times of revisions that early are not in the backup.
    UnknownTime,
    /// A backup of the first release, which has rows that cannot be cut.
    FirstFormat,
}

impl From<CorruptRow> for PointError {
    fn from(row: CorruptRow) -> PointError {
        PointError::Corrupt(row)
    }
}

/// Tells row by row what is there at the point.
#[derive(Debug, Default)]
pub struct RestoreCut {
    point: RestorePoint,
    meta: Option<Meta>,
    /// The newest revision of those that are marked with a time up to the point.
    marked: Option<Revision>,
    leases: BTreeSet<LeaseId>,
    /// With the rows of their claims, and whether the keys are there.
    claims: BTreeMap<Bytes, (Bytes, bool)>,
    /// Keys of leases that are there, and the revisions of their current versions.
    leased: BTreeMap<Bytes, (LeaseId, Revision)>,
}

impl RestoreCut {
    pub fn new(point: RestorePoint) -> RestoreCut {
        RestoreCut { point, ..RestoreCut::default() }
    }

    /// The last revision that stays; none for all of them.
    pub fn last(&self) -> Result<Option<Revision>, PointError> {
        match self.point {
            RestorePoint::Newest => Ok(None),
            RestorePoint::Revision(revision) => Ok(Some(revision)),
            RestorePoint::Time(_) => self.marked.map(Some).ok_or(PointError::UnknownTime),
        }
    }

    /// Whether the row stays.
    pub fn takes(&mut self, row: &Row) -> Result<bool, PointError> {
        let (key, value) = (&row.key, row.value.clone().unwrap_or_default());
        let is_meta = (row.table, &key[..]) == (Table::Meta, META_KEY);
        if is_meta {
            self.meta = Meta::decode(value.clone());
        }
        if self.point == RestorePoint::Newest {
            return Ok(true);
        }
        let corrupt = || CorruptRow::malformed(row.table, key);
        match row.table {
            Table::Clock => {
                let mark = clock::parse_row(key, &value).ok_or_else(corrupt)?;
                if matches!(self.point, RestorePoint::Time(millis) if mark.millis <= millis) {
                    self.marked = Some(mark.revision);
                }
                Ok(false)
            }
            Table::Index => Err(PointError::FirstFormat),
            Table::Leases => {
                self.leases.insert(leases::parse_key(key).ok_or_else(corrupt)?);
                Ok(true)
            }
            Table::Claims => {
                self.claims.insert(key.clone(), (value, false));
                Ok(false)
            }
            Table::Versions => {
                let (_, revision) = parse_version_key(key).ok_or_else(corrupt)?;
                Ok(self.last()?.is_none_or(|last| revision <= last))
            }
            Table::Log => {
                let (revision, _) = parse_log_key(key).ok_or_else(corrupt)?;
                let logged = LoggedChange::from_row(value).ok_or_else(corrupt)?;
                let stays = self.last()?.is_none_or(|last| revision <= last);
                if stays {
                    self.note(logged, revision);
                }
                Ok(stays)
            }
            _ => Ok(true),
        }
    }

    fn note(&mut self, logged: LoggedChange, revision: Revision) {
        if let Some((_, is_there)) = self.claims.get_mut(&logged.key) {
            *is_there = logged.put.is_some();
        }
        match logged.put.map(|put| put.lease).filter(|lease| *lease != LeaseId::NONE) {
            Some(lease) => drop(self.leased.insert(logged.key, (lease, revision))),
            None => drop(self.leased.remove(&logged.key)),
        }
    }

    /// Emits the rows that are to be added, behind all others, and gives the keys that end because their leases have.
    pub fn finish(self, emit: &mut Emit<'_>) -> Result<Vec<Bytes>, PointError> {
        let Some(last) = self.last()? else { return Ok(Vec::new()) };
        let meta = self.meta.ok_or(PointError::Later(Revision::ZERO))?;
        if last < meta.compacted {
            return Err(PointError::Compacted(meta.compacted));
        }
        if last > meta.revision {
            return Err(PointError::Later(meta.revision));
        }
        let ended = |(_, (lease, _)): &(Bytes, (LeaseId, Revision))| !self.leases.contains(lease);
        let ended: Vec<Change> = self
            .leased
            .into_iter()
            .filter(ended)
            .zip(0..)
            .map(|((key, (_, prev)), sub)| Change {
                key,
                revision: last.next(),
                sub,
                prev,
                kind: ChangeKind::Delete,
            })
            .collect();
        change_rows(&ended, emit);
        let gone: BTreeSet<&Bytes> = ended.iter().map(|change| &change.key).collect();
        for (key, (claim, is_there)) in &self.claims {
            if *is_there && !gone.contains(key) {
                emit(Table::Claims, key, Some(claim));
            }
        }
        Ok(ended.into_iter().map(|change| change.key).collect())
    }
}
