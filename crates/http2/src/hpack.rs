//! Header fields in HTTP/2's compressed blocks (RFC 7541), in both directions.
//! A block is read and written against a table that both sides keep alike; the two directions have one each.

mod decoder;
mod encoder;
mod huffman;
mod static_table;

pub use decoder::Decoder;
pub use encoder::Encoder;

use bytes::Bytes;

/// What either side may keep in its table unless the other says otherwise.
const TABLE_BYTES: usize = 4_096;
/// What a field costs in the table, and in a list of fields, beside its bytes.
const FIELD_BYTES: usize = 32;

/// One header field; names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: Bytes,
    pub value: Bytes,
}

impl Field {
    pub const fn from_static(name: &'static str, value: &'static str) -> Field {
        Field { name: Bytes::from_static(name.as_bytes()), value: Bytes::from_static(value.as_bytes()) }
    }

    /// As the limits of tables and lists measure it.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_BYTES
    }
}

/// The block does not follow the rules, and no block after it can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[cfg(test)]
mod tests;
