//! Pages of a collection: by element, by score and by rank; and pages of several replicas merged into one, row by row, so that
//! a quorum read never loads the collection.

use super::element::ElementState;
use super::header::{CollectionHeader, CollectionKind};
use super::ranges::RangeTree;
use super::view::{self, CollectionRows, Direction, RangeOrder, RowRange, successor};
use crate::context::Context;
use crate::decimal::Decimal;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows that one page looks at: behind a clear most of them may be hidden.
const ROWS_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementEntry {
    pub name: Bytes,
    pub state: ElementState,
}

/// What a replica has of some elements that follow each other, and what it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementPage {
    pub context: Context,
    pub cleared: Context,
    /// By name.
    pub entries: Vec<ElementEntry>,
    /// Everything up to here is in it; none if it reaches to the end.
    pub upto: Option<Bytes>,
}

/// An entry that a replica lacks, or has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleEntry {
    /// Which of the pages.
    pub page: usize,
    pub name: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPage {
    /// Those that are visible.
    pub entries: Vec<ElementEntry>,
    pub upto: Option<Bytes>,
    pub stale: Vec<StaleEntry>,
}

/// Which part of a sorted set is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorePaging {
    /// The least and the greatest score, both included.
    pub from: Decimal,
    pub to: Decimal,
    pub direction: Direction,
    /// The last entry of the page before, with its score.
    pub after: Option<(Decimal, Bytes)>,
    pub limit: usize,
}

/// The next elements behind a name, up to `limit`.
pub fn page(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    after: Option<&[u8]>,
    limit: usize,
) -> ElementPage {
    let (mut entries, mut upto, mut n_rows) = (Vec::new(), None, 0);
    rows.scan(&view::elements_after(after), Direction::Up, &mut |row, value| {
        let name = view::element_name(row).expect("a row that we wrote can be read");
        let state = header.settled(Some(value));
        n_rows += 1;
        if !state.is_vacant() {
            entries.push(ElementEntry { name: name.clone(), state });
        }
        let is_full = entries.len() >= limit || n_rows >= ROWS_MAX;
        upto = is_full.then_some(name);
        !is_full
    });
    ElementPage { context: header.context.clone(), cleared: header.cleared.clone(), entries, upto }
}

/// Merges the pages that several replicas have given for the same beginning, as far as all of them reach.
pub fn merge_pages(pages: &[ElementPage]) -> MergedPage {
    let upto = pages.iter().filter_map(|page| page.upto.clone()).min();
    let mut cleared = Context::default();
    pages.iter().for_each(|page| cleared.join(&page.cleared));
    let mut names: BTreeMap<&Bytes, Vec<(usize, &ElementState)>> = BTreeMap::new();
    for (nth, page) in pages.iter().enumerate() {
        let wanted = page.entries.iter().filter(|entry| upto.as_ref().is_none_or(|upto| entry.name <= *upto));
        wanted.for_each(|entry| names.entry(&entry.name).or_default().push((nth, &entry.state)));
    }
    let (mut entries, mut stale) = (Vec::new(), Vec::new());
    for (name, states) in names {
        let of_page = |nth: usize| states.iter().find(|(page, _)| *page == nth).map(|(_, state)| *state);
        let merged = merge_states(pages, &cleared, &of_page);
        for nth in 0..pages.len() {
            if of_page(nth).cloned().unwrap_or_default() != merged {
                stale.push(StaleEntry { page: nth, name: name.clone() });
            }
        }
        if merged.is_visible() {
            entries.push(ElementEntry { name: name.clone(), state: merged });
        }
    }
    MergedPage { entries, upto, stale }
}

fn merge_states<'a>(
    pages: &[ElementPage],
    cleared: &Context,
    of_page: &dyn Fn(usize) -> Option<&'a ElementState>,
) -> ElementState {
    let (mut merged, mut seen) = (ElementState::default(), Context::default());
    for (nth, page) in pages.iter().enumerate() {
        let mut state = of_page(nth).cloned().unwrap_or_default();
        state.settle(cleared);
        merged = ElementState::join((&merged, &seen), (&state, &page.context));
        seen.join(&page.context);
    }
    merged
}

/// The members of a sorted set whose scores are in a range, in their order.
pub fn page_by_score(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    paging: &ScorePaging,
) -> Vec<ElementEntry> {
    let to = paging.to.0.checked_add(1).map(|to| view::score_place(Decimal(to), b""));
    let mut range = view::scores_between(&view::score_place(paging.from, b""), to.as_deref());
    if let Some((score, name)) = &paging.after {
        let row = view::score_row(&view::score_place(*score, name));
        match paging.direction {
            Direction::Up => range.from = range.from.max(successor(&row)),
            Direction::Down => range.to = range.to.min(row),
        }
    }
    score_entries(header, rows, &range, paging.direction, paging.limit)
}

fn score_entries(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    range: &RowRange,
    direction: Direction,
    limit: usize,
) -> Vec<ElementEntry> {
    let (mut entries, mut n_rows) = (Vec::new(), 0);
    if limit == 0 || range.is_empty() {
        return entries;
    }
    rows.scan(range, direction, &mut |row, _| {
        let (_, name) = view::score_row_place(row).expect("a row that we wrote can be read");
        let state = header.settled(rows.get(&view::element(&name)).as_ref());
        n_rows += 1;
        if state.is_visible() {
            entries.push(ElementEntry { name, state });
        }
        entries.len() < limit && n_rows < ROWS_MAX
    });
    entries
}

/// The elements from a rank on: a sorted set's in the order of their scores, all others' in that of their names or positions.
pub fn page_by_rank(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    rank: u64,
    limit: usize,
) -> Vec<ElementEntry> {
    let mut entries = Vec::new();
    if rank >= header.count || limit == 0 {
        return entries;
    }
    let order = order_of(header);
    let tree = RangeTree::new(order, header);
    let mut place = tree.at_rank(rows, rank);
    tree.visit_items(rows, header, place.from.as_deref(), None, &mut |key, _| {
        if place.skipped > 0 {
            place.skipped -= 1;
            return true;
        }
        let name = match order {
            RangeOrder::ByElement => Some(Bytes::copy_from_slice(key)),
            RangeOrder::ByScore => view::score_row_place(&view::score_row(key)).map(|(_, name)| name),
        };
        let name = name.expect("a row that we wrote can be read");
        let state = header.settled(rows.get(&view::element(&name)).as_ref());
        entries.push(ElementEntry { name, state });
        entries.len() < limit
    });
    entries
}

/// How many elements are before one that is there.
pub fn rank_of(header: &CollectionHeader, rows: &dyn CollectionRows, name: &[u8]) -> Option<u64> {
    let state = header.settled(rows.get(&view::element(name)).as_ref());
    let place = match order_of(header) {
        _ if !state.is_visible() => return None,
        RangeOrder::ByElement => Bytes::copy_from_slice(name),
        RangeOrder::ByScore => view::score_place(state.score(), name),
    };
    Some(RangeTree::new(order_of(header), header).rank_of(rows, header, &place))
}

fn order_of(header: &CollectionHeader) -> RangeOrder {
    if header.of.kind == CollectionKind::SortedSet { RangeOrder::ByScore } else { RangeOrder::ByElement }
}
