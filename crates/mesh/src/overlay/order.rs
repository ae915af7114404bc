//! The order of a generation's rows, made on demand. Rows are grouped by their first two bytes, which are the row's kind and
//! for most kinds its partition; a group is sorted when a scan reaches it. Most rows are never scanned while they are in
//! memory, and groups that are scanned often have few new rows.

use super::generation::{Entry, Generation, Place};
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Order {
    shelves: Vec<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    places: Vec<Place>,
    /// So many from the first are in order.
    n_sorted: usize,
}

pub(super) fn shelf_of(key: &[u8]) -> usize {
    let byte = |idx| key.get(idx).copied().map_or(0, usize::from);
    byte(0) << 8 | byte(1)
}

impl Order {
    /// A row that is new to its generation.
    pub fn add(&mut self, shelf: usize, place: Place) {
        if shelf >= self.shelves.len() {
            self.shelves.resize_with(shelf + 1, Shelf::default);
        }
        self.shelves[shelf].places.push(place);
    }

    /// Whether everything in `[from, to)` is in order.
    pub fn is_arranged(&self, from: &[u8], to: &[u8]) -> bool {
        self.shelves[self.span(from, to)].iter().all(|shelf| shelf.n_sorted == shelf.places.len())
    }

    pub fn arrange(&mut self, rows: &Generation, from: &[u8], to: &[u8]) {
        let span = self.span(from, to);
        self.shelves[span].iter_mut().for_each(|shelf| shelf.arrange(rows));
    }

    /// Rows in `[from, to)`, which was put in order.
    pub fn range<'a>(
        &'a self,
        rows: &'a Generation,
        from: &'a [u8],
        to: &'a [u8],
    ) -> impl Iterator<Item = &'a Entry> + 'a {
        let within = move |shelf: &'a Shelf| shelf.within(rows, from, to);
        self.shelves[self.span(from, to)].iter().flat_map(within).map(|place| rows.at(*place))
    }

    /// The shelves on which `[from, to)` lies.
    fn span(&self, from: &[u8], to: &[u8]) -> Range<usize> {
        let end = self.shelves.len().min(shelf_of(to) + 1);
        shelf_of(from).min(end)..end
    }
}

impl Shelf {
    /// Brings the new ones into order, and then between those that are: from the last on, each moves what lies behind
    /// it once. Rows that came in order, as those of a log do, are found to be at their places at once.
    fn arrange(&mut self, rows: &Generation) {
        let mut new = self.places.split_off(self.n_sorted);
        let key = |place: &Place| &rows.at(*place).key;
        new.sort_unstable_by(|left, right| key(left).cmp(key(right)));
        let mut end = self.n_sorted;
        self.places.extend_from_slice(&new);
        while end > 0
            && let Some(place) = new.pop()
        {
            let old = &self.places[..end];
            let at = match old.last() {
                Some(last) if key(last) > key(&place) => {
                    old.partition_point(|other| key(other) < key(&place))
                }
                _ => end,
            };
            self.places.copy_within(at..end, at + new.len() + 1);
            self.places[at + new.len()] = place;
            end = at;
        }
        self.places[..new.len()].copy_from_slice(&new);
        self.n_sorted = self.places.len();
    }

    fn within(&self, rows: &Generation, from: &[u8], to: &[u8]) -> &[Place] {
        let before = |bound: &[u8]| self.places.partition_point(|place| rows.at(*place).key < *bound);
        let (start, end) = (before(from), before(to));
        &self.places[start.min(end)..end]
    }
}
