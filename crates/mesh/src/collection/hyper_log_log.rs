//! HyperLogLogs: how many different values were observed, within about one percent, in 16,384 small registers.
//! Each register is an element that shows the largest rank that was observed for it; most observations raise none. A histogram of
//! the ranks is kept, so that the estimate reads no rows.

use super::element::CellValue;
use base::checksum::hash64;
use bytes::Bytes;

/// Bits of the hash that choose the register.
const INDEX_BITS: u32 = 14;
const REGISTERS: u64 = 1 << INDEX_BITS;
/// Bits of the hash that are counted.
const RANK_BITS: u32 = 64 - INDEX_BITS;
/// All of them were zero.
const RANK_MAX: u8 = RANK_BITS as u8 + 1;
/// The size of a histogram: rank zero is that of registers without a row.
pub(super) const RANKS: usize = RANK_MAX as usize + 1;

/// One value: its register, and the rank that it raises the register to.
pub(super) struct Observation {
    pub register: Bytes,
    pub rank: u8,
}

impl Observation {
    /// None if no register has this name or this rank.
    pub fn of_register(register: &Bytes, rank: u8) -> Option<Observation> {
        let is_one = is_register_name(register) && is_rank(&CellValue::Rank(rank));
        is_one.then(|| Observation { register: register.clone(), rank })
    }
}

/// The hash is part of the format: replicas of all releases must agree on it.
pub(super) fn observe(value: &[u8]) -> Observation {
    let hash = hash64(value, 0);
    let register = (hash >> RANK_BITS) as u16;
    let rest = hash << INDEX_BITS;
    let rank = (rest.leading_zeros().min(RANK_BITS) + 1) as u8;
    Observation { register: Bytes::copy_from_slice(&register.to_be_bytes()), rank }
}

pub(super) fn is_register_name(name: &[u8]) -> bool {
    <[u8; 2]>::try_from(name).is_ok_and(|name| u64::from(u16::from_be_bytes(name)) < REGISTERS)
}

pub(super) fn is_rank(value: &CellValue) -> bool {
    matches!(value, CellValue::Rank(rank) if (1..=RANK_MAX).contains(rank))
}

/// How many different values were observed, from how many registers have which rank (Ertl 2017, "New cardinality estimation
/// algorithms for HyperLogLog sketches", algorithm 6).
pub fn estimate(ranks: &[u64]) -> u64 {
    let count = |rank: usize| ranks.get(rank).copied().unwrap_or(0) as f64;
    let seen: u64 = ranks.iter().skip(1).sum();
    if seen == 0 {
        return 0;
    }
    let (registers, full) = (REGISTERS as f64, RANK_MAX as usize);
    let mut z = registers * tau(1.0 - count(full) / registers);
    for rank in (1..full).rev() {
        z = 0.5 * (z + count(rank));
    }
    z += registers * sigma(REGISTERS.saturating_sub(seen) as f64 / registers);
    (registers * registers / (2.0 * std::f64::consts::LN_2 * z)).round() as u64
}

/// The sum of x^(2^k) 2^(k-1), and x.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
