//! The rows of the mesh: one ordered table of bytes, whose first byte is the row's kind.
//! All durable state of a node is in rows; a batch of rows is what the log holds and what a flush writes. The shell chooses
//! the storage engine. See docs/formats/mesh-rows.md.

use crate::actor::RegionId;
use crate::hlc::Stamp;
use crate::key::Key;
use crate::ring::Partition;
use base::NodeId;
use base::codec::{Reader, put_bytes};
use bytes::Bytes;
use std::ops::Bound;

/// One row to be written (`Some`) or removed (`None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// A synchronous read of the rows that were flushed.
pub trait Rows {
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// Visits rows in order of their keys until the visitor answers `false`.
    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool);

    /// The same from the last row down.
    fn scan_down(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool);
}

const META: u8 = 0;
const RECORD: u8 = 1;
const DUE: u8 = 2;
const HINT: u8 = 3;
const CONFLICT: u8 = 4;
const LOG: u8 = 5;
/// Indexes, see `index.rs`.
pub(crate) const BY_KIND: u8 = 6;
pub(crate) const BY_HOME: u8 = 7;
pub(crate) const BY_TIME: u8 = 8;
const COLLECTION: u8 = 12;
const PROMISE: u8 = 16;
const UNDECIDED: u8 = 17;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Meta,
    Record,
    Due,
    Hint,
    Conflict,
    /// The rows of the replication log.
    Log,
    Index,
    /// Below the key of a collection: an element, or what follows from elements.
    Collection,
    /// A promised round.
    Promise,
    /// That a promise was given for a key whose record is none of a ballot.
    Undecided,
}

/// None for a row that no node writes.
pub fn row_kind(key: &[u8]) -> Option<RowKind> {
    Some(match *key.first()? {
        META => RowKind::Meta,
        RECORD => RowKind::Record,
        DUE => RowKind::Due,
        HINT => RowKind::Hint,
        CONFLICT => RowKind::Conflict,
        LOG => RowKind::Log,
        BY_KIND | BY_HOME | BY_TIME => RowKind::Index,
        COLLECTION => RowKind::Collection,
        PROMISE => RowKind::Promise,
        UNDECIDED => RowKind::Undecided,
        _ => return None,
    })
}

/// The ranges of rows that belong into a backup: all but those that a node derives, or keeps for itself. Elements of collections
/// go into it as a quorum has them, and not as rows of one node.
pub fn saved_ranges() -> [(Bytes, Bytes); 5] {
    let range = |from: u8, end: u8| (Bytes::copy_from_slice(&[from]), Bytes::copy_from_slice(&[end]));
    [
        range(RECORD, DUE),
        range(HINT, CONFLICT),
        range(BY_TIME + 1, COLLECTION),
        range(COLLECTION + 1, PROMISE),
        range(UNDECIDED + 1, u8::MAX),
    ]
}

/// The node's identity, how far its dots are reserved, and which stamps it has vouched for.
pub const IDENTITY: &[u8] = &[META, 0];
pub const TOPOLOGY: &[u8] = &[META, 1];
/// How far into the log the store reaches: the shell writes it with every flush.
pub const FLUSHED: &[u8] = &[META, 3];
/// The other regions.
pub const REGIONS: &[u8] = &[META, 4];
/// Where the replication log begins and ends.
pub const LOG_HEAD: &[u8] = &[META, 5];

/// Up to which stamp deletes may be forgotten on this node.
pub const PURGED: &[u8] = &[META, 7];

/// How far another region has the replication log.
pub fn stream(region: RegionId) -> Bytes {
    join(&[META, 6], &region.0.to_be_bytes())
}

/// The highest round of a shard whose promise was forgotten together with its record.
pub fn forgotten_round(partition: Partition, copies: u8) -> Bytes {
    Bytes::copy_from_slice(&[META, 16, partition.0, copies])
}

