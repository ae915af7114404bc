//! How many elements lie in which range, and a digest of them: what rank a place has, and where two replicas differ.
//! Ranges begin at elements that their own hash chooses, one in 64 on the first level, one in 64 of those on the next; so
//! replicas with the same elements have the same ranges, whatever happened in which order. A change of an element touches one
//! range on each level.

use super::draft::Draft;
use super::header::CollectionHeader;
use super::view::{self, CollectionRows, Direction, RangeOrder, RowRange, successor};
use base::checksum::hash64;
use base::codec::{Reader, put_varint};
use bytes::Bytes;

/// What lies in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSummary {
    pub count: u64,
    pub digest: u64,
}

/// A range from an element, or from the beginning, to the next range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementRange {
    pub from: Option<Bytes>,
    pub summary: RangeSummary,
}

/// A place in an order: skip so many items behind the beginning of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankedPlace {
    pub from: Option<Bytes>,
    pub skipped: u64,
}

/// One element in the tree, before and after a change.
pub(super) struct ItemChange {
    pub before: Option<RangeSummary>,
    pub after: Option<RangeSummary>,
}

pub(super) struct RangeTree {
    order: RangeOrder,
    prefix: Bytes,
}

pub(super) const LEVELS: u8 = 3;
const FANOUT_BITS: u32 = 6;
/// Far from other hashes of the same bytes.
const SEED: u64 = 0x7261_6e67;

impl RangeSummary {
    pub(super) fn add(self, other: RangeSummary) -> RangeSummary {
        RangeSummary { count: self.count + other.count, digest: self.digest ^ other.digest }
    }

    fn without(self, other: RangeSummary) -> RangeSummary {
        RangeSummary { count: self.count.saturating_sub(other.count), digest: self.digest ^ other.digest }
    }

    fn encode(self) -> Bytes {
        let mut out = Vec::with_capacity(12);
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.into()
    }

    fn decode(bytes: Bytes) -> RangeSummary {
        let mut reader = Reader::new(bytes);
        let read = reader.varint().zip(reader.u64());
        let (count, digest) = read.expect("a row that we wrote can be read");
        RangeSummary { count, digest }
    }
}

/// On how many levels a range begins at this key.
fn level_of(key: &[u8]) -> u8 {
    (hash64(key, SEED).trailing_zeros() / FANOUT_BITS).min(u32::from(LEVELS)) as u8
}

impl RangeTree {
    pub fn new(order: RangeOrder, header: &CollectionHeader) -> RangeTree {
        RangeTree { order, prefix: view::tree_prefix(order, header.generation) }
    }

    fn row(&self, level: u8, key: Option<&[u8]>) -> Bytes {
        view::range_row(&self.prefix, level, key)
    }

    /// The rows of a level from one that begins at a key, to one that begins at another or to the end.
    fn rows_between(&self, level: u8, from: Option<&[u8]>, to: Option<&[u8]>) -> RowRange {
        let end = || Bytes::from([&self.prefix[..], &[level + 1]].concat());
        let to = to.map_or_else(end, |to| self.row(level, Some(to)));
        RowRange { from: self.row(level, from), to }
    }

    /// The range of a level that a key lies in.
    fn range_at(&self, rows: &dyn CollectionRows, level: u8, key: &[u8]) -> ElementRange {
        let upto = RowRange { from: self.row(level, None), to: successor(&self.row(level, Some(key))) };
        let mut found = ElementRange { from: None, summary: RangeSummary::default() };
        rows.scan(&upto, Direction::Down, &mut |row, value| {
            let from = view::range_row_key(&self.prefix, row);
            found = ElementRange { from, summary: RangeSummary::decode(value.clone()) };
            false
        });
        found
    }

    /// Where the range behind a key begins.
    fn next_begin(&self, rows: &dyn CollectionRows, level: u8, key: &[u8]) -> Option<Bytes> {
        let mut range = self.rows_between(level, Some(key), None);
        range.from = successor(&range.from);
        let mut found = None;
        rows.scan(&range, Direction::Up, &mut |row, _| {
            found = view::range_row_key(&self.prefix, row);
            false
        });
        found
    }

    fn put(&self, draft: &mut Draft<'_>, level: u8, range: ElementRange) {
        let is_nothing = range.from.is_none() && range.summary == RangeSummary::default();
        let value = (!is_nothing).then(|| range.summary.encode());
        draft.put(self.row(level, range.from.as_deref()), value);
    }

    /// An element comes, goes or changes. Its own row has been written.
    pub fn change(&self, draft: &mut Draft<'_>, header: &CollectionHeader, key: &[u8], change: &ItemChange) {
        if change.before == change.after {
            return;
        }
        for level in 1..=LEVELS {
            let begins = level <= level_of(key);
            match (change.before, change.after) {
                (None, Some(after)) if begins => self.split(draft, header, level, key, after),
                (Some(before), None) if begins => self.unite(draft, level, key, before),
                (before, after) => {
                    let mut range = self.range_at(draft, level, key);
                    let without = range.summary.without(before.unwrap_or_default());
                    range.summary = without.add(after.unwrap_or_default());
                    self.put(draft, level, range);
                }
            }
        }
    }

