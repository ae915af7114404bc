//! A permission: some keys, and what may be done with them.
//! It is spelt on the wire as ranges of keys are, and listed as it was granted, whatever else covers the same keys.

use base::codec::{Reader, put_bytes};
use base::{KeyRange, RangeEnd};
use bytes::Bytes;

/// Numbered as in etcd's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    Read = 0,
    Write = 1,
    ReadWrite = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub keys: KeyRange,
    pub access: Access,
}

impl Access {
    pub fn from_number(number: u8) -> Option<Access> {
        match number {
            0 => Some(Access::Read),
            1 => Some(Access::Write),
            2 => Some(Access::ReadWrite),
            _ => None,
        }
    }

    pub(super) fn reads(self) -> bool {
        self != Access::Write
    }

    pub(super) fn writes(self) -> bool {
        self != Access::Read
    }
}

impl Permission {
    pub(super) fn of_root() -> Permission {
        let keys = KeyRange { start: Bytes::new(), end: RangeEnd::Open };
        Permission { keys, access: Access::ReadWrite }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.access as u8);
        encode_keys(&self.keys, out);
    }

    pub(super) fn decode(reader: &mut Reader) -> Option<Permission> {
        let access = Access::from_number(reader.u8()?)?;
        Some(Permission { keys: decode_keys(reader)?, access })
    }
}

/// In the wire's spelling, which every range has and which names no other.
pub(super) fn encode_keys(keys: &KeyRange, out: &mut Vec<u8>) {
    put_bytes(out, &keys.start);
    put_bytes(out, &keys.wire_end());
}

pub(super) fn decode_keys(reader: &mut Reader) -> Option<KeyRange> {
    Some(KeyRange::from_wire(reader.bytes()?, reader.bytes()?))
}
