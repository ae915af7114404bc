//! The two checksums of Althing: CRC-32 where bytes rest or travel, XXH3 where states are compared. Both are stable
//! parts of file formats; changing one is a migration.

use xxhash_rust::xxh3;

/// CRC-32 over several parts without joining them.
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// A 64-bit hash for identities and for rolling state hashes.
pub fn hash64(bytes: &[u8], seed: u64) -> u64 {
    xxh3::xxh3_64_with_seed(bytes, seed)
}
