//! Seeded randomness (SplitMix64): the same seed gives the same numbers on every machine.
//! Good enough to spread election timeouts and to drive a simulation; never used for secrets.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ 0x5851_f42d_4c95_7f2d))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `[low, high)`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "an empty interval has no number in it");
        low + self.next_u64() % (high - low)
    }

    /// True `per_million` times in a million.
    pub fn chance(&mut self, per_million: u64) -> bool {
        self.next_u64() % 1_000_000 < per_million
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.between(0, items.len() as u64) as usize]
    }
}

/// A bijective scramble of 64 bits.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