    /// A range begins at a new element: it takes what lies behind it from the range that it lies in.
    fn split(
        &self,
        draft: &mut Draft<'_>,
        header: &CollectionHeader,
        level: u8,
        key: &[u8],
        new: RangeSummary,
    ) {
        let mut before = self.range_at(draft, level, key);
        let next = self.next_begin(draft, level, key);
        let behind = if level == 1 {
            self.sum_items(draft, header, key, next.as_deref())
        } else {
            let mut sum = RangeSummary::default();
            let range = self.rows_between(level - 1, Some(key), next.as_deref());
            draft.scan(&range, Direction::Up, &mut |_, value| {
                sum = sum.add(RangeSummary::decode(value.clone()));
                true
            });
            sum.without(new)
        };
        before.summary = before.summary.without(behind);
        self.put(draft, level, before);
        let from = Some(Bytes::copy_from_slice(key));
        self.put(draft, level, ElementRange { from, summary: behind.add(new) });
    }

    /// The element at which a range begins is gone: what is left of the range goes to the one before it.
    fn unite(&self, draft: &mut Draft<'_>, level: u8, key: &[u8], gone: RangeSummary) {
        let mine = self.range_at(draft, level, key);
        draft.put(self.row(level, Some(key)), None);
        let mut before = self.range_at(draft, level, key);
        before.summary = before.summary.add(mine.summary).without(gone);
        self.put(draft, level, before);
    }

    /// What lies behind a key and before the next range.
    fn sum_items(
        &self,
        rows: &dyn CollectionRows,
        header: &CollectionHeader,
        key: &[u8],
        next: Option<&[u8]>,
    ) -> RangeSummary {
        let mut sum = RangeSummary::default();
        self.visit_items(rows, header, Some(&successor(key)), next, &mut |_, summary| {
            sum = sum.add(summary);
            true
        });
        sum
    }

    /// The elements of a range that are counted, in this tree's order.
    pub fn visit_items(
        &self,
        rows: &dyn CollectionRows,
        header: &CollectionHeader,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], RangeSummary) -> bool,
    ) {
        let from = from.unwrap_or_default();
        match self.order {
            RangeOrder::ByElement => {
                rows.scan(&view::elements_between(from, to), Direction::Up, &mut |row, value| {
                    let name = view::element_name(row).expect("a row that we wrote can be read");
                    let state = header.settled(Some(value));
                    if !state.is_visible() || !header.counts(&name) {
                        return true;
                    }
                    visit(&name, RangeSummary { count: 1, digest: state.digest(&name) })
                });
            }
            RangeOrder::ByScore => {
                rows.scan(&view::scores_between(from, to), Direction::Up, &mut |row, _| {
                    let (place, name) = view::score_row_place(row).expect("a row that we wrote can be read");
                    let is_counted = header.sweep.is_none() || {
                        let state = header.settled(rows.get(&view::element(&name)).as_ref());
                        state.is_visible() && header.counts(&name)
                    };
                    !is_counted || visit(&place, RangeSummary { count: 1, digest: 0 })
                });
            }
        }
    }

    /// The ranges of a level in `[from, to)`.
    pub fn list(
        &self,
        rows: &dyn CollectionRows,
        level: u8,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Vec<ElementRange> {
        let mut ranges = Vec::new();
        rows.scan(&self.rows_between(level, from, to), Direction::Up, &mut |row, value| {
            let from = view::range_row_key(&self.prefix, row);
            ranges.push(ElementRange { from, summary: RangeSummary::decode(value.clone()) });
            true
        });
        ranges
    }

    /// Where the element of a rank is.
    pub fn at_rank(&self, rows: &dyn CollectionRows, rank: u64) -> RankedPlace {
        let mut place = RankedPlace { from: None, skipped: rank };
        for level in (1..=LEVELS).rev() {
            let range = self.rows_between(level, place.from.as_deref(), None);
            rows.scan(&range, Direction::Up, &mut |row, value| {
                place.from = view::range_row_key(&self.prefix, row);
                let count = RangeSummary::decode(value.clone()).count;
                let is_behind = place.skipped >= count;
                if is_behind {
                    place.skipped -= count;
                }
                is_behind
            });
        }
        place
    }

    /// How many elements are before a key.
    pub fn rank_of(&self, rows: &dyn CollectionRows, header: &CollectionHeader, key: &[u8]) -> u64 {
        let (mut rank, mut from) = (0, None::<Bytes>);
        for level in (1..=LEVELS).rev() {
            let mut upto = self.rows_between(level, from.as_deref(), None);
            upto.to = successor(&self.row(level, Some(key)));
            let mut last = 0;
            rows.scan(&upto, Direction::Up, &mut |row, value| {
                rank += last;
                last = RangeSummary::decode(value.clone()).count;
                from = view::range_row_key(&self.prefix, row);
                true
            });
        }
        self.visit_items(rows, header, from.as_deref(), Some(key), &mut |_, _| {
            rank += 1;
            true
        });
        rank
    }
}
