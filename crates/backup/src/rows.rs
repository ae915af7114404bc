//! Rows of the data plane as contents of objects: key and value, one row after the other. Rows come in the order of their keys
//! and are cut into contents at keys that their own hash chooses, so that a row that is added or grows changes one object
//! and not all behind it.

use crate::object::CONTENT_BYTES_MAX;
use base::checksum::hash64;
use base::codec::{Reader, put_bytes};
use bytes::Bytes;

/// Contents are cut behind so many bytes at the earliest, and behind so many at once.
const CUT_BYTES_MIN: usize = 256 * 1024;
const CUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// One key in so many may begin a content.
const CUT_KEYS: u64 = 256;

const _: () = assert!(4 * CUT_BYTES_MAX < CONTENT_BYTES_MAX);

/// What the key of a row below a collection begins with; see docs/formats/mesh-rows.md.
pub const BELOW_COLLECTION: u8 = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRow {
    pub key: Bytes,
    pub value: Bytes,
}

impl DataRow {
    pub fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    pub fn is_element(&self) -> bool {
        self.key.first() == Some(&BELOW_COLLECTION)
    }
}

/// Gathers rows of one partition.
#[derive(Debug, Default)]
pub struct RowChunks {
    content: Vec<u8>,
    last_key: Bytes,
}

impl RowChunks {
    /// The content before this row, if it ends there. Rows of one key stay together.
    pub fn add(&mut self, row: &DataRow) -> Option<Vec<u8>> {
        let may_cut = row.key != self.last_key;
        let is_chosen = self.content.len() >= CUT_BYTES_MIN && hash64(&row.key, 0).is_multiple_of(CUT_KEYS);
        let cut = may_cut && (is_chosen || self.content.len() >= CUT_BYTES_MAX);
        let before = cut.then(|| std::mem::take(&mut self.content));
        self.last_key = row.key.clone();
        put_bytes(&mut self.content, &row.key);
        put_bytes(&mut self.content, &row.value);
        before
    }

    /// The last content, if there is one.
    pub fn finish(self) -> Option<Vec<u8>> {
        Some(self.content).filter(|content| !content.is_empty())
    }
}

/// None if these are not rows.
pub fn decode_rows(content: Bytes) -> Option<Vec<DataRow>> {
    let mut reader = Reader::new(content);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        rows.push(DataRow { key: reader.bytes()?, value: reader.bytes()? });
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn contents(rows: &[DataRow]) -> Vec<Vec<u8>> {
        let mut chunks = RowChunks::default();
        let mut contents: Vec<Vec<u8>> = rows.iter().filter_map(|row| chunks.add(row)).collect();
        contents.extend(chunks.finish());
        contents
    }

    fn rows(names: impl Iterator<Item = u32>) -> Vec<DataRow> {
        let value = Bytes::from(vec![b'v'; 1_000]);
        names.map(|n| DataRow { key: Bytes::from(format!("key {n:08}")), value: value.clone() }).collect()
    }

    #[test]
    fn rows_come_back_in_order() {
        let rows = rows(0..3_000);
        let contents = contents(&rows);
        assert!(contents.len() > 3);
        let back: Vec<DataRow> =
            contents.into_iter().flat_map(|content| decode_rows(content.into()).unwrap()).collect();
        assert_eq!(back, rows);
        assert_eq!(decode_rows(Bytes::from_static(b"\x05ab")), None);
        assert!(RowChunks::default().finish().is_none());
    }

    #[test]
    fn a_row_that_is_added_changes_few_contents() {
        let before: BTreeSet<Vec<u8>> =
            contents(&rows((0..6_000).filter(|n| *n != 1_000))).into_iter().collect();
        let after: BTreeSet<Vec<u8>> = contents(&rows(0..6_000)).into_iter().collect();
        let new = after.difference(&before).count();
        assert!(new <= 2 && after.len() > 5, "{new} of {} contents are new", after.len());
    }

    #[test]
    fn copies_of_one_key_stay_together() {
        let row = |n: u8| DataRow { key: Bytes::from_static(b"one"), value: Bytes::from(vec![n; 3 << 20]) };
        assert_eq!(contents(&[row(1), row(2), row(3)]).len(), 1);
    }
}
