//! A map keyed by sequential ids that are never reused: operations and callers that are under way. An id determines
//! its slot; when the slot is taken, the next free one is used. Consecutive ids map to distant slots, so that a
//! long-lived item does not delay others. Lookup and removal take constant time; only `iter`, which returns all items
//! in id order, pays for sorting.

use std::fmt;

#[derive(Clone)]
pub struct IdMap<N, T> {
    /// A power of two of slots, at most half of them taken.
    slots: Vec<Option<(N, T)>>,
    len: usize,
}

/// 2^64 divided by the golden ratio: its multiples are spread evenly.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

const SLOTS_MIN: usize = 16;

impl<N, T> Default for IdMap<N, T> {
    fn default() -> IdMap<N, T> {
        IdMap { slots: Vec::new(), len: 0 }
    }
}

impl<N: Copy + Ord + Into<u64>, T> IdMap<N, T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, number: &N) -> bool {
        self.find(number).is_some()
    }

    pub fn get(&self, number: &N) -> Option<&T> {
        let idx = self.find(number)?;
        self.slots[idx].as_ref().map(|(_, item)| item)
    }

    pub fn get_mut(&mut self, number: &N) -> Option<&mut T> {
        let idx = self.find(number)?;
        self.slots[idx].as_mut().map(|(_, item)| item)
    }

    /// Inserts under a new id.
    pub fn insert(&mut self, number: N, item: T) {
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        let mut idx = self.home(&number);
        while let Some((other, _)) = &self.slots[idx] {
            assert!(*other != number, "a number is given once");
            idx = self.after(idx);
        }
        self.slots[idx] = Some((number, item));
        self.len += 1;
    }

    /// Items that were displaced by it move up.
    pub fn remove(&mut self, number: &N) -> Option<T> {
        let mut gap = self.find(number)?;
        let (_, item) = self.slots[gap].take()?;
        self.len -= 1;
        let mut idx = self.after(gap);
        while let Some((other, _)) = &self.slots[idx] {
            if self.distance(self.home(other), idx) >= self.distance(gap, idx) {
                self.slots.swap(gap, idx);
                gap = idx;
            }
            idx = self.after(idx);
        }
        Some(item)
    }

    /// All items in id order.
    pub fn iter(&self) -> impl Iterator<Item = (&N, &T)> {
        let mut items: Vec<(&N, &T)> =
            self.slots.iter().flatten().map(|(number, item)| (number, item)).collect();
        items.sort_unstable_by_key(|(number, _)| **number);
        items.into_iter()
    }

    fn find(&self, number: &N) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut idx = self.home(number);
        while let Some((other, _)) = &self.slots[idx] {
            if other == number {
                return Some(idx);
            }
            idx = self.after(idx);
        }
        None
    }

    fn home(&self, number: &N) -> usize {
        let bits = self.slots.len().trailing_zeros();
        ((*number).into().wrapping_mul(STRIDE) >> (u64::BITS - bits)) as usize
    }

    fn after(&self, idx: usize) -> usize {
        (idx + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, std::iter::repeat_with(|| None).take(size).collect());
        self.len = 0;
        old.into_iter().flatten().for_each(|(number, item)| self.insert(number, item));
    }
}

impl<N: Copy + Ord + Into<u64> + fmt::Debug, T: fmt::Debug> fmt::Debug for IdMap<N, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn an_id_map_holds_what_a_map_would() {
        for seed in 0..200 {
            let (mut rng, mut id_map, mut model) = (Rng::new(seed), IdMap::default(), BTreeMap::new());
            let mut next = rng.next_u64() >> 1;
            for _ in 0..400 {
                if rng.chance(550_000) {
                    next += rng.between(1, 3);
                    id_map.insert(next, next);
                    model.insert(next, next);
                } else {
                    // The oldest, one of the newest, or an id that was removed or never used.
                    let oldest = model.first_key_value().map_or(0, |(number, _)| *number);
                    let number = if rng.chance(300_000) { oldest } else { next - rng.between(0, 40) };
                    assert_eq!(id_map.get(&number), model.get(&number));
                    assert_eq!(id_map.contains(&number), model.contains_key(&number));
                    if let Some(item) = id_map.get_mut(&number) {
                        *item += 1;
                        *model.get_mut(&number).unwrap() += 1;
                    }
                    if rng.chance(700_000) {
                        assert_eq!(id_map.remove(&number), model.remove(&number));
                    }
                }
                assert_eq!(id_map.len(), model.len());
            }
            assert!(id_map.iter().eq(model.iter()), "seed {seed}");
            model.into_keys().for_each(|number| assert!(id_map.remove(&number).is_some()));
            assert!(id_map.is_empty());
        }
    }

    #[test]
    fn sequential_ids_rarely_collide() {
        let mut id_map = IdMap::default();
        (0..1_000u64).for_each(|number| id_map.insert(1 << 40 | number, ()));
        let at_home = |number: u64| id_map.find(&number) == Some(id_map.home(&number));
        let n_at_home = (0..1_000u64).filter(|number| at_home(1 << 40 | number)).count();
        assert!(n_at_home > 900, "{n_at_home}");
    }
}