/// The round that this replica has promised for a key.
pub fn promise(key: &Key) -> Bytes {
    join(&[PROMISE, key.partition().0], key.bytes())
}

/// That this replica has promised a round for a key, and holds no record of a ballot under it.
pub fn undecided(key: &Key) -> Bytes {
    join(&[UNDECIDED, key.partition().0], key.bytes())
}

/// All rows of the latter sort.
pub fn undecided_range() -> (Bytes, Bytes) {
    (Bytes::from_static(&[UNDECIDED]), Bytes::from_static(&[UNDECIDED + 1]))
}

/// An entry of the replication log.
pub fn log(seq: u64) -> Bytes {
    join(&[LOG], &seq.to_be_bytes())
}

/// The row of a shard's marks: up to which stamp all replicas of this region have everything.
pub fn mark(partition: Partition, copies: u8) -> Bytes {
    Bytes::copy_from_slice(&[META, 2, partition.0, copies])
}

pub fn record(key: &Key) -> Bytes {
    join(&[RECORD, key.partition().0], key.bytes())
}

/// What the rows below the key of a collection begin with. The length of the key keeps them apart from those of keys that it
/// begins.
pub fn collection(key: &Key) -> Bytes {
    let len = key.bytes().len() as u16;
    join(&[&[COLLECTION, key.partition().0][..], &len.to_be_bytes()].concat(), key.bytes())
}

/// Whether a row lies below the key of a collection.
pub fn is_below_collection(row: &[u8]) -> bool {
    row.first() == Some(&COLLECTION)
}

/// The key of the collection that a row belongs to, and the row's key below it.
pub fn collection_key(row: &[u8]) -> Option<(Key, &[u8])> {
    let len = usize::from(u16::from_be_bytes(row.get(2..4)?.try_into().ok()?));
    let key = Key::from_bytes(Bytes::copy_from_slice(row.get(4..4 + len)?))?;
    Some((key, &row[4 + len..]))
}

/// The key of a record's row, or of another sort that lies by partition.
pub fn record_key(row: &[u8]) -> Option<Key> {
    Key::from_bytes(Bytes::copy_from_slice(row.get(2..)?))
}

/// Where the records of a partition begin that are not before a key.
pub fn records_from(partition: Partition, from: &[u8]) -> Bytes {
    join(&[RECORD, partition.0], from)
}

/// The first row behind the records of a partition.
pub fn records_end(partition: Partition) -> Bytes {
    match partition.0.checked_add(1) {
        Some(next) => Bytes::copy_from_slice(&[RECORD, next]),
        None => Bytes::from_static(&[DUE]),
    }
}

/// A record that may be removed some time after this stamp.
pub fn due(partition: Partition, stamp: Stamp, key: &Key) -> Bytes {
    let mut head = [DUE, partition.0, 0, 0, 0, 0, 0, 0, 0, 0];
    head[2..].copy_from_slice(&stamp.0.to_be_bytes());
    join(&head, key.bytes())
}

/// Rows of a partition that are due up to a stamp.
pub fn due_range(partition: Partition, upto: Stamp) -> (Bytes, Bytes) {
    let end = due_prefix(partition, upto.next());
    (due_prefix(partition, Stamp::ZERO), end)
}

fn due_prefix(partition: Partition, stamp: Stamp) -> Bytes {
    join(&[DUE, partition.0], &stamp.0.to_be_bytes())
}

pub fn due_key(row: &[u8]) -> Option<(Stamp, Key)> {
    let stamp = Stamp(u64::from_be_bytes(row.get(2..10)?.try_into().ok()?));
    Some((stamp, Key::from_bytes(Bytes::copy_from_slice(row.get(10..)?))?))
}

/// That another node lacks what this one has of a key.
pub fn hint(target: NodeId, key: &Key) -> Bytes {
    join(&hint_prefix(target), key.bytes())
}

