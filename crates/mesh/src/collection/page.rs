//! Pages of a collection: by element, by score and by rank; and pages of several replicas merged into one, row by row, so that
//! a quorum read never loads the collection.

use super::element::ElementState;
use super::header::{CollectionHeader, CollectionKind};
use super::ranges::RangeTree;
use super::repair::ElementSpan;
use super::view::{self, CollectionRows, Direction, RangeOrder, RowRange, successor};
use crate::context::Context;
use crate::decimal::Decimal;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows that one page looks at: behind a clear most of them may be hidden.
const ROWS_MAX: usize = 4_096;
/// A page with so many bytes of elements ends, so that it fits into a frame.
const PAGE_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementEntry {
    pub name: Bytes,
    pub state: ElementState,
}

/// What a replica has of some elements that follow each other, and what it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementPage {
    pub context: Context,
    pub cleared: Context,
    /// By name.
    pub entries: Vec<ElementEntry>,
    /// The page has every element up to this name; none if it reaches the end.
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
    /// The visible elements.
    pub entries: Vec<ElementEntry>,
    /// The elements that are not visible, of which something was counted.
    pub hidden: Vec<ElementEntry>,
    pub upto: Option<Bytes>,
    pub stale: Vec<StaleEntry>,
}

impl ElementEntry {
    /// About what it takes.
    fn bytes(&self) -> usize {
        self.name.len() + self.state.bytes()
    }

    pub fn encode_all(all: &[ElementEntry], out: &mut Vec<u8>) {
        put_varint(out, all.len() as u64);
        for ElementEntry { name, state } in all {
            put_bytes(out, name);
            state.encode_to(out);
        }
    }

    pub fn decode_all(reader: &mut Reader) -> Option<Vec<ElementEntry>> {
        let count = reader.count()?;
        let entry = |reader: &mut Reader| {
            Some(ElementEntry { name: reader.bytes()?, state: ElementState::decode_from(reader)? })
        };
        (0..count).map(|_| entry(reader)).collect()
    }
}

impl ElementPage {
    /// Every write that these pages have of an element.
    pub fn dots_of(pages: &[ElementPage], name: &Bytes) -> Context {
        let mut dots = Context::default();
        for page in pages {
            let entry = page.entries.iter().find(|entry| entry.name == *name);
            entry
                .into_iter()
                .flat_map(|entry| entry.state.dots())
                .for_each(|dot| dots.join(&Context::of_dot(dot)));
        }
        dots
    }
}

/// Which part of a sorted set is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorePaging {
    /// The least and the greatest score, both included.
    pub from: Decimal,
    pub to: Decimal,
    pub direction: Direction,
    /// Up to where the page before went.
    pub after: Option<Bytes>,
    pub limit: usize,
}

/// Elements in the order of scores or ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedPage {
    pub entries: Vec<ElementEntry>,
    /// The place in the order of scores up to which it goes; none at the end.
    pub upto: Option<Bytes>,
}

impl ScorePaging {
    /// Whether an element with this score belongs to this page, which goes up to a place.
    pub fn contains(&self, score: Decimal, name: &[u8], upto: Option<&Bytes>) -> bool {
        let place = view::score_place(score, name);
        let is_behind = |end: &Bytes| match self.direction {
            Direction::Up => place > *end,
            Direction::Down => place < *end,
        };
        let is_within = self.from <= score && score <= self.to;
        is_within && self.after.as_ref().is_none_or(is_behind) && !upto.is_some_and(is_behind)
    }

    /// The place of an element in the order of scores.
    pub fn place(entry: &ElementEntry) -> Bytes {
        view::score_place(entry.state.score(), &entry.name)
    }

    /// Whether bytes can be a place.
    pub fn is_place(bytes: &[u8]) -> bool {
        view::score_row_place(&view::score_row(bytes)).is_some()
    }
}

/// The next elements behind a name, up to `limit`.
pub fn page(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    after: Option<&[u8]>,
    limit: usize,
) -> ElementPage {
    page_within(header, rows, &view::elements_after(after), limit)
}

/// The elements of a span, up to `limit`. Everything up to the end of the page is in it.
pub fn page_of_span(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    span: &ElementSpan,
    limit: usize,
) -> ElementPage {
    let range = view::elements_between(span.from.as_deref().unwrap_or_default(), span.to.as_deref());
    page_within(header, rows, &range, limit)
}

