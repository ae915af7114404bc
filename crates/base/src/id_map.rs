//! A map keyed by ids that are never reused: operations and callers that are under way. The hash is fixed, so the same
//! inputs give the same map in every process; `iter` alone, which returns all items in id order, pays for sorting.

use hashbrown::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

#[derive(Clone)]
pub struct IdMap<N, T>(HashMap<N, T, BuildHasherDefault<IdHasher>>);

/// Ids are given by this process, one after the other: they need to be spread, and defended against no adversary.
#[derive(Clone, Copy, Default)]
struct IdHasher(u64);

/// 2^64 divided by the golden ratio: its multiples are spread evenly.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        let spread = (self.0 ^ number).wrapping_mul(STRIDE);
        self.0 = spread ^ spread >> 32;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
}

impl<N, T> Default for IdMap<N, T> {
    fn default() -> IdMap<N, T> {
        IdMap(HashMap::default())
    }
}

impl<N: Copy + Ord + Hash, T> IdMap<N, T> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, number: &N) -> bool {
        self.0.contains_key(number)
    }

    pub fn get(&self, number: &N) -> Option<&T> {
        self.0.get(number)
    }

    pub fn get_mut(&mut self, number: &N) -> Option<&mut T> {
        self.0.get_mut(number)
    }

    /// Inserts under a new id.
    pub fn insert(&mut self, number: N, item: T) {
        let before = self.0.insert(number, item);
        assert!(before.is_none(), "a number is given once");
    }

    pub fn remove(&mut self, number: &N) -> Option<T> {
        self.0.remove(number)
    }

    /// All items in id order.
    pub fn iter(&self) -> impl Iterator<Item = (&N, &T)> {
        let mut items: Vec<(&N, &T)> = self.0.iter().collect();
        items.sort_unstable_by_key(|(number, _)| **number);
        items.into_iter()
    }
}

impl<N: Copy + Ord + Hash + fmt::Debug, T: fmt::Debug> fmt::Debug for IdMap<N, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_iterated_in_the_order_of_their_ids() {
        let mut map = IdMap::default();
        [9u64, 1 << 40, 3].into_iter().for_each(|id| map.insert(id, id + 1));
        assert_eq!(map.remove(&9), Some(10));
        assert!(map.iter().eq([(&3, &4), (&(1 << 40), &((1 << 40) + 1))]));
    }

    #[test]
    #[should_panic(expected = "a number is given once")]
    fn an_id_is_given_once() {
        let mut map = IdMap::default();
        map.insert(7u64, ());
        map.insert(7u64, ());
    }
}
