//! The files of the mesh of a node that does not run, checked as far as they can be: every frame of the log, every
//! page of the store, every row by itself. Nothing on the disk is changed.

use super::{MeshView, incarnation, store};
use crate::error::Error;
use crate::verify::check_length;
use ::mesh::{
    Conflict, LogEntry, Record, Round, Topology, is_index_value,
    rows::{self, Rows},
};
use base::codec::Reader;
use bytes::Bytes;
use disk::{Disk, RecordStream, RecoveryReport, ScratchDisk, Store, guard};
use std::ops::Bound::Unbounded;
use std::sync::Arc;

/// The contents of an intact mesh directory.
#[derive(Clone, Debug)]
pub struct MeshReport {
    pub log: RecoveryReport,
    pub store_bytes: u64,
    pub records: usize,
    pub tombstones: usize,
    pub hints: usize,
    pub conflicts: usize,
    /// Batches of the log that the store lacks.
    pub unflushed: usize,
}

/// None if there was never a mesh on this disk.
pub fn verify_mesh(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<Option<MeshReport>, Error> {
    guard::catch_damage(store::LIVE, || check_files(disk, cache_bytes)).map_err(Error::of_mesh)
}

fn check_files(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<Option<MeshReport>, Error> {
    if incarnation::read(&*disk)?.is_none() {
        return Ok(None);
    }
    let scratch: Arc<dyn Disk> =
        Arc::new(ScratchDisk::over(disk).map_err(incarnation::trouble("list", "the mesh"))?);
    if !scratch.exists(store::LIVE).map_err(incarnation::trouble("look for", store::LIVE))? {
        return Err(Error::MeshStoreMissing);
    }
    let mut opened = Store::open(scratch.clone(), store::LIVE, cache_bytes)?;
    opened.check_pages()?;
    let store_bytes = opened.file_bytes()?;
    let view = MeshView::of(opened.view()?);
    let flushed = store::flushed(&view)?;
    let mut unflushed = 0;
    let mut damaged = None;
    let log = disk::wal::inspect(&*scratch, &mut |record| {
        if record.stream == RecordStream::Mesh && record.position > flushed {
            unflushed += 1;
            match rows::decode_batch(record.payload) {
                Some(batch) => {
                    let bad = batch.into_iter().find(|row| {
                        row.value.as_ref().is_some_and(|value| row_kind(&row.key, value).is_none())
                    });
                    damaged = damaged.take().or(bad.map(|row| row.key));
                }
                None => damaged = Some(Bytes::new()),
            }
        }
    })?;
    check_length(&log)?;
    let mut report =
        MeshReport { log, store_bytes, records: 0, tombstones: 0, hints: 0, conflicts: 0, unflushed };
    view.scan(Unbounded, Unbounded, &mut |key, value| {
        match row_kind(key, value) {
            Some(RowKind::Record { is_tombstone: true }) => report.tombstones += 1,
            Some(RowKind::Record { is_tombstone: false }) => report.records += 1,
            Some(RowKind::Hint) => report.hints += 1,
            Some(RowKind::Conflict) => report.conflicts += 1,
            Some(RowKind::Other) => {}
            None => damaged = Some(Bytes::copy_from_slice(key)),
        }
        damaged.is_none()
    });
    match damaged {
        Some(row) => Err(Error::MeshRow { row: row.into() }),
        None => Ok(Some(report)),
    }
}

enum RowKind {
    Record { is_tombstone: bool },
    Hint,
    Conflict,
    Other,
}

/// The kind of a row; `None` if no node writes such a row.
fn row_kind(key: &[u8], value: &Bytes) -> Option<RowKind> {
    match rows::row_kind(key)? {
        rows::RowKind::Meta if key == rows::TOPOLOGY => {
            Topology::decode(value.clone()).map(|_| RowKind::Other)
        }
        rows::RowKind::Meta if key == rows::FLUSHED => {
            Reader::new(value.clone()).u64().map(|_| RowKind::Other)
        }
        rows::RowKind::Meta => Some(RowKind::Other),
        rows::RowKind::Record => {
            let name = rows::record_key(key)?;
            let record = Record::decode(value.clone()).filter(|_| rows::record(&name) == key)?;
            Some(RowKind::Record { is_tombstone: record.is_tombstone() })
        }
        rows::RowKind::Due => rows::due_key(key).map(|_| RowKind::Other),
        rows::RowKind::Hint => {
            let is_valid = value.is_empty() || Record::decode(value.clone()).is_some();
            rows::hint_key(key).filter(|_| is_valid).map(|_| RowKind::Hint)
        }
        rows::RowKind::Conflict => Conflict::decode(value.clone()).map(|_| RowKind::Conflict),
        rows::RowKind::Log => LogEntry::decode(value.clone()).map(|_| RowKind::Other),
        rows::RowKind::Index => is_index_value(key, value).then_some(RowKind::Other),
        rows::RowKind::Undecided => value.is_empty().then_some(RowKind::Other),
        rows::RowKind::Collection => Some(RowKind::Other),
        rows::RowKind::Promise => Round::from_bytes(value.clone()).map(|_| RowKind::Other),
    }
}
