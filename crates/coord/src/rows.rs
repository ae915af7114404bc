//! The state as rows of the store, and back.
//! A change becomes the rows that it writes or removes; a row becomes the value it stands for, or nothing if
//! it is malformed. Every value begins with a format byte, keys sort as etcd sorts them, and one `get` finds
//! a version. The layout is drawn in docs/formats/rows.md.

use crate::change::{Change, ChangeKind, Record};
use crate::entry::{Current, Version};
use crate::members::MEMBERS_KEY;
use crate::mutant::Mutant;
use crate::state::State;
use base::codec::{Reader, put_signed, put_varint, take_signed};
use base::mutant::planted;
use base::{Index, LeaseId, NodeId, Position, ReadView, Revision, Table, Term};
use bytes::Bytes;
use std::fmt;

/// The layout that this code writes; the first byte of every value.
pub(crate) const FORMAT: u8 = 1;

/// The key of the one row in `Table::Meta` that is ours; the node keeps its own beside it.
pub const META_KEY: &[u8] = b"coord";

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// A row that cannot be what was written, or does not fit the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptRow {
    pub table: Table,
    pub key: Bytes,
    pub what: &'static str,
}

impl CorruptRow {
    pub fn new(table: Table, key: &[u8], what: &'static str) -> CorruptRow {
        CorruptRow { table, key: Bytes::copy_from_slice(key), what }
    }

    pub fn malformed(table: Table, key: &[u8]) -> CorruptRow {
        CorruptRow::new(table, key, "malformed")
    }
}

impl fmt::Display for CorruptRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {:?}, row {:?}: {}", self.table, self.key, self.what)
    }
}

impl std::error::Error for CorruptRow {}

/// Takes a row to be written (`Some`) or removed (`None`).
pub type Emit<'a> = dyn FnMut(Table, &[u8], Option<&[u8]>) + 'a;

/// The rows of changes, which come in the order of their revisions: those of the log first, then the versions, so
/// that each table grows at its end. The rows of the index are written by `Unindexed`.
pub fn change_rows(changes: &[Change], emit: &mut Emit<'_>) {
    let mut row = RowBuffers::default();
    for change in changes {
        row.log(change, emit);
    }
    for change in changes {
        row.version(change, emit);
    }
}

/// Where rows are encoded, kept from one to the next.
#[derive(Default)]
struct RowBuffers {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl RowBuffers {
    fn log(&mut self, change: &Change, emit: &mut Emit<'_>) {
        self.clear();
        log_key(change.revision, change.sub, &mut self.key);
        log_value(&LoggedChange::of(change), &mut self.value);
        emit(Table::Log, &self.key, Some(&self.value));
    }

    /// A delete leaves no version.
    fn version(&mut self, change: &Change, emit: &mut Emit<'_>) {
        if let ChangeKind::Put(record) = &change.kind {
            self.clear();
            version_key(&change.key, change.revision, &mut self.key);
            record_value(record, &mut self.value);
            emit(Table::Versions, &self.key, Some(&self.value));
        }
    }

    fn clear(&mut self) {
        self.key.clear();
        self.value.clear();
    }
}

/// The rows beside those of the changes, as of `applied`. The origins are written whole: there is one short
/// row for each member, and a flush gathers many proposals.
pub fn state_rows(state: &State, applied: Position, emit: &mut Emit<'_>) {
    let meta = Meta { applied, revision: state.revision, compacted: flushed_floor(state), hash: state.hash };
    let mut value = Vec::new();
    meta.encode(&mut value);
    emit(Table::Meta, META_KEY, Some(&value));
    if !state.members.is_empty() {
        emit(Table::Meta, MEMBERS_KEY, Some(&state.members.encode()));
    }
    for (member, origin) in state.origins.iter() {
        value.clear();
        origin.encode(&mut value);
        emit(Table::Origins, &origin_key(member), Some(&value));
    }
}

/// The floor goes with everything else; the planted bugs keep it back.
fn flushed_floor(state: &State) -> Revision {
    let late = state.is_sweeping() && planted(Mutant::FloorAfterSweep);
    if late || planted(Mutant::FloorNotDurable) { Revision::ZERO } else { state.compacted }
}

/// What the one row of `Table::Meta` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub applied: Position,
    pub revision: Revision,
    pub compacted: Revision,
    pub hash: u64,
}

