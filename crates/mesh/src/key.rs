//! A key of the mesh: the number of its namespace, then the name that the client gave.
//! The bytes sort as the names do within a namespace, and their hash says which partition the key lies in.

use crate::ring::Partition;
use base::checksum::hash64;
use base::limits::MESH_NAME_BYTES_MAX;
use bytes::Bytes;

const SPACE_BYTES: usize = 4;

/// It knows its hash, which is asked for again and again on the way of a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    bytes: Bytes,
    hash: u64,
}

impl Key {
    pub fn new(space: u32, name: &[u8]) -> Key {
        let mut bytes = Vec::with_capacity(SPACE_BYTES + name.len());
        bytes.extend_from_slice(&space.to_be_bytes());
        bytes.extend_from_slice(name);
        Key::of(bytes.into())
    }

    /// From a peer or a row; `None` if it cannot be a key.
    pub fn from_bytes(bytes: Bytes) -> Option<Key> {
        let lawful = (SPACE_BYTES..=SPACE_BYTES + MESH_NAME_BYTES_MAX).contains(&bytes.len());
        lawful.then(|| Key::of(bytes))
    }

    fn of(bytes: Bytes) -> Key {
        let hash = hash64(&bytes, 0);
        Key { bytes, hash }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn space(&self) -> u32 {
        u32::from_be_bytes(self.bytes[..SPACE_BYTES].try_into().expect("a key has its namespace"))
    }

    pub fn name(&self) -> Bytes {
        self.bytes.slice(SPACE_BYTES..)
    }

    pub fn name_bytes(&self) -> usize {
        self.bytes.len() - SPACE_BYTES
    }

    pub fn partition(&self) -> Partition {
        Partition::of_hash(self.hash)
    }
}
