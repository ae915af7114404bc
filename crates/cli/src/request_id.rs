//! Ids of requests that commands make. An id is a UUID of version 7: it carries its time, so that a data port which has
//! forgotten its request refuses it and does not take it for a new one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// An id that no other request has: the time, and randomness of the process.
pub fn fresh() -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let random = || RandomState::new().build_hasher().finish();
    uuid(now_ms, random(), random())
}

fn uuid(ms: u64, random: u64, more: u64) -> String {
    let (high, low) = (ms >> 16 & 0xffff_ffff, ms & 0xffff);
    let (middle, variant, node) = (random & 0xfff, random >> 12 & 0x3fff | 0x8000, more & 0xffff_ffff_ffff);
    format!("{high:08x}-{low:04x}-7{middle:03x}-{variant:04x}-{node:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_time_and_its_version() {
        assert_eq!(uuid(0x017f_22e2_79b0, 0xcc3, 0x0c07_398f), "017f22e2-79b0-7cc3-8000-00000c07398f");
        assert_eq!(uuid(0x017f_22e2_79b0, u64::MAX, u64::MAX), "017f22e2-79b0-7fff-bfff-ffffffffffff");
    }

    #[test]
    fn ids_differ() {
        assert_ne!(fresh(), fresh());
    }
}