impl Meta {
    /// `None` when the store was never written.
    pub fn read(view: &dyn ReadView) -> Result<Option<Meta>, CorruptRow> {
        let Some(row) = view.get(Table::Meta, META_KEY) else { return Ok(None) };
        let malformed = CorruptRow::new(Table::Meta, META_KEY, "malformed");
        Meta::decode(row).ok_or(malformed).map(Some)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_varint(out, self.applied.index.0);
        put_varint(out, self.applied.term.0);
        put_signed(out, self.revision.0);
        put_signed(out, self.compacted.0);
        out.extend_from_slice(&self.hash.to_le_bytes());
    }

    pub fn decode(value: Bytes) -> Option<Meta> {
        let mut reader = formatted(value)?;
        let meta = Meta {
            applied: Position { index: Index(reader.varint()?), term: Term(reader.varint()?) },
            revision: Revision(reader.signed()?),
            compacted: Revision(reader.signed()?),
            hash: reader.u64()?,
        };
        reader.is_empty().then_some(meta)
    }
}

/// The key of a version in `Table::Versions`: sorts by revision, so that new versions come at the end, where
/// the store takes them cheaply. A key changes once in a revision, so the two name one version.
pub fn version_key(key: &[u8], revision: Revision, out: &mut Vec<u8>) {
    out.reserve(key.len() + 8);
    out.extend_from_slice(&revision.0.to_be_bytes());
    out.extend_from_slice(key);
}

/// Reads what `version_key` wrote.
pub fn parse_version_key(row: &[u8]) -> Option<(&[u8], Revision)> {
    let (revision, key) = row.split_first_chunk::<8>()?;
    Some((key, Revision(i64::from_be_bytes(*revision))))
}

fn record_value(record: &Record, out: &mut Vec<u8>) {
    out.reserve(record.value.len() + 16);
    out.push(FORMAT);
    put_signed(out, record.create.0);
    put_signed(out, record.version);
    put_signed(out, record.lease.0);
    out.extend_from_slice(&record.value);
}

/// A version from its row in `Table::Versions`; the value is a slice of it.
pub fn record_from_row(row: Bytes) -> Option<Record> {
    let mut reader = formatted(row)?;
    Some(Record {
        create: Revision(reader.signed()?),
        version: reader.signed()?,
        lease: LeaseId(reader.signed()?),
        value: reader.rest(),
    })
}

/// Lease and value of a version, as they lie in its row.
pub fn content_in_row(row: &[u8]) -> Option<(LeaseId, &[u8])> {
    let (format, mut rest) = row.split_first()?;
    let (_create, _version) = (take_signed(&mut rest)?, take_signed(&mut rest)?);
    let lease = LeaseId(take_signed(&mut rest)?);
    (*format == FORMAT).then_some((lease, rest))
}

/// A version read from the store with one `get`.
pub fn read_record(
    view: &dyn ReadView,
    key: &[u8],
    revision: Revision,
) -> Result<Option<Record>, CorruptRow> {
    let mut row_key = Vec::new();
    version_key(key, revision, &mut row_key);
    let Some(row) = view.get(Table::Versions, &row_key) else { return Ok(None) };
    record_from_row(row).ok_or_else(|| CorruptRow::new(Table::Versions, &row_key, "malformed")).map(Some)
}

pub(crate) fn index_value(current: &Current, out: &mut Vec<u8>) {
    out.push(FORMAT);
    put_signed(out, current.modified.0);
    put_signed(out, current.create.0);
    put_signed(out, current.version);
    put_signed(out, current.lease.0);
    put_varint(out, u64::from(current.value_len));
}

pub(crate) fn current_from_row(row: Bytes) -> Option<Current> {
    let mut reader = formatted(row)?;
    let current = Current {
        modified: Revision(reader.signed()?),
        create: Revision(reader.signed()?),
        version: reader.signed()?,
        lease: LeaseId(reader.signed()?),
        value_len: u32::try_from(reader.varint()?).ok()?,
    };
    (reader.is_empty() && current.version > 0).then_some(current)
}

