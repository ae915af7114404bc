//! The order of a generation's rows, made on demand. Rows are grouped by their first two bytes, which are the row's kind and
//! for most kinds its partition; a group is sorted when a scan reaches it. Most rows are never scanned while they are in
//! memory, and groups that are scanned often have few new rows.

use super::generation::{Generation, RowEntry, RowSlot};
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Order {
    groups: Vec<PrefixGroup>,
}

#[derive(Debug, Default)]
struct PrefixGroup {
    slots: Vec<RowSlot>,
    /// So many slots at the beginning are sorted.
    n_sorted: usize,
}

pub(super) fn group_of(key: &[u8]) -> usize {
    let byte = |idx| key.get(idx).copied().map_or(0, usize::from);
    byte(0) << 8 | byte(1)
}

impl Order {
    /// A row that is new to its generation.
    pub fn add(&mut self, group: usize, slot: RowSlot) {
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, PrefixGroup::default);
        }
        self.groups[group].slots.push(slot);
    }

    /// Whether everything in `[from, to)` is in order.
    pub fn is_sorted(&self, from: &[u8], to: &[u8]) -> bool {
        self.groups[self.span(from, to)].iter().all(|group| group.n_sorted == group.slots.len())
    }

    pub fn sort(&mut self, rows: &Generation, from: &[u8], to: &[u8]) {
        let span = self.span(from, to);
        self.groups[span].iter_mut().for_each(|group| group.sort(rows));
    }

    /// Rows in `[from, to)`, which was put in order.
    pub fn range<'a>(
        &'a self,
        rows: &'a Generation,
        from: &'a [u8],
        to: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = &'a RowEntry> + 'a {
        let within = move |group: &'a PrefixGroup| group.within(rows, from, to);
        self.groups[self.span(from, to)].iter().flat_map(within).map(|slot| rows.at(*slot))
    }

    /// The shelves on which `[from, to)` lies.
    fn span(&self, from: &[u8], to: &[u8]) -> Range<usize> {
        let end = self.groups.len().min(group_of(to) + 1);
        group_of(from).min(end)..end
    }
}

impl PrefixGroup {
    /// Brings the new ones into order, and then between those that are: from the last on, each moves what lies behind
    /// it once. Rows that came in order, as those of a log do, are found to be at their places at once.
    fn sort(&mut self, rows: &Generation) {
        let mut new = self.slots.split_off(self.n_sorted);
        let key = |slot: &RowSlot| &rows.at(*slot).key;
        new.sort_unstable_by(|left, right| key(left).cmp(key(right)));
        let mut end = self.n_sorted;
        self.slots.extend_from_slice(&new);
        while end > 0
            && let Some(slot) = new.pop()
        {
            let old = &self.slots[..end];
            let at = match old.last() {
                Some(last) if key(last) > key(&slot) => old.partition_point(|other| key(other) < key(&slot)),
                _ => end,
            };
            self.slots.copy_within(at..end, at + new.len() + 1);
            self.slots[at + new.len()] = slot;
            end = at;
        }
        self.slots[..new.len()].copy_from_slice(&new);
        self.n_sorted = self.slots.len();
    }

    fn within(&self, rows: &Generation, from: &[u8], to: &[u8]) -> &[RowSlot] {
        let before = |bound: &[u8]| self.slots.partition_point(|slot| rows.at(*slot).key < *bound);
        let (start, end) = (before(from), before(to));
        &self.slots[start.min(end)..end]
    }
}
