//! The ring: 2^64 positions, cut into 256 partitions of equal length.
//! A node stands at several positions, each the MD5 of its stable id and a number; a key lies at the XXH3 of its
//! bytes. Both are part of the format: changing one moves every record of every cluster.

use base::NodeId;

pub const PARTITIONS: usize = 256;

/// One of the fixed slices of the ring; what is placed, streamed and compared as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u8);

impl Partition {
    /// The partition of a key with this hash.
    pub fn of_hash(hash: u64) -> Partition {
        Partition((hash >> 56) as u8)
    }

    pub fn all() -> impl Iterator<Item = Partition> {
        (0..=u8::MAX).map(Partition)
    }

    /// Its first position.
    pub fn start(self) -> u64 {
        u64::from(self.0) << 56
    }

    pub fn idx(self) -> usize {
        usize::from(self.0)
    }
}

/// Where a node stands with its `number`th point: the first eight bytes of the MD5 of `id:number` in decimal.
pub fn position(node: NodeId, number: u32) -> u64 {
    let digest = md5::compute(format!("{}:{number}", node.0));
    u64::from_be_bytes(digest.0[..8].try_into().expect("a digest has sixteen bytes"))
}

/// A set of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partitions([u64; PARTITIONS / 64]);

impl Partitions {
    pub const NONE: Partitions = Partitions([0; PARTITIONS / 64]);

    pub fn from_words(words: [u64; PARTITIONS / 64]) -> Partitions {
        Partitions(words)
    }

    pub fn words(&self) -> &[u64; PARTITIONS / 64] {
        &self.0
    }

    pub fn contains(&self, partition: Partition) -> bool {
        self.0[partition.idx() / 64] >> (partition.idx() % 64) & 1 == 1
    }

    pub fn insert(&mut self, partition: Partition) {
        self.0[partition.idx() / 64] |= 1 << (partition.idx() % 64);
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::checksum::hash64;

    #[test]
    fn positions_are_the_md5_of_id_and_number() {
        // `printf 7:0 | md5sum`, as the RFC's test vectors are checked by the library itself.
        assert_eq!(format!("{:x}", md5::compute("")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(format!("{:x}", md5::compute("message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
        let digest = format!("{:x}", md5::compute("7:0"));
        assert_eq!(format!("{:016x}", position(NodeId(7), 0)), digest[..16]);
    }

    #[test]
    fn keys_spread_over_the_partitions() {
        let mut count = [0u32; PARTITIONS];
        for n in 0..256_000u32 {
            count[Partition::of_hash(hash64(format!("user:{n}").as_bytes(), 0)).idx()] += 1;
        }
        assert!(count.iter().all(|n| (850..1_150).contains(n)), "{count:?}");
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = Partitions::default();
        for partition in Partition::all().filter(|p| p.0 % 3 == 0) {
            set.insert(partition);
        }
        assert!(Partition::all().all(|p| set.contains(p) == (p.0 % 3 == 0)));
        assert_eq!(set.len(), 86);
    }
}
