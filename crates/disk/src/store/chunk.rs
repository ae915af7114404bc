//! A snapshot on its way to another member: rows of a pinned view, cut into chunks of bounded size.
//! `Chunks` reads a view table by table in key order; `decode` turns one chunk back into rows and answers
//! `None` to anything that is not whole, without panicking or allocating more than the input justifies.

use super::StoreView;
use base::{ReadView, Row, Table, checksum, codec};
use bytes::{BufMut, Bytes};
use std::ops::Bound;
use std::sync::Arc;

/// The first byte of a chunk.
const VERSION: u8 = 1;
/// Version and checksum.
const HEAD_BYTES: usize = 5;

/// Yields every row of the view once, in chunks of at most `chunk_bytes`; a row that is longer travels alone.
pub struct Chunks {
    view: Arc<StoreView>,
    chunk_bytes: usize,
    /// The table being read, as an index into all tables; behind the last one when all is said.
    table_idx: usize,
    /// The first key of that table that has not been sent, if not the very first.
    resume: Option<Vec<u8>>,
}

impl Chunks {
    pub fn new(view: Arc<StoreView>, chunk_bytes: usize) -> Chunks {
        Chunks { view, chunk_bytes, table_idx: 0, resume: None }
    }

    /// How many chunks there will be, and how long they are together: found by walking the rows, without
    /// building them. After each there may be a rest.
    pub fn measure(&self, rest: &mut dyn FnMut()) -> Extent {
        let mut extent = Extent::default();
        let mut open_bytes = HEAD_BYTES;
        for table in Table::ALL {
            self.view.scan(table, Bound::Unbounded, Bound::Unbounded, &mut |key, value| {
                let row = row_len(key, value);
                if open_bytes > HEAD_BYTES && open_bytes + row > self.chunk_bytes {
                    extent.add(open_bytes);
                    open_bytes = HEAD_BYTES;
                    rest();
                }
                open_bytes += row;
                true
            });
        }
        if open_bytes > HEAD_BYTES {
            extent.add(open_bytes);
        }
        extent
    }

    /// Adds rows of one table from where the last chunk ended; `Some` is the first key that did not fit.
    fn fill(&mut self, table: Table, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        let from = self.resume.take();
        let from = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let mut refused = None;
        self.view.scan(table, from, Bound::Unbounded, &mut |key, value| {
            let fits = out.len() == HEAD_BYTES || out.len() + row_len(key, value) <= self.chunk_bytes;
            if fits {
                put_row(out, table, key, value);
            } else {
                refused = Some(key.to_vec());
            }
            fits
        });
        refused
    }
}

/// The size of all chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub chunks: u64,
    pub bytes: u64,
}

impl Extent {
    fn add(&mut self, chunk_bytes: usize) {
        self.chunks += 1;
        self.bytes += chunk_bytes as u64;
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = vec![0; HEAD_BYTES];
        while let Some(table) = Table::ALL.get(self.table_idx).copied() {
            self.resume = self.fill(table, &mut out);
            if self.resume.is_some() {
                break;
            }
            self.table_idx += 1;
        }
        (out.len() > HEAD_BYTES).then(|| seal(out))
    }
}

fn row_len(key: &[u8], value: &[u8]) -> usize {
    let prefixed = |len: usize| codec::varint_len(len as u64) + len;
    1 + prefixed(key.len()) + prefixed(value.len())
}

fn put_row(out: &mut Vec<u8>, table: Table, key: &[u8], value: &[u8]) {
    out.put_u8(table as u8);
    codec::put_bytes(out, key);
    codec::put_bytes(out, value);
}

fn seal(mut out: Vec<u8>) -> Bytes {
    let crc = checksum::crc32(&[&out[HEAD_BYTES..]]);
    out[0] = VERSION;
    out[1..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
    Bytes::from(out)
}

/// The rows of one chunk, as slices of it; `None` when it is damaged or of another version.
pub fn decode(chunk: Bytes) -> Option<Vec<Row>> {
    let mut reader = codec::Reader::new(chunk);
    if reader.u8()? != VERSION {
        return None;
    }
    let crc = reader.u32()?;
    let body = reader.rest();
    if crc != checksum::crc32(&[&body]) {
        return None;
    }
    let mut reader = codec::Reader::new(body);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let table = Table::from_number(reader.u8()?)?;
        let key = reader.bytes()?;
        let value = Some(reader.bytes()?);
        rows.push(Row { table, key, value });
    }
    Some(rows)
}
