//! Rows that are written and not flushed yet, in two generations: one that grows and one that is being flushed. Reads look
//! here before the store. Each row carries the batch that makes it durable, so that no reply reveals it earlier.
//! This is not `node`'s overlay: that one keeps every version, in the order of revisions, and replies only about what a
//! majority has; here a later row replaces an earlier one, in any order of keys, so rows are found by hash.

mod generation;
mod order;

use crate::rows::{Row, Rows};
use base::checksum::hash64;
use bytes::Bytes;
use generation::{Generation, PutResult, RowEntry};
use order::Order;
use std::cell::{Ref, RefCell};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// Counts the batches that go to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seq(pub u64);

/// One atomic write to the store; everything up to a batch of the log is in it or in an earlier one.
#[derive(Clone, Debug)]
pub struct Flush {
    pub number: u64,
    pub upto: Seq,
    rows: Arc<Generation>,
}

impl Flush {
    /// By key. The caller's thread sorts them, which is not the machine's.
    pub fn rows(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        self.rows.sorted().into_iter().map(|entry| (&entry.key, entry.value.as_ref()))
    }
}

/// Rows that the store has. To free a million of them takes a while, so the shell drops it on a thread that has the time.
#[derive(Debug)]
pub struct FlushedRows {
    _rows: Frozen,
}

#[derive(Default)]
pub(crate) struct Overlay {
    /// The seed of the hashes: no result depends on it.
    seed: u64,
    growing: Generation,
    growing_bytes: usize,
    /// Scans make it as they need it. No visitor of a scan begins another.
    order: RefCell<Order>,
    flushing: Option<(u64, Frozen)>,
    flushes: u64,
}

/// A generation that does not grow any more.
#[derive(Debug)]
struct Frozen {
    rows: Arc<Generation>,
    order: RefCell<Order>,
}

/// The memory that a row costs beside its bytes, as measured: an entry of 72 and a slot of 8 in vectors with capacity for
/// more, its place in the order, and what the allocator and the vector of a record keep beside their bytes.
const ROW_OVERHEAD_BYTES: usize = 160;

impl Overlay {
    /// With a seed of this start: keys that are in each other's way on one node are not on another, nor after a restart.
    pub fn new(seed: u64) -> Overlay {
        Overlay { seed, ..Overlay::default() }
    }

