//! Values for the keys of a page, from memory and from walks along the store's rows.
//! Keys in their order go in, encoded ones come out, as many as fit. Rows lie in the order in which they were
//! written; keys that were written in their order are neighbours there and come without a search.

use super::{KeyEncoder, KeyValueRef};
use base::{LeaseId, ReadView, Table};
use bytes::Bytes;
use coord::pieces::{Content, Version};
use coord::rows::{content_in_row, version_key};
use disk::StoreView;
use node::apply::{PageRow, ValueSource};
use std::cmp::Ordering;
use std::ops::Bound::{Included, Unbounded};

/// Rows of other versions that are passed over before the next one is searched for.
const PASSED_MAX: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub enum FillResult {
    /// So many rows were encoded.
    Rows { bytes: Vec<u8>, rows: usize },
    /// The first row alone needs this much space.
    TooLarge(usize),
    /// There is no row.
    Nothing,
}

/// Encodes rows while they fit.
pub fn fill(rows: &[PageRow], view: &StoreView, encode: &dyn KeyEncoder, bytes_max: usize) -> FillResult {
    let filling = PageFiller { rows, done: 0, out: Vec::new(), encode, bytes_max, refused: None };
    filling.run(view)
}

/// The sizes of versions that the store has.
pub fn measure_stored(versions: &[(Bytes, Version)], view: &StoreView, encode: &dyn KeyEncoder) -> u64 {
    let mut row_key = Vec::new();
    let sizes = versions.iter().map(|(key, version)| {
        row_key.clear();
        version_key(key, version.modified, &mut row_key);
        let row = view.get(Table::Versions, &row_key).expect("an indexed version has a record");
        let (lease, value) = content_in_row(&row).expect("a version's row is whole");
        encode.size(key.len(), version, content(lease, value)) as u64
    });
    sizes.sum()
}

fn content(lease: LeaseId, value: &[u8]) -> Content {
    Content { lease, value_len: u32::try_from(value.len()).expect("a value is far below 4 GiB") }
}

struct PageFiller<'a> {
    rows: &'a [PageRow],
    /// Rows that are encoded.
    done: usize,
    out: Vec<u8>,
    encode: &'a dyn KeyEncoder,
    bytes_max: usize,
    /// The size of the first row that did not fit.
    refused: Option<usize>,
}

impl PageFiller<'_> {
    fn run(mut self, view: &StoreView) -> FillResult {
        let mut wanted = Vec::new();
        while self.next_stored(&mut wanted) {
            let start = wanted.clone();
            let done_before = self.done;
            let mut passed = 0;
            view.scan(Table::Versions, Included(&start), Unbounded, &mut |row_key, row| match row_key
                .cmp(wanted.as_slice())
            {
                Ordering::Less => {
                    passed += 1;
                    passed < PASSED_MAX
                }
                Ordering::Equal => {
                    let (lease, value) = content_in_row(row).expect("a version's row is whole");
                    passed = 0;
                    self.put(lease, value) && self.next_stored(&mut wanted)
                }
                Ordering::Greater => {
                    // The next one was written earlier, and is searched for.
                    assert!(self.done > done_before, "an indexed version has a record");
                    false
                }
            });
            let moved = self.done > done_before || self.refused.is_some();
            assert!(moved, "an indexed version has a record");
        }
        match (self.done, self.refused) {
            (0, Some(needed)) => FillResult::TooLarge(needed),
            (0, None) => FillResult::Nothing,
            (rows, _) => FillResult::Rows { bytes: self.out, rows },
        }
    }

    /// Encodes the rows that are in memory. True, with the row's key in the store, at the first that is not.
    fn next_stored(&mut self, wanted: &mut Vec<u8>) -> bool {
        let rows = self.rows;
        while self.refused.is_none()
            && let Some(row) = rows.get(self.done)
        {
            match &row.source {
                ValueSource::NotRequested => self.put(LeaseId::NONE, &[]),
                ValueSource::Memory(record) => self.put(record.lease, &record.value),
                ValueSource::Store => {
                    wanted.clear();
                    version_key(&row.key, row.version.modified, wanted);
                    return true;
                }
            };
        }
        false
    }

    /// Encodes the next row; false when it does not fit.
    fn put(&mut self, lease: LeaseId, value: &[u8]) -> bool {
        let PageRow { key, version, .. } = &self.rows[self.done];
        let size = self.encode.size(key.len(), version, content(lease, value));
        if self.out.len() + size > self.bytes_max {
            self.refused = Some(size);
            return false;
        }
        if self.out.capacity() == 0 {
            self.out.reserve_exact(self.bytes_max);
        }
        self.encode.put(&mut self.out, KeyValueRef { key, version: *version, lease, value });
        assert!(self.out.len() <= self.bytes_max, "a piece keeps within its share");
        self.done += 1;
        true
    }
}
