//! SHA-256 (FIPS 180-4), for the trailer that etcd's tools expect behind a backup. Bytes go in by pieces of any size;
//! a digest of 32 bytes comes out. It guards against damage and is not used for secrets, so it is written for
//! readability.

pub const DIGEST_BYTES: usize = 32;

const BLOCK_BYTES: usize = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const ROUND: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

#[derive(Clone, Debug)]
pub struct Sha256 {
    state: [u32; 8],
    /// The beginning of a block that is not whole yet.
    block: [u8; BLOCK_BYTES],
    filled: usize,
    len_bytes: u64,
}

impl Default for Sha256 {
    fn default() -> Sha256 {
        let state =
            [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
        Sha256 { state, block: [0; BLOCK_BYTES], filled: 0, len_bytes: 0 }
    }
}

impl Sha256 {
    pub fn of(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
        let mut hash = Sha256::default();
        hash.update(bytes);
        hash.finish()
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len_bytes += bytes.len() as u64;
        if self.filled > 0 {
            let taken = bytes.len().min(BLOCK_BYTES - self.filled);
            self.block[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < BLOCK_BYTES {
                return;
            }
            compress(&mut self.state, &self.block);
            self.filled = 0;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        blocks.iter().for_each(|block| compress(&mut self.state, block));
        self.block[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    pub fn finish(mut self) -> [u8; DIGEST_BYTES] {
        let bits = self.len_bytes.wrapping_mul(8);
        self.update(&[0x80]);
        let behind_len = BLOCK_BYTES - 8;
        let zeroes = (behind_len + BLOCK_BYTES - self.filled) % BLOCK_BYTES;
        self.update(&[0; BLOCK_BYTES][..zeroes]);
        self.update(&bits.to_be_bytes());
        let mut digest = [0; DIGEST_BYTES];
        for (slot, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *slot = word.to_be_bytes();
        }
        digest
    }
}

fn compress(state: &mut [u32; 8], block: &[u8; BLOCK_BYTES]) {
    let mut schedule = [0u32; 64];
    for (word, bytes) in schedule.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..64 {
        let (early, late) = (schedule[at - 15], schedule[at - 2]);
        let small = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let large = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        schedule[at] =
            schedule[at - 16].wrapping_add(small).wrapping_add(schedule[at - 7]).wrapping_add(large);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in schedule.into_iter().zip(ROUND) {
        let sum_e = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = h.wrapping_add(sum_e).wrapping_add(choice).wrapping_add(constant).wrapping_add(word);
        let sum_a = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = sum_a.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digest: [u8; DIGEST_BYTES]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_examples_of_the_standard_come_out() {
        let table = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(hex(Sha256::of(text.as_bytes())), expected, "{text:?}");
        }
    }

    #[test]
    fn pieces_of_any_size_give_the_same_digest() {
        let bytes: Vec<u8> = (0..1_000u32).map(|n| (n * 7) as u8).collect();
        let whole = Sha256::of(&bytes);
        for size in [1, 3, 55, 56, 63, 64, 65, 128, 999] {
            let mut hash = Sha256::default();
            bytes.chunks(size).for_each(|piece| hash.update(piece));
            assert_eq!(hash.finish(), whole, "{size}");
        }
    }
}
