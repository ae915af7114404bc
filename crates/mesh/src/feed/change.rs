//! One change of a record, as a node sends it.

use crate::conflict::Conflict;
use crate::key::Key;
use base::codec::{Reader, put_bytes};
use bytes::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChangeKind {
    /// The record after the change; a delete leaves a tombstone.
    Record = 0,
    /// The end of the record has come.
    Expired = 1,
    /// The record was deleted elsewhere, and every other replica has forgotten the delete. This is what was here.
    Gone = 2,
    /// Two writes met that had not seen each other.
    Conflict = 3,
    /// The first page of all elements of a collection: what was told of its elements before counts no more.
    FirstElements = 4,
    /// Elements of a collection as they are now: another page, or what a comparison with another replica has brought.
    Elements = 5,
}

impl ChangeKind {
    const ALL: [ChangeKind; 6] = [
        ChangeKind::Record,
        ChangeKind::Expired,
        ChangeKind::Gone,
        ChangeKind::Conflict,
        ChangeKind::FirstElements,
        ChangeKind::Elements,
    ];

    /// Whether it shows elements that the versions of a record do not tell apart.
    pub fn has_elements_alone(self) -> bool {
        matches!(self, ChangeKind::FirstElements | ChangeKind::Elements)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    pub key: Key,
    /// The encoded record, or the encoded conflict.
    pub value: Bytes,
}

impl Change {
    /// None if the bytes are no conflict.
    pub fn of_conflict(value: &Bytes) -> Option<Change> {
        let key = Conflict::decode(value.clone())?.key;
        Some(Change { kind: ChangeKind::Conflict, key, value: value.clone() })
    }

    pub fn bytes(&self) -> usize {
        self.key.bytes().len() + self.value.len()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        put_bytes(out, self.key.bytes());
        put_bytes(out, &self.value);
    }

    pub fn decode(reader: &mut Reader) -> Option<Change> {
        let number = reader.u8()?;
        let kind = ChangeKind::ALL.into_iter().find(|kind| *kind as u8 == number)?;
        Some(Change { kind, key: Key::from_bytes(reader.bytes()?)?, value: reader.bytes()? })
    }
}
