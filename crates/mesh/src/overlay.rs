//! Rows that were written and are not flushed yet, in two generations: one that grows, and one that is being
//! flushed. Reads look here before they look in the store. Each row knows the batch that makes it durable, so
//! that nobody is told of it too early.

use crate::rows::{Row, Rows};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Counts the batches that go to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seq(pub u64);

#[derive(Clone, Debug)]
struct Cell {
    value: Option<Bytes>,
    seq: Seq,
}

type Generation = BTreeMap<Bytes, Cell>;

/// One atomic write to the store; everything up to a batch of the log is in it or in an earlier one.
#[derive(Clone, Debug)]
pub struct Flush {
    pub number: u64,
    pub upto: Seq,
    rows: Arc<Generation>,
}

impl Flush {
    pub fn rows(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        self.rows.iter().map(|(key, cell)| (key, cell.value.as_ref()))
    }
}

#[derive(Default)]
pub(crate) struct Overlay {
    growing: Generation,
    growing_bytes: usize,
    flushing: Option<(u64, Arc<Generation>)>,
    flushes: u64,
}

/// What a row costs in memory beside its bytes.
const ROW_OVERHEAD_BYTES: usize = 128;

impl Overlay {
    pub fn put(&mut self, row: &Row, seq: Seq) {
        let len = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
        self.growing_bytes += len(&row.value);
        match self.growing.insert(row.key.clone(), Cell { value: row.value.clone(), seq }) {
            Some(replaced) => self.growing_bytes -= len(&replaced.value),
            None => self.growing_bytes += ROW_OVERHEAD_BYTES + row.key.len(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.growing_bytes
    }

    pub fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    /// Everything that has grown becomes the content of a flush.
    pub fn freeze(&mut self, upto: Seq) -> Flush {
        assert!(self.flushing.is_none(), "one flush at a time");
        self.flushes += 1;
        self.growing_bytes = 0;
        let rows = Arc::new(std::mem::take(&mut self.growing));
        self.flushing = Some((self.flushes, rows.clone()));
        Flush { number: self.flushes, upto, rows }
    }

    pub fn flushed(&mut self, number: u64) {
        if self.flushing.as_ref().is_some_and(|(flushing, _)| *flushing == number) {
            self.flushing = None;
        }
    }

    /// The row, and the batch that makes it durable; what comes from the store is durable.
    pub fn get(&self, rows: &dyn Rows, key: &[u8]) -> (Option<Bytes>, Seq) {
        let generations = [Some(&self.growing), self.flushing.as_ref().map(|(_, rows)| &**rows)];
        match generations.into_iter().flatten().find_map(|generation| generation.get(key)) {
            Some(cell) => (cell.value.clone(), cell.seq),
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
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let mut merged: BTreeMap<&[u8], Option<&Bytes>> = BTreeMap::new();
        let flushing = self.flushing.iter().flat_map(|(_, generation)| generation.range::<[u8], _>(bounds));
        for (key, cell) in flushing.chain(self.growing.range::<[u8], _>(bounds)) {
            merged.insert(key, cell.value.as_ref());
        }
        let mut ours = merged.into_iter().peekable();
        let mut going = true;
        rows.scan(bounds.0, bounds.1, &mut |key, value| {
            while let Some((mine, changed)) = ours.next_if(|(mine, _)| *mine <= key) {
                going = changed.is_none_or(|value| visit(mine, value));
                if !going || mine == key {
                    return going;
                }
            }
            going = visit(key, value);
            going
        });
        for (key, changed) in ours {
            if !going {
                return;
            }
            going = changed.is_none_or(|value| visit(key, value));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