/// What is here of some elements by their names, which ascend.
pub fn named(header: &CollectionHeader, rows: &dyn CollectionRows, names: &[Bytes]) -> ElementPage {
    let (mut entries, mut upto, mut bytes) = (Vec::new(), None, 0);
    for name in names {
        let state = header.settled(rows.get(&view::element(name)).as_ref());
        if !state.is_vacant() {
            let entry = ElementEntry { name: name.clone(), state };
            bytes += entry.bytes();
            entries.push(entry);
        }
        if bytes >= PAGE_BYTES {
            upto = Some(name.clone());
            break;
        }
    }
    ElementPage { context: header.context.clone(), cleared: header.cleared.clone(), entries, upto }
}

/// The last item of a list that is visible here.
pub fn last(header: &CollectionHeader, rows: &dyn CollectionRows) -> ElementPage {
    let mut entries = Vec::new();
    rows.scan(&view::elements_before(None), Direction::Down, &mut |row, value| {
        let name = view::element_name(row).expect("a row that we wrote can be read");
        let state = header.settled(Some(value));
        if state.is_visible() {
            entries.push(ElementEntry { name, state });
        }
        entries.is_empty()
    });
    ElementPage { context: header.context.clone(), cleared: header.cleared.clone(), entries, upto: None }
}

fn page_within(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    range: &RowRange,
    limit: usize,
) -> ElementPage {
    let (mut entries, mut upto, mut n_rows, mut bytes) = (Vec::new(), None, 0, 0);
    rows.scan(range, Direction::Up, &mut |row, value| {
        let name = view::element_name(row).expect("a row that we wrote can be read");
        let state = header.settled(Some(value));
        n_rows += 1;
        if !state.is_vacant() {
            let entry = ElementEntry { name: name.clone(), state };
            bytes += entry.bytes();
            entries.push(entry);
        }
        let is_full = entries.len() >= limit || n_rows >= ROWS_MAX || bytes >= PAGE_BYTES;
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
    let (mut entries, mut hidden, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    for (name, states) in names {
        let of_page = |nth: usize| states.iter().find(|(page, _)| *page == nth).map(|(_, state)| *state);
        let merged = merge_states(pages, &cleared, &of_page);
        for nth in 0..pages.len() {
            if of_page(nth).cloned().unwrap_or_default() != merged {
                stale.push(StaleEntry { page: nth, name: name.clone() });
            }
        }
        let all = if merged.is_visible() { &mut entries } else { &mut hidden };
        if !merged.is_vacant() {
            all.push(ElementEntry { name: name.clone(), state: merged });
        }
    }
    MergedPage { entries, hidden, upto, stale }
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
) -> OrderedPage {
    let to = paging.to.0.checked_add(1).map(|to| view::score_place(Decimal(to), b""));
    let mut range = view::scores_between(&view::score_place(paging.from, b""), to.as_deref());
    if let Some(place) = &paging.after {
        let row = view::score_row(place);
        match paging.direction {
            Direction::Up => range.from = range.from.max(successor(&row)),
            Direction::Down => range.to = range.to.min(row),
        }
    }
    let mut page = OrderedPage::default();
    if paging.limit == 0 || range.is_empty() {
        return page;
    }
    let mut n_rows = 0;
    rows.scan(&range, paging.direction, &mut |row, _| {
        let (place, name) = view::score_row_place(row).expect("a row that we wrote can be read");
        let state = header.settled(rows.get(&view::element(&name)).as_ref());
        n_rows += 1;
        if state.is_visible() {
            page.entries.push(ElementEntry { name, state });
        }
        let is_full = page.entries.len() >= paging.limit || n_rows >= ROWS_MAX;
        page.upto = is_full.then_some(place);
        !is_full
    });
    page
}

/// The elements from a rank on: a sorted set's in the order of their scores, all others' in that of their names or positions.
pub fn page_by_rank(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    rank: u64,
    limit: usize,
) -> Vec<ElementEntry> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
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
        let entry = ElementEntry { name, state };
        bytes += entry.bytes();
        entries.push(entry);
        entries.len() < limit && bytes < PAGE_BYTES
    });
    entries
}

/// How many elements precede an existing one.
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