    pub fn put(&mut self, Row { key, value }: Row, seq: Seq) {
        let len = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
        let (key_bytes, group) = (key.len(), order::group_of(&key));
        self.growing_bytes += len(&value);
        match self.growing.put(hash64(&key, self.seed), RowEntry { key, value, seq }) {
            PutResult::Replaced(replaced) => self.growing_bytes -= len(&replaced),
            PutResult::New(slot) => {
                self.growing_bytes += ROW_OVERHEAD_BYTES + key_bytes;
                self.order.get_mut().add(group, slot);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.growing_bytes
    }

    /// Rows that wait for the next flush.
    pub fn n_growing(&self) -> u64 {
        self.growing.len() as u64
    }

    /// Rows of the flush that is under way.
    pub fn n_flushing(&self) -> u64 {
        self.flushing.as_ref().map_or(0, |(_, frozen)| frozen.rows.len() as u64)
    }

    pub fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    /// Everything that has grown becomes the content of a flush.
    pub fn freeze(&mut self, upto: Seq) -> Flush {
        assert!(self.flushing.is_none(), "one flush at a time");
        self.flushes += 1;
        self.growing_bytes = 0;
        let next = Generation::after(&self.growing);
        let rows = Arc::new(std::mem::replace(&mut self.growing, next));
        self.flushing = Some((self.flushes, Frozen { rows: rows.clone(), order: self.order.take().into() }));
        Flush { number: self.flushes, upto, rows }
    }

    /// The store has a flush: its rows are not needed here any more.
    pub fn flushed(&mut self, number: u64) -> Option<FlushedRows> {
        self.flushing
            .take_if(|(flushing, _)| *flushing == number)
            .map(|(_, rows)| FlushedRows { _rows: rows })
    }

    /// The row, and the batch that makes it durable; what comes from the store is durable.
    pub fn get(&self, rows: &dyn Rows, key: &[u8]) -> (Option<Bytes>, Seq) {
        let hash = hash64(key, self.seed);
        let generations = [Some(&self.growing), self.flushing.as_ref().map(|(_, frozen)| &*frozen.rows)];
        match generations.into_iter().flatten().find_map(|generation| generation.get(hash, key)) {
            Some(entry) => (entry.value.clone(), entry.seq),
            None => (rows.get(key), Seq(0)),
        }
    }

    /// Visits rows in `[from, to)`, those in memory in the place of those in the store.
    pub fn scan(
        &self,
        rows: &dyn Rows,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> bool,
    ) {
        if from >= to {
            return;
        }
        let order = sorted_order(&self.order, &self.growing, from, to);
        let frozen = self.flushing.as_ref().map(|(_, frozen)| frozen);
        let frozen =
            frozen.map(|frozen| (&*frozen.rows, sorted_order(&frozen.order, &frozen.rows, from, to)));
        let older = frozen.iter().flat_map(|(generation, order)| order.range(generation, from, to));
        let newer = order.range(&self.growing, from, to);
        let mut ours = newest(newer, older, Ordering::is_le).peekable();
        let mut going = true;
        rows.scan(Bound::Included(from), Bound::Excluded(to), &mut |key, value| {
            while let Some(mine) = ours.next_if(|mine| *mine.key <= *key) {
                going = mine.value.as_ref().is_none_or(|value| visit(&mine.key, value));
                if !going || mine.key == key {
                    return going;
                }
            }
            going = visit(key, value);
            going
        });
        for mine in ours {
            if !going {
                return;
            }
            going = mine.value.as_ref().is_none_or(|value| visit(&mine.key, value));
        }
    }
}

impl Overlay {
    /// The same from the last row down.
    pub fn scan_down(
        &self,
        rows: &dyn Rows,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> bool,
    ) {
        if from >= to {
            return;
        }
        let order = sorted_order(&self.order, &self.growing, from, to);
        let frozen = self.flushing.as_ref().map(|(_, frozen)| frozen);
        let frozen =
            frozen.map(|frozen| (&*frozen.rows, sorted_order(&frozen.order, &frozen.rows, from, to)));
        let older = frozen.iter().flat_map(|(generation, order)| order.range(generation, from, to).rev());
        let newer = order.range(&self.growing, from, to).rev();
        let mut ours = newest(newer, older, Ordering::is_ge).peekable();
        let mut going = true;
        rows.scan_down(Bound::Included(from), Bound::Excluded(to), &mut |key, value| {
            while let Some(mine) = ours.next_if(|mine| *mine.key >= *key) {
                going = mine.value.as_ref().is_none_or(|value| visit(&mine.key, value));
                if !going || mine.key == key {
                    return going;
                }
            }
            going = visit(key, value);
            going
        });
        for mine in ours {
            if !going {
                return;
            }
            going = mine.value.as_ref().is_none_or(|value| visit(&mine.key, value));
        }
    }
}

/// The order of a generation, made in `[from, to)` if it is not yet.
fn sorted_order<'a>(
    order: &'a RefCell<Order>,
    generation: &Generation,
    from: &[u8],
    to: &[u8],
) -> Ref<'a, Order> {
    if !order.borrow().is_sorted(from, to) {
        order.borrow_mut().sort(generation, from, to);
    }
    order.borrow()
}

/// Two generations as one, in the order that both have: of rows that are in both, the newer.
fn newest<'a>(
    newer: impl Iterator<Item = &'a RowEntry>,
    older: impl Iterator<Item = &'a RowEntry>,
    is_due: impl Fn(Ordering) -> bool,
) -> impl Iterator<Item = &'a RowEntry> {
    let (mut newer, mut older) = (newer.peekable(), older.peekable());
    std::iter::from_fn(move || {
        let Some(new) = newer.peek() else { return older.next() };
        if let Some(old) = older.next_if(|old| is_due(old.key.cmp(&new.key)))
            && old.key != new.key
        {
            return Some(old);
        }
        newer.next()
    })
}

#[cfg(test)]
pub(crate) mod tests;