/// The key of a change in `Table::Log`; sorts by revision, then by order within it.
pub fn log_key(revision: Revision, sub: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&revision.0.to_be_bytes());
    out.extend_from_slice(&sub.to_be_bytes());
}

/// Reads what `log_key` wrote.
pub fn parse_log_key(row: &[u8]) -> Option<(Revision, u32)> {
    let (revision, sub) = row.split_first_chunk::<8>()?;
    Some((Revision(i64::from_be_bytes(*revision)), u32::from_be_bytes(sub.try_into().ok()?)))
}

pub(crate) fn log_value(line: &LoggedChange, out: &mut Vec<u8>) {
    out.push(FORMAT);
    out.push(if line.put.is_some() { PUT } else { DELETE });
    put_signed(out, line.prev.0);
    if let Some(put) = &line.put {
        put_signed(out, put.create.0);
        put_signed(out, put.version);
        put_signed(out, put.lease.0);
        put_varint(out, u64::from(put.value_len));
    }
    out.extend_from_slice(&line.key);
}

/// A change as the log keeps it: without value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    pub key: Bytes,
    /// The revision of the version that was replaced or ended; zero when there was none.
    pub prev: Revision,
    /// `None` for a delete.
    pub put: Option<LoggedPut>,
}

/// What the log keeps of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedPut {
    pub create: Revision,
    pub version: i64,
    pub lease: LeaseId,
    pub value_len: u32,
}

/// What the rows of a change take in the store, about: its line in the log, and for a put its version.
pub(crate) fn change_bytes(logged: &LoggedChange) -> u64 {
    let key_len = logged.key.len() as u64;
    match logged.put {
        Some(put) => 2 * key_len + u64::from(put.value_len) + PUT_ROWS_BYTES,
        None => key_len + DELETE_ROW_BYTES,
    }
}

/// The numbers in the two rows of a put.
const PUT_ROWS_BYTES: u64 = 48;
/// The numbers in the row of a delete.
const DELETE_ROW_BYTES: u64 = 24;

impl LoggedChange {
    /// The logged form of a change that is not a row yet.
    pub fn of(change: &Change) -> LoggedChange {
        let put = match &change.kind {
            ChangeKind::Put(record) => Some(LoggedPut {
                create: record.create,
                version: record.version,
                lease: record.lease,
                value_len: record.value.len() as u32,
            }),
            ChangeKind::Delete => None,
        };
        LoggedChange { key: change.key.clone(), prev: change.prev, put }
    }

    pub fn from_row(row: Bytes) -> Option<LoggedChange> {
        let mut reader = formatted(row)?;
        let kind = reader.u8()?;
        let prev = Revision(reader.signed()?);
        let put = match kind {
            PUT => Some(LoggedPut {
                create: Revision(reader.signed()?),
                version: reader.signed()?,
                lease: LeaseId(reader.signed()?),
                value_len: u32::try_from(reader.varint()?).ok()?,
            }),
            DELETE => None,
            _ => return None,
        };
        Some(LoggedChange { key: reader.rest(), prev, put })
    }

    pub(crate) fn version(&self, modified: Revision) -> Option<Version> {
        self.put.map(|LoggedPut { create, version, .. }| Version { create, modified, version })
    }

    pub(crate) fn current(&self, modified: Revision) -> Option<Current> {
        self.put.map(|LoggedPut { create, version, lease, value_len }| Current {
            create,
            modified,
            version,
            lease,
            value_len,
        })
    }
}

fn origin_key(member: NodeId) -> [u8; 8] {
    member.0.to_be_bytes()
}

pub(crate) fn parse_origin_key(row: &[u8]) -> Option<NodeId> {
    row.try_into().ok().map(|bytes| NodeId(u64::from_be_bytes(bytes)))
}

pub(crate) fn formatted(row: Bytes) -> Option<Reader> {
    let mut reader = Reader::new(row);
    (reader.u8()? == FORMAT).then_some(reader)
}

#[cfg(test)]
mod tests;
