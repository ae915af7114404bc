//! Protobuf as far as etcd's rows need it: numbers and bytes in fields, in ascending order, without those that have their default.

use base::codec::{Reader, put_varint};
use bytes::Bytes;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

pub(crate) enum Field {
    Number(u64),
    Bytes(Bytes),
}

#[derive(Default)]
pub(crate) struct Message(pub Vec<u8>);

impl Message {
    pub fn number(mut self, field: u64, number: u64) -> Message {
        if number != 0 {
            put_varint(&mut self.0, field << 3 | VARINT);
            put_varint(&mut self.0, number);
        }
        self
    }

    pub fn bytes(self, field: u64, bytes: &[u8]) -> Message {
        if bytes.is_empty() { self } else { self.element(field, bytes) }
    }

    /// Adds an element of a list, where an empty one counts.
    pub fn element(mut self, field: u64, bytes: &[u8]) -> Message {
        put_varint(&mut self.0, field << 3 | LENGTH);
        put_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Hands every field over; none if the bytes are no message or the function does not want one.
pub(crate) fn read(bytes: Bytes, each: &mut dyn FnMut(u64, Field) -> Option<()>) -> Option<()> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.varint()?;
        let field = match tag & 7 {
            VARINT => Field::Number(reader.varint()?),
            LENGTH => Field::Bytes(reader.bytes()?),
            FIXED64 => Field::Number(reader.u64()?),
            FIXED32 => {
                reader.take(4)?;
                continue;
            }
            _ => return None,
        };
        each(tag >> 3, field)?;
    }
    Some(())
}
