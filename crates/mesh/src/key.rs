//! A key of the mesh: the number of its namespace, then the name that the client gave.
//! The bytes sort as the names do within a namespace, and their hash says which partition the key lies in.

use crate::ring::Partition;
use base::checksum::hash64;
use base::limits::MESH_NAME_BYTES_MAX;
use bytes::Bytes;

const NAMESPACE_ID_BYTES: usize = 4;
/// No namespace has this number: what is remembered of the requests to a key lies there, under the key and the request.
pub const REQUESTS: u32 = u32::MAX;
const REQUEST_BYTES: usize = 8;

/// A key of the data plane. It keeps its hash, which every step of a write asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    bytes: Bytes,
    hash: u64,
}

impl Key {
    pub fn new(namespace_id: u32, name: &[u8]) -> Key {
        let mut bytes = Vec::with_capacity(NAMESPACE_ID_BYTES + name.len());
        bytes.extend_from_slice(&namespace_id.to_be_bytes());
        bytes.extend_from_slice(name);
        Key::of(bytes.into())
    }

    /// From a peer or a row; `None` if it cannot be a key.
    pub fn from_bytes(bytes: Bytes) -> Option<Key> {
        let is_request = bytes.starts_with(&REQUESTS.to_be_bytes());
        let more = if is_request { NAMESPACE_ID_BYTES + REQUEST_BYTES } else { 0 };
        let lawful = (NAMESPACE_ID_BYTES + more..=NAMESPACE_ID_BYTES + more + MESH_NAME_BYTES_MAX)
            .contains(&bytes.len());
        lawful.then(|| Key::of(bytes))
    }

    /// Where a request to this key is remembered: in the same partition.
    pub fn of_request(&self, request: u64) -> Key {
        let parts: [&[u8]; 3] = [&REQUESTS.to_be_bytes(), &self.bytes, &request.to_be_bytes()];
        Key::of(parts.concat().into())
    }

    fn of(bytes: Bytes) -> Key {
        let mut hash = hash64(&bytes, 0);
        if let Some(parent) = parent_bytes(&bytes) {
            // The partition is in the first byte.
            hash = hash >> 8 | hash64(parent, 0) & 0xff << 56;
        }
        Key { bytes, hash }
    }

    /// The key and the request, if this is where one is remembered.
    pub fn request(&self) -> Option<(Key, u64)> {
        let parent = parent_bytes(&self.bytes)?.len();
        let request = self.bytes[NAMESPACE_ID_BYTES + parent..].try_into().ok()?;
        Some((
            Key::of(self.bytes.slice(NAMESPACE_ID_BYTES..NAMESPACE_ID_BYTES + parent)),
            u64::from_be_bytes(request),
        ))
    }

    /// The namespace whose replicas keep it.
    pub fn kept_by(&self) -> u32 {
        let parent = parent_bytes(&self.bytes).unwrap_or(&self.bytes);
        u32::from_be_bytes(parent[..NAMESPACE_ID_BYTES].try_into().expect("a key has its namespace"))
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn namespace_id(&self) -> u32 {
        u32::from_be_bytes(self.bytes[..NAMESPACE_ID_BYTES].try_into().expect("a key has its namespace"))
    }

    pub fn name(&self) -> Bytes {
        self.bytes.slice(NAMESPACE_ID_BYTES..)
    }

    pub fn name_slice(&self) -> &[u8] {
        &self.bytes[NAMESPACE_ID_BYTES..]
    }

    pub fn name_bytes(&self) -> usize {
        self.bytes.len() - NAMESPACE_ID_BYTES
    }

    pub fn partition(&self) -> Partition {
        Partition::of_hash(self.hash)
    }
}

/// The key in the bytes of one under which a request is remembered.
fn parent_bytes(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(&REQUESTS.to_be_bytes())?;
    let parent = &rest[..rest.len().checked_sub(REQUEST_BYTES)?];
    (parent.len() >= NAMESPACE_ID_BYTES).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_lies_in_the_partition_of_its_key() {
        for n in 0..200_u64 {
            let key = Key::new(7, format!("k{n}").as_bytes());
            let remembered = key.of_request(n);
            assert_eq!(remembered.partition(), key.partition());
            assert_eq!((remembered.namespace_id(), remembered.kept_by(), key.kept_by()), (REQUESTS, 7, 7));
            assert_eq!(remembered.request(), Some((key.clone(), n)));
            assert_eq!(Key::from_bytes(remembered.bytes().clone()), Some(remembered));
            assert_eq!(key.request(), None);
        }
        assert_eq!(Key::from_bytes(Bytes::from_static(b"\xff\xff\xff\xffshort")), None);
    }
}
