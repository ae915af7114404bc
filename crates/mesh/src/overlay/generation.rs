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
pub(super) struct Entry {
    pub key: Bytes,
    pub value: Option<Bytes>,
    pub seq: Seq,
}

/// Where a row lies in its generation, for as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

#[derive(Debug)]
pub(super) struct Generation {
    sections: Box<[Section; SECTIONS]>,
    len: usize,
}

#[derive(Debug, Default)]
struct Section {
    entries: Vec<Entry>,
    /// Open addressing, at most three quarters full.
    slots: Vec<Slot>,
}

/// The last bits of a row's hash and its number among the entries, counted from one; zero where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Slot(u64);

/// What a put has met.
pub(super) enum Met {
    Nothing(Place),
    /// The row as it was before.
    Row(Option<Bytes>),
}

impl Default for Generation {
    fn default() -> Generation {
        Generation { sections: Box::new(std::array::from_fn(|_| Section::default())), len: 0 }
    }
}

impl Generation {
    /// One that begins, with room for as many rows as the last one had.
    pub fn after(last: &Generation) -> Generation {
        let section = |idx| Section::after(&last.sections[idx]);
        Generation { sections: Box::new(std::array::from_fn(section)), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&Entry> {
        let section = &self.sections[section_of(hash)];
        section.find(hash, key).map(|number| &section.entries[number])
    }

    pub fn put(&mut self, hash: u64, entry: Entry) -> Met {
        let idx = section_of(hash);
        let section = &mut self.sections[idx];
        match section.find(hash, &entry.key) {
            Some(number) => {
                let old = &mut section.entries[number];
                old.seq = entry.seq;
                Met::Row(std::mem::replace(&mut old.value, entry.value))
            }
            None => {
                let number = section.push(hash, entry);
                self.len += 1;
                Met::Nothing(Place(number << SECTION_BITS | idx as u32))
            }
        }
    }

    pub fn at(&self, place: Place) -> &Entry {
        let (section, number) = (place.0 as usize % SECTIONS, place.0 >> SECTION_BITS);
        &self.sections[section].entries[number as usize]
    }

    /// Every row, by key.
    pub fn sorted(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.sections.iter().flat_map(|section| &section.entries).collect();
        entries.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        entries
    }
}

fn section_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SECTION_BITS)) as usize
}

impl Slot {
    fn new(hash: u64, number: u32) -> Slot {
        Slot(hash << 32 | u64::from(number + 1))
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
        Section { entries: Vec::with_capacity(last.entries.len()), slots: vec![Slot::default(); slots] }
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

    fn push(&mut self, hash: u64, entry: Entry) -> u32 {
        if self.entries.len() >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let number = u32::try_from(self.entries.len()).expect("a section is bounded by memory");
        self.entries.push(entry);
        settle(&mut self.slots, Slot::new(hash, number));
        number
    }

    /// Slots know as much of their hashes as they need to find their places again.
    fn grow(&mut self) {
        let mut slots = vec![Slot::default(); (2 * self.slots.len()).max(SLOTS_MIN)];
        let taken = self.slots.iter().filter(|slot| slot.number().is_some());
        taken.for_each(|slot| settle(&mut slots, *slot));
        self.slots = slots;
    }
}

/// Puts a slot into the first free place behind the one that its hash names.
fn settle(slots: &mut [Slot], slot: Slot) {
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

    fn entry(n: u32, seq: u64) -> Entry {
        Entry { key: Bytes::from(n.to_be_bytes().to_vec()), value: Some(Bytes::new()), seq: Seq(seq) }
    }

    #[test]
    fn rows_of_one_hash_are_told_apart() {
        let mut rows = Generation::default();
        for n in 0..100 {
            assert!(matches!(rows.put(7, entry(n, 1)), Met::Nothing(_)));
        }
        for n in 0..100 {
            assert!(matches!(rows.put(7, entry(n, u64::from(n))), Met::Row(Some(_))));
        }
        for n in 0..100u32 {
            assert_eq!(rows.get(7, &n.to_be_bytes()).map(|entry| entry.seq), Some(Seq(u64::from(n))));
        }
        assert!(rows.get(7, &100u32.to_be_bytes()).is_none());
    }

    #[test]
    fn places_stay_while_the_generation_grows() {
        let mut rows = Generation::default();
        let mut places = Vec::new();
        for n in 0..20_000u32 {
            let entry = entry(n.reverse_bits(), 1);
            let Met::Nothing(place) = rows.put(hash64(&entry.key, 0), entry) else { panic!("it is new") };
            places.push(place);
        }
        for (n, place) in (0..20_000u32).zip(places) {
            assert_eq!(rows.at(place).key, n.reverse_bits().to_be_bytes()[..]);
        }
        let sorted = rows.sorted();
        assert_eq!((sorted.len(), rows.len()), (20_000, 20_000));
        assert!(sorted.is_sorted_by(|left, right| left.key < right.key));
    }
}
