//! An ordered map from keys to entries, cut into chunks that know how many of their keys are live.
//! Keys go in and out at any place; slices of neighbouring slots come out. A range of a million keys
//! is counted by looking at its few thousand chunks, and looking up or walking never allocates.

use crate::entry::IndexEntry;
use base::{KeyRange, RangeEnd, Revision};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Enough that counting chunks is cheap beside counting keys, few enough that inserting a key in the middle of one is
/// cheap too.
const SLOTS_MAX: usize = 128;

/// Capacity grows by so many keys at once. Doubling would leave a third of the memory unused when keys come in any
/// order.
const SLOTS_STEP: usize = 16;

/// The end of a chunk, where keys go that come nearly in order.
const SLOTS_END: usize = 8;

/// How far a search goes at once before it goes slot by slot; about the square root of a full chunk.
const STRIDE: usize = 11;

#[derive(Debug, Default)]
pub struct Chunks {
    /// By a key that is not above the first of the chunk and above the last of the chunk before. The first
    /// chunk has the empty key.
    by_fence: BTreeMap<Box<[u8]>, Chunk>,
    live: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    /// Sorted by key; empty at most in the first chunk.
    slots: Vec<Slot>,
    live: usize,
    /// When a key of the chunk last changed.
    changed: Revision,
}

#[derive(Debug)]
pub struct Slot {
    pub key: Box<[u8]>,
    pub entry: IndexEntry,
}

/// The slots of one chunk that lie in a range.
pub struct ChunkSlice<'a> {
    pub slots: &'a [Slot],
    /// Known when the slots are all that the chunk has.
    pub whole: Option<ChunkTotals>,
}

#[derive(Clone, Copy)]
pub struct ChunkTotals {
    pub live: usize,
    pub changed: Revision,
}

impl Chunks {
    pub fn live(&self) -> usize {
        self.live
    }

    pub fn get(&self, key: &[u8]) -> Option<&Slot> {
        let chunk = self.by_fence.range::<[u8], _>(up_to(key)).next_back()?.1;
        chunk.find(key).ok().map(|at| &chunk.slots[at])
    }

    /// Changes the entry of a key in place. The key gets a fresh one first if it has none.
    pub fn edit<R>(
        &mut self,
        key: &[u8],
        fresh: impl FnOnce() -> IndexEntry,
        edit: impl FnOnce(&mut IndexEntry) -> R,
    ) -> R {
        if self.by_fence.is_empty() {
            self.by_fence.insert(Box::default(), Chunk::default());
        }
        let chunk =
            self.by_fence.range_mut::<[u8], _>(up_to(key)).next_back().expect("the empty key is a fence").1;
        let live_before = chunk.live;
        let mut tail = None;
        let outcome = match chunk.find(key) {
            Ok(at) => chunk.edit(at, edit),
            Err(at) if chunk.slots.len() < SLOTS_MAX => chunk.insert(at, Slot::new(key, fresh()), edit),
            Err(at) => {
                let (outcome, split) = chunk.insert_and_split(at, Slot::new(key, fresh()), edit);
                tail = Some(split);
                outcome
            }
        };
        self.live = self.live - live_before + chunk.live + tail.as_ref().map_or(0, |tail| tail.live);
        if let Some(tail) = tail {
            self.by_fence.insert(tail.slots[0].key.clone(), tail);
        }
        outcome
    }

    /// Takes a key out that is not live. The first chunk stays even without slots, for its fence.
    pub fn remove(&mut self, key: &[u8]) {
        let Some((fence, chunk)) = self.by_fence.range_mut::<[u8], _>(up_to(key)).next_back() else { return };
        if let Ok(at) = chunk.find(key) {
            assert!(!chunk.slots[at].entry.is_live(), "only what is not there is forgotten");
            chunk.slots.remove(at);
        }
        if chunk.slots.is_empty() && !fence.is_empty() {
            let fence = fence.clone();
            self.by_fence.remove(&fence);
        }
    }

