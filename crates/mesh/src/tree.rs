//! The Merkle tree of a shard: a thousand hashed buckets of keys, and a root over them.
//! Every record that is put, changed or removed changes its bucket in place; no key is kept. Two replicas whose
//! trees have the same root hold the same records, byte for byte.

use crate::collection::CollectionHeader;
use crate::key::Key;
use crate::record::Record;
use base::checksum::hash64;
use bytes::Bytes;

pub const TREE_LEAVES: usize = 1_024;

/// Far from the hash that chooses the partition, so that a partition's keys spread over all buckets.
const LEAF_SEED: u64 = 0x6c65_6166;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MerkleTree {
    leaves: Box<[u64; TREE_LEAVES]>,
    sum: u64,
}

/// A set of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets([u64; TREE_LEAVES / 64]);

impl Default for MerkleTree {
    fn default() -> MerkleTree {
        MerkleTree { leaves: Box::new([0; TREE_LEAVES]), sum: 0 }
    }
}

pub fn bucket(key: &Key) -> usize {
    hash64(key.bytes(), LEAF_SEED) as usize % TREE_LEAVES
}

/// What a record contributes to its bucket: of a collection, what its replicas have in common.
pub fn digest(key: &Key, record: &Bytes) -> u64 {
    hash64(shared_part(record).as_ref().unwrap_or(record), key.hash())
}

/// The header of a collection without what is the replica's own; none for other records.
fn shared_part(bytes: &Bytes) -> Option<Bytes> {
    let record =
        Some(bytes).filter(|bytes| Record::are_of_collection(bytes)).cloned().and_then(Record::decode)?;
    let header = record.collection_header()?;
    Some(record.with_collection(CollectionHeader { sweep: None, generation: 0, ..header }).encode())
}

impl MerkleTree {
    /// Puts a digest in or takes it out: the two are the same.
    pub fn toggle(&mut self, key: &Key, digest: u64) {
        self.leaves[bucket(key)] ^= digest;
        self.sum ^= digest;
    }

    /// The sum of all digests in the tree; zero when it is empty.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    pub fn root(&self) -> u64 {
        let mut bytes = vec![0; size_of_val(&*self.leaves)];
        let places = bytes.chunks_exact_mut(size_of::<u64>());
        places.zip(self.leaves.iter()).for_each(|(place, leaf)| place.copy_from_slice(&leaf.to_le_bytes()));
        hash64(&bytes, 0)
    }

    pub fn leaves(&self) -> &[u64; TREE_LEAVES] {
        &self.leaves
    }

    /// Buckets that differ from another tree's.
    pub fn differing(&self, other: &[u64]) -> Option<Buckets> {
        let other: &[u64; TREE_LEAVES] = other.try_into().ok()?;
        let mut differing = Buckets([0; TREE_LEAVES / 64]);
        for (idx, (mine, theirs)) in self.leaves.iter().zip(other).enumerate() {
            differing.0[idx / 64] |= u64::from(mine != theirs) << (idx % 64);
        }
        Some(differing)
    }
}

impl Buckets {
    pub fn from_words(words: [u64; TREE_LEAVES / 64]) -> Buckets {
        Buckets(words)
    }

    pub fn words(&self) -> &[u64; TREE_LEAVES / 64] {
        &self.0
    }

    pub fn contains(&self, key: &Key) -> bool {
        let bucket = bucket(key);
        self.0[bucket / 64] >> (bucket % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn the_order_of_changes_leaves_no_trace() {
        let mut rng = Rng::new(7);
        let (mut left, mut right) = (MerkleTree::default(), MerkleTree::default());
        let keys: Vec<Key> = (0..500u32).map(|n| Key::new(0, &n.to_be_bytes())).collect();
        for key in &keys {
            left.toggle(key, digest(key, &Bytes::from_static(b"old")));
            left.toggle(key, digest(key, &Bytes::from_static(b"old")));
            left.toggle(key, digest(key, &Bytes::from_static(b"new")));
        }
        let mut shuffled = keys.clone();
        for nth in 0..shuffled.len() {
            shuffled.swap(nth, rng.between(0, nth as u64 + 1) as usize);
        }
        shuffled.iter().for_each(|key| right.toggle(key, digest(key, &Bytes::from_static(b"new"))));
        assert_eq!(left.root(), right.root());
        right.toggle(&keys[3], digest(&keys[3], &Bytes::from_static(b"new")));
        assert_ne!(left.root(), right.root());
        let differing = left.differing(right.leaves()).unwrap();
        assert!(differing.contains(&keys[3]));
        assert_eq!(
            keys.iter().filter(|key| differing.contains(key) && bucket(key) != bucket(&keys[3])).count(),
            0
        );
    }
}
