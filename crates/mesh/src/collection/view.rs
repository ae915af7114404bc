//! The rows of one collection, as the storage shows them: keys below the collection's own key, in order.
//! The first byte of a key says what the row is. Only element rows are replicated; the others follow from them, are written in
//! the same batch, and make reads by score, by expiry and by rank cost a logarithm.

use crate::decimal::Decimal;
use bytes::Bytes;

/// A synchronous read of a collection's rows.
pub trait CollectionRows {
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// Visits the rows of a range until the visitor answers `false`.
    fn scan(&self, range: &RowRange, direction: Direction, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// Every key in `[from, to)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRange {
    pub from: Bytes,
    pub to: Bytes,
}

const ELEMENT: u8 = 1;
const BY_SCORE: u8 = 2;
const BY_EXPIRY: u8 = 3;
const RANGE: u8 = 4;

const SCORE_BYTES: usize = 16;

/// In which order a tree of ranges counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RangeOrder {
    ByElement = 0,
    ByScore = 1,
}

impl RowRange {
    /// Whether the collection has no visible element.
    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }
}

pub fn element(name: &[u8]) -> Bytes {
    join(&[ELEMENT], name)
}

pub fn element_name(key: &[u8]) -> Option<Bytes> {
    key.strip_prefix(&[ELEMENT]).map(Bytes::copy_from_slice)
}

/// Element rows behind a name, or all.
pub fn elements_after(after: Option<&[u8]>) -> RowRange {
    let from = after.map_or_else(|| element(b""), |name| successor(&element(name)));
    RowRange { from, to: Bytes::from_static(&[ELEMENT + 1]) }
}

/// Element rows before a name, or all.
pub fn elements_before(before: Option<&[u8]>) -> RowRange {
    let to = before.map_or_else(|| Bytes::from_static(&[ELEMENT + 1]), element);
    RowRange { from: element(b""), to }
}

/// Element rows in `[from, to)`, to the end without a `to`.
pub fn elements_between(from: &[u8], to: Option<&[u8]>) -> RowRange {
    RowRange { from: element(from), to: elements_before(to).to }
}

/// A score and a name, in an order that is that of the scores first.
pub fn score_place(score: Decimal, name: &[u8]) -> Bytes {
    let ordered = (score.0 as u128) ^ 1 << 127;
    join(&ordered.to_be_bytes(), name)
}

pub fn score_row(place: &[u8]) -> Bytes {
    join(&[BY_SCORE], place)
}

/// The place in the order of scores that a row stands for, and the name in it.
pub fn score_row_place(key: &[u8]) -> Option<(Bytes, Bytes)> {
    let place = key.strip_prefix(&[BY_SCORE])?;
    let name = place.get(SCORE_BYTES..)?;
    Some((Bytes::copy_from_slice(place), Bytes::copy_from_slice(name)))
}

/// Score rows whose place is in `[from, to)`, to the end without a `to`.
pub fn scores_between(from: &[u8], to: Option<&[u8]>) -> RowRange {
    let to = to.map_or_else(|| Bytes::from_static(&[BY_SCORE + 1]), score_row);
    RowRange { from: score_row(from), to }
}

pub fn expiry_row(expires_ms: u64, name: &[u8]) -> Bytes {
    join(&[&[BY_EXPIRY][..], &expires_ms.to_be_bytes()].concat(), name)
}

/// The name in a row of an expiry.
pub fn expiry_row_name(key: &[u8]) -> Option<Bytes> {
    key.strip_prefix(&[BY_EXPIRY])?.get(size_of::<u64>()..).map(Bytes::copy_from_slice)
}

/// The time in a row of an expiry.
pub fn expires_ms(key: &[u8]) -> Option<u64> {
    let time = key.strip_prefix(&[BY_EXPIRY])?.first_chunk()?;
    Some(u64::from_be_bytes(*time))
}

/// Rows of expiries up to a time.
pub fn expiries_upto(wall_ms: u64) -> RowRange {
    RowRange { from: expiry_row(0, b""), to: expiry_row(wall_ms.saturating_add(1), b"") }
}

/// A range of a tree that begins at a key, or at the beginning.
pub fn range_row(tree: &[u8], level: u8, key: Option<&[u8]>) -> Bytes {
    let head = [tree, &[level, u8::from(key.is_some())]].concat();
    join(&head, key.unwrap_or(b""))
}

/// The key at which a range begins, none for the beginning.
pub fn range_row_key(tree: &[u8], row: &[u8]) -> Option<Bytes> {
    let rest = row.strip_prefix(tree)?;
    rest.get(1).filter(|has_key| **has_key == 1)?;
    Some(Bytes::copy_from_slice(&rest[2..]))
}

/// What the rows of a tree begin with.
pub fn tree_prefix(order: RangeOrder, generation: u32) -> Bytes {
    join(&[RANGE, order as u8], &generation.to_be_bytes())
}

/// Every row of trees of a generation before this one.
pub fn trees_before(order: RangeOrder, generation: u32) -> RowRange {
    RowRange { from: tree_prefix(order, 0), to: tree_prefix(order, generation) }
}

/// The first key behind a key.
pub fn successor(key: &[u8]) -> Bytes {
    join(key, b"\0")
}

fn join(head: &[u8], tail: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(head.len() + tail.len());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(tail);
    bytes.into()
}