pub fn hint_range(target: NodeId) -> (Bytes, Bytes) {
    let from = hint_prefix(target);
    let end = match target.0.checked_add(1) {
        Some(next) => hint_prefix(NodeId(next)),
        None => Bytes::from_static(&[CONFLICT]),
    };
    (from, end)
}

pub fn hint_key(row: &[u8]) -> Option<Key> {
    Key::from_bytes(Bytes::copy_from_slice(row.get(9..)?))
}

fn hint_prefix(target: NodeId) -> Bytes {
    join(&[HINT], &target.0.to_be_bytes())
}

/// A conflict, by time and identity.
pub fn conflict(stamp: Stamp, id: u64) -> Bytes {
    join(&[CONFLICT], &[stamp.0.to_be_bytes(), id.to_be_bytes()].concat())
}

/// All conflicts.
pub fn conflict_range() -> (Bytes, Bytes) {
    (Bytes::from_static(&[CONFLICT]), Bytes::from_static(&[CONFLICT + 1]))
}

fn join(head: &[u8], tail: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(head.len() + tail.len());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(tail);
    bytes.into()
}

/// Rows that become durable together, written down as they come: one record of the log.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

/// A batch begins with capacity for what the last one came to, but not for more than this.
const BATCH_CAPACITY_BYTES: usize = 64 * 1024;

/// Two lengths, and whether there is a value.
const ROW_FRAMING_BYTES_MAX: usize = 2 * 10 + 1;

impl Batch {
    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes.reserve(key.len() + value.map_or(0, <[u8]>::len) + ROW_FRAMING_BYTES_MAX);
        put_bytes(&mut self.bytes, key);
        match value {
            Some(value) => {
                self.bytes.push(1);
                put_bytes(&mut self.bytes, value);
            }
            None => self.bytes.push(0),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What has gathered; another begins.
    pub fn take(&mut self) -> Bytes {
        let next = Vec::with_capacity(self.bytes.len().min(BATCH_CAPACITY_BYTES) + ROW_FRAMING_BYTES_MAX);
        std::mem::replace(&mut self.bytes, next).into()
    }
}

pub fn decode_batch(bytes: Bytes) -> Option<Vec<Row>> {
    let mut reader = Reader::new(bytes);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let key = reader.bytes()?;
        let value = if reader.bool()? { Some(reader.bytes()?) } else { None };
        rows.push(Row { key, value });
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_survive_a_round_trip() {
        let key = Key::new(3, b"name");
        let rows = vec![
            Row { key: record(&key), value: Some(Bytes::from_static(b"v")) },
            Row { key: due(key.partition(), Stamp(77), &key), value: Some(Bytes::new()) },
            Row { key: hint(NodeId(4), &key), value: None },
        ];
        let mut batch = Batch::default();
        rows.iter().for_each(|row| batch.put(&row.key, row.value.as_deref()));
        assert_eq!(decode_batch(batch.take()), Some(rows));
        assert!(batch.is_empty());
        assert_eq!(decode_batch(Bytes::from_static(b"\x05ab")), None);
    }

    #[test]
    fn rows_lie_within_their_ranges() {
        for name in 0..2_000u32 {
            let key = Key::new(1, format!("{name}").as_bytes());
            let (partition, row) = (key.partition(), record(&key));
            assert!(records_from(partition, b"") <= row && row < records_end(partition));
            assert_eq!(record_key(&row), Some(key.clone()));
            let (from, to) = due_range(partition, Stamp(9));
            let row = due(partition, Stamp(9), &key);
            assert!(from <= row && row < to && due(partition, Stamp(10), &key) >= to);
            assert_eq!(due_key(&row), Some((Stamp(9), key.clone())));
            let (from, to) = hint_range(NodeId(u64::MAX));
            let row = hint(NodeId(u64::MAX), &key);
            assert!(from <= row && row < to && hint_key(&row) == Some(key));
        }
    }
}
