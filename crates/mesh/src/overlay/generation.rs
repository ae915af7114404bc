//! The rows of one generation, found by the hash of their keys. Rows lie in insertion order in sections that grow
//! separately, so that no insert waits while a million rows are moved. `order.rs` sorts them for scans; a flush sorts them
//! once.

use super::Seq;
use bytes::Bytes;

/// A section is chosen by the first bits of a hash.
const SECTION_BITS: u32 = 6;
const SECTIONS: usize = 1 << SECTION_BITS;

const SLOTS_MIN: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct RowEntry {
    pub key: Bytes,
    pub value: Option<Bytes>,
    pub seq: Seq,
}

/// Where a row lies in its generation, for as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowSlot(u32);

#[derive(Debug)]
pub(super) struct Generation {
    sections: Box<[Section; SECTIONS]>,
    len: usize,
}

#[derive(Debug, Default)]
struct Section {
    entries: Vec<RowEntry>,
    /// Open addressing, at most three quarters full.
    slots: Vec<HashSlot>,
}

/// The last bits of a row's hash and its number among the entries, counted from one; zero where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct HashSlot(u64);

/// What a put has met.
pub(super) enum PutResult {
    New(RowSlot),
    /// The row as it was before.
    Replaced(Option<Bytes>),
}

impl Default for Generation {
    fn default() -> Generation {
        Generation { sections: Box::new(std::array::from_fn(|_| Section::default())), len: 0 }
    }
}

impl Generation {
    /// An empty generation, with capacity for as many rows as the last one had.
    pub fn after(last: &Generation) -> Generation {
        let section = |idx| Section::after(&last.sections[idx]);
        Generation { sections: Box::new(std::array::from_fn(section)), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&RowEntry> {
        let section = &self.sections[section_of(hash)];
        section.find(hash, key).map(|number| &section.entries[number])
    }

    pub fn put(&mut self, hash: u64, entry: RowEntry) -> PutResult {
        let idx = section_of(hash);
        let section = &mut self.sections[idx];
        match section.find(hash, &entry.key) {
            Some(number) => {
                let old = &mut section.entries[number];
                old.seq = entry.seq;
                PutResult::Replaced(std::mem::replace(&mut old.value, entry.value))
            }
            None => {
                let number = section.push(hash, entry);
                self.len += 1;
                PutResult::New(RowSlot(number << SECTION_BITS | idx as u32))
            }
        }
    }

    pub fn at(&self, slot: RowSlot) -> &RowEntry {
        let (section, number) = (slot.0 as usize % SECTIONS, slot.0 >> SECTION_BITS);
        &self.sections[section].entries[number as usize]
    }

    /// Every row, by key.
    pub fn sorted(&self) -> Vec<&RowEntry> {
        let mut entries: Vec<&RowEntry> = self.sections.iter().flat_map(|section| &section.entries).collect();
        entries.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        entries
    }
}

fn section_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SECTION_BITS)) as usize
}

impl HashSlot {
    fn new(hash: u64, number: u32) -> HashSlot {
        HashSlot(hash << 32 | u64::from(number + 1))
    }

    fn number(self) -> Option<usize> {
        (self.0 as u32).checked_sub(1).map(|number| number as usize)
    }

    fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl Section {
    fn after(last: &Section) -> Section {
        let slots = (last.entries.len() * 4 / 3 + 1).next_power_of_two().min(last.slots.len());
        Section { entries: Vec::with_capacity(last.entries.len()), slots: vec![HashSlot::default(); slots] }
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut idx = hash as usize & mask;
        loop {
            let slot = self.slots[idx];
            let number = slot.number()?;
            if slot.hash() == hash as u32 && self.entries[number].key == key {
                return Some(number);
            }
            idx = (idx + 1) & mask;
        }
    }

    fn push(&mut self, hash: u64, entry: RowEntry) -> u32 {
        if self.entries.len() >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let number = u32::try_from(self.entries.len()).expect("a section is bounded by memory");
        self.entries.push(entry);
        settle(&mut self.slots, HashSlot::new(hash, number));
        number
    }

    /// Slots know as much of their hashes as they need to find their places again.
    fn grow(&mut self) {
        let mut slots = vec![HashSlot::default(); (2 * self.slots.len()).max(SLOTS_MIN)];
        let taken = self.slots.iter().filter(|slot| slot.number().is_some());
        taken.for_each(|slot| settle(&mut slots, *slot));
        self.slots = slots;
    }
}

/// Puts a slot into the first free place behind the one that its hash names.
fn settle(slots: &mut [HashSlot], slot: HashSlot) {
    let mask = slots.len() - 1;
    let mut idx = slot.hash() as usize & mask;
    while slots[idx].number().is_some() {
        idx = (idx + 1) & mask;
    }
    slots[idx] = slot;
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::checksum::hash64;

    fn entry(n: u32, seq: u64) -> RowEntry {
        RowEntry { key: Bytes::from(n.to_be_bytes().to_vec()), value: Some(Bytes::new()), seq: Seq(seq) }
    }

    #[test]
    fn rows_of_one_hash_are_told_apart() {
        let mut rows = Generation::default();
        for n in 0..100 {
            assert!(matches!(rows.put(7, entry(n, 1)), PutResult::New(_)));
        }
        for n in 0..100 {
            assert!(matches!(rows.put(7, entry(n, u64::from(n))), PutResult::Replaced(Some(_))));
        }
        for n in 0..100u32 {
            assert_eq!(rows.get(7, &n.to_be_bytes()).map(|entry| entry.seq), Some(Seq(u64::from(n))));
        }
        assert!(rows.get(7, &100u32.to_be_bytes()).is_none());
    }

    #[test]
    fn row_slots_stay_valid_while_the_generation_grows() {
        let mut rows = Generation::default();
        let mut slots = Vec::new();
        for n in 0..20_000u32 {
            let entry = entry(n.reverse_bits(), 1);
            let PutResult::New(slot) = rows.put(hash64(&entry.key, 0), entry) else { panic!("it is new") };
            slots.push(slot);
        }
        for (n, slot) in (0..20_000u32).zip(slots) {
            assert_eq!(rows.at(slot).key, n.reverse_bits().to_be_bytes()[..]);
        }
        let sorted = rows.sorted();
        assert_eq!((sorted.len(), rows.len()), (20_000, 20_000));
        assert!(sorted.is_sorted_by(|left, right| left.key < right.key));
    }
}
