//! The map in chunks against a plain ordered map.

use super::*;
use crate::entry::Current;
use base::{LeaseId, Rng};
use bytes::Bytes;

fn current(revision: Revision) -> Current {
    Current { create: revision, modified: revision, version: 1, lease: LeaseId::NONE, value_len: 0 }
}

struct Pair {
    chunks: Chunks,
    plain: BTreeMap<Vec<u8>, (Revision, bool)>,
    revision: Revision,
}

impl Pair {
    fn new() -> Pair {
        Pair { chunks: Chunks::default(), plain: BTreeMap::new(), revision: Revision(1) }
    }

    /// Puts the key if it is not live, else deletes it.
    fn toggle(&mut self, key: &[u8]) {
        self.revision = self.revision.next();
        let revision = self.revision;
        let live = self.plain.get(key).is_none_or(|(_, live)| !live);
        self.plain.insert(key.to_vec(), (revision, live));
        self.chunks.edit(key, IndexEntry::unknown, |entry| {
            if live { entry.put(current(revision)) } else { entry.delete(revision) }
        });
    }

    fn check(&self, keys: &KeyRange) {
        let inside = || self.plain.iter().filter(|(key, _)| keys.contains(key));
        let slices: Vec<ChunkSlice<'_>> = self.chunks.slices(keys).collect();
        let slots: Vec<&Slot> = slices.iter().flat_map(|slice| slice.slots).collect();
        assert!(slots.iter().map(|slot| slot.key.as_ref()).eq(inside().map(|(key, _)| key.as_slice())));
        assert!(slots.iter().all(|slot| self.plain[slot.key.as_ref()].1 == slot.entry.is_live()));
        for slice in slices {
            let Some(whole) = slice.whole else { continue };
            assert_eq!(whole.live, slice.slots.iter().filter(|slot| slot.entry.is_live()).count());
            assert_eq!(Some(whole.changed), slice.slots.iter().map(|slot| slot.entry.changed()).max());
        }
    }

    fn check_all(&self) {
        self.check(&KeyRange { start: Bytes::from_static(b"\0"), end: RangeEnd::Open });
        assert_eq!(self.chunks.live(), self.plain.values().filter(|(_, live)| *live).count());
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

#[test]
fn keys_in_any_order_are_found_and_cut_as_in_a_plain_map() {
    let mut rng = Rng::new(11);
    let mut pair = Pair::new();
    for step in 0..6_000 {
        pair.toggle(&key(rng.between(0, 3_000)));
        if step % 500 == 0 {
            pair.check_all();
        }
    }
    for _ in 0..500 {
        let start = Bytes::from(key(rng.between(0, 3_100)));
        let end = match rng.between(0, 4) {
            0 => RangeEnd::Open,
            1 => RangeEnd::Single,
            _ => RangeEnd::Before(Bytes::from(key(rng.between(0, 3_100)))),
        };
        pair.check(&KeyRange { start, end });
        let probe = key(rng.between(0, 3_100));
        let expected = pair.plain.get(&probe).map(|(revision, live)| (*revision, *live));
        let found = pair.chunks.get(&probe).map(|slot| (slot.entry.changed(), slot.entry.is_live()));
        assert_eq!(found, expected);
    }
}

#[test]
fn keys_that_come_in_order_fill_their_chunks() {
    let mut pair = Pair::new();
    for number in 0..1_280 {
        pair.toggle(&key(number));
    }
    assert_eq!(pair.chunks.by_fence.len(), 1_280 / SLOTS_MAX);
    pair.check_all();
}

#[test]
fn keys_that_come_backwards_are_kept_in_order() {
    let mut pair = Pair::new();
    for number in (0..1_000).rev() {
        pair.toggle(&key(number));
    }
    pair.check_all();
    assert!(pair.chunks.by_fence.values().all(|chunk| !chunk.slots.is_empty()));
}

#[test]
fn an_empty_map_has_no_slices() {
    let pair = Pair::new();
    pair.check_all();
    assert!(pair.chunks.get(b"a").is_none());
}