    /// The slots of a range, chunk by chunk, in key order. Only at its two ends are keys looked at: what lies
    /// between is whole.
    pub fn slices<'a>(&'a self, keys: &KeyRange) -> impl Iterator<Item = ChunkSlice<'a>> {
        let mut chunks = self.chunks_around(keys).peekable();
        let mut is_first = true;
        std::iter::from_fn(move || {
            let chunk = chunks.next()?;
            let from = if is_first { chunk.start_of(keys) } else { 0 };
            let to = if chunks.peek().is_none() { chunk.end_of(keys) } else { chunk.slots.len() };
            is_first = false;
            Some(chunk.slice(from, to))
        })
    }

    /// Every chunk that may hold keys of the range.
    fn chunks_around<'a>(&'a self, keys: &KeyRange) -> impl Iterator<Item = &'a Chunk> {
        let around = self.by_fence.range::<[u8], _>(up_to(&keys.start)).next_back();
        let first = around.filter(|_| !keys.is_empty()).map(|(fence, _)| Bound::Included(fence.as_ref()));
        let chunks = first.map(|first| self.by_fence.range::<[u8], _>((first, keys.bounds().1)));
        chunks.into_iter().flatten().map(|(_, chunk)| chunk)
    }
}

impl Slot {
    fn new(key: &[u8], entry: IndexEntry) -> Slot {
        Slot { key: key.into(), entry }
    }
}

impl Chunk {
    /// Where the key is, or belongs. Keys are scattered in memory, and the processor fetches ahead along a
    /// walk whose steps it can foresee: over a million keys that was measured faster than bisection.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let mut at = 0;
        while self.slots.get(at + STRIDE).is_some_and(|slot| slot.key.as_ref() <= key) {
            at += STRIDE;
        }
        for slot in &self.slots[at..] {
            match slot.key.as_ref().cmp(key) {
                Ordering::Less => at += 1,
                Ordering::Equal => return Ok(at),
                Ordering::Greater => break,
            }
        }
        Err(at)
    }

    fn edit<R>(&mut self, at: usize, edit: impl FnOnce(&mut IndexEntry) -> R) -> R {
        let entry = &mut self.slots[at].entry;
        self.live -= usize::from(entry.is_live());
        let outcome = edit(entry);
        self.live += usize::from(entry.is_live());
        self.changed = self.changed.max(entry.changed());
        outcome
    }

    fn insert<R>(&mut self, at: usize, slot: Slot, edit: impl FnOnce(&mut IndexEntry) -> R) -> R {
        self.live += usize::from(slot.entry.is_live());
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(SLOTS_STEP);
        }
        self.slots.insert(at, slot);
        self.edit(at, edit)
    }

    /// A full chunk gives its upper half away, or only its end if the key belongs there: keys that come in order, or
    /// nearly so, fill their chunks.
    fn insert_and_split<R>(
        &mut self,
        at: usize,
        slot: Slot,
        edit: impl FnOnce(&mut IndexEntry) -> R,
    ) -> (R, Chunk) {
        if at == self.slots.len() {
            let mut tail = Chunk::default();
            return (tail.insert(0, slot, edit), tail);
        }
        let end = self.slots.len() - SLOTS_END;
        let cut = if at > end { end } else { self.slots.len() / 2 };
        let mut tail = Chunk::of(self.slots.split_off(cut));
        self.slots.shrink_to(cut + SLOTS_STEP);
        self.live -= tail.live;
        let outcome = match at.checked_sub(cut).filter(|at| *at > 0) {
            Some(at) => tail.insert(at, slot, edit),
            None => self.insert(at, slot, edit),
        };
        (outcome, tail)
    }

    fn of(slots: Vec<Slot>) -> Chunk {
        let live = slots.iter().filter(|slot| slot.entry.is_live()).count();
        let changed = slots.iter().map(|slot| slot.entry.changed()).max().unwrap_or_default();
        Chunk { slots, live, changed }
    }

    fn start_of(&self, keys: &KeyRange) -> usize {
        self.slots.partition_point(|slot| slot.key.as_ref() < keys.start.as_ref())
    }

    fn end_of(&self, keys: &KeyRange) -> usize {
        self.slots.partition_point(|slot| !is_beyond(keys, &slot.key))
    }

    fn slice(&self, from: usize, to: usize) -> ChunkSlice<'_> {
        let whole = ChunkTotals { live: self.live, changed: self.changed };
        let is_whole = from == 0 && to == self.slots.len();
        ChunkSlice { slots: &self.slots[from..to], whole: is_whole.then_some(whole) }
    }
}

/// The key lies behind the end of the range.
fn is_beyond(keys: &KeyRange, key: &[u8]) -> bool {
    match &keys.end {
        RangeEnd::Single => key > keys.start.as_ref(),
        RangeEnd::Before(end) => key >= end.as_ref(),
        RangeEnd::Open => false,
    }
}

fn up_to(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}

#[cfg(test)]
mod tests;
