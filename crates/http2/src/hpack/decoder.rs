//! Reads blocks of header fields. Blocks go in, in the order in which they came, and their fields come out one by
//! one. The table is kept exactly as the sender keeps it, or everything after would be misread; it never holds more
//! than the protocol's default.

use super::{Field, Malformed, TABLE_BYTES, huffman, static_table};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Decoder {
    /// The newest first.
    table: VecDeque<Field>,
    bytes: usize,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { table: VecDeque::new(), bytes: 0, limit: TABLE_BYTES }
    }
}

impl Decoder {
    /// Even when the fields are not needed the whole block must be read.
    pub fn decode(&mut self, mut block: Bytes, mut visit: impl FnMut(Field)) -> Result<(), Malformed> {
        let mut begun = false;
        while let Some(first) = block.first().copied() {
            if let 0x20..0x40 = first {
                // The size of the table changes between blocks, not within them.
                if begun {
                    return Err(Malformed);
                }
                self.resize(integer(&mut block, 5)?)?;
                continue;
            }
            begun = true;
            match first {
                0x80.. => visit(self.field(integer(&mut block, 7)?)?),
                0x40.. => {
                    let field = self.literal(&mut block, 6)?;
                    self.insert(field.clone());
                    visit(field);
                }
                _ => visit(self.literal(&mut block, 4)?),
            }
        }
        Ok(())
    }

    fn field(&self, idx: usize) -> Result<Field, Malformed> {
        match idx.checked_sub(static_table::LEN + 1) {
            Some(dynamic) => self.table.get(dynamic).cloned().ok_or(Malformed),
            None => static_table::field(idx).ok_or(Malformed),
        }
    }

    fn literal(&self, block: &mut Bytes, prefix: u32) -> Result<Field, Malformed> {
        let idx = integer(block, prefix)?;
        let name = if idx == 0 { string(block)? } else { self.field(idx)?.name };
        Ok(Field { name, value: string(block)? })
    }

    fn insert(&mut self, field: Field) {
        self.bytes += field.bytes();
        self.table.push_front(field);
        self.evict();
    }

    fn resize(&mut self, limit: usize) -> Result<(), Malformed> {
        self.limit = if limit <= TABLE_BYTES { limit } else { return Err(Malformed) };
        self.evict();
        Ok(())
    }

    fn evict(&mut self) {
        while self.bytes > self.limit {
            let oldest = self.table.pop_back().expect("bytes are counted only for fields that are there");
            self.bytes -= oldest.bytes();
        }
    }
}

/// An integer whose first `prefix` bits lie in the first byte.
fn integer(block: &mut Bytes, prefix: u32) -> Result<usize, Malformed> {
    let mask = (1usize << prefix) - 1;
    let mut number = usize::from(block.try_get_u8().map_err(|_| Malformed)?) & mask;
    if number < mask {
        return Ok(number);
    }
    for shift in [0, 7, 14, 21] {
        let byte = block.try_get_u8().map_err(|_| Malformed)?;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed)
}

/// A string, plain or in Huffman's code. It is copied: a field may live long, and must not keep the memory of all
/// that was read together with it.
fn string(block: &mut Bytes) -> Result<Bytes, Malformed> {
    let coded = block.first().ok_or(Malformed)? & 0x80 != 0;
    let len = integer(block, 7)?;
    if block.len() < len {
        return Err(Malformed);
    }
    let text = block.split_to(len);
    if coded { huffman::decode(&text).map(Bytes::from) } else { Ok(Bytes::copy_from_slice(&text)) }
}
