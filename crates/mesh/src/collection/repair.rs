//! Two replicas of a collection compare below its key: ranges first, then the rows of ranges that differ.
//! A row is here and not at the peer: it was removed there if the peer has seen its dots, and has not come there yet otherwise.
//! Contexts are joined when the rows are the same: then the result is exactly the join of both. Until then a row may have dots that
//! are not in the context, and nothing is claimed about what else its sender has seen.

use super::delta::CollectionDelta;
use super::element::ElementState;
use super::header::CollectionHeader;
use super::merge::{CollectionChange, TypeVerdict};
use super::page::{ElementEntry, ElementPage};
use super::ranges::{ElementRange, LEVELS, RangeSummary, RangeTree};
use super::view::{self, CollectionRows, Direction, RangeOrder};
use super::writer::{CollectionWriter, Origin};
use crate::context::Context;
use crate::mutant::Mutant;
use base::mutant::planted;
use bytes::Bytes;
use std::collections::BTreeSet;

/// A row of another replica, vacant if it has none, and what that replica has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRow {
    pub name: Bytes,
    pub state: ElementState,
    pub context: Context,
    pub cleared: Context,
}

/// Elements in `[from, to)`; none stands for the beginning and the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementSpan {
    pub from: Option<Bytes>,
    pub to: Option<Bytes>,
}

impl ElementSpan {
    pub fn contains(&self, name: &Bytes) -> bool {
        self.from.as_ref().is_none_or(|from| name >= from) && self.to.as_ref().is_none_or(|to| name < to)
    }
}

/// Takes in a row of another replica of the same collection.
pub fn merge_row(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    remote: &RemoteRow,
) -> CollectionChange {
    let mut writer = CollectionWriter::new(header, rows);
    writer.clear(&remote.cleared, Origin::Elsewhere);
    take_row(&mut writer, &remote.name, &remote.state, &remote.context);
    change(writer)
}

/// Another replica has cleared the collection.
pub fn merge_cleared(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    cleared: &Context,
) -> CollectionChange {
    let mut writer = CollectionWriter::new(header, rows);
    writer.clear(cleared, Origin::Elsewhere);
    change(writer)
}

/// Rows of its own that a replica compares with one page.
const OWN_ROWS_MAX: usize = 1_024;

/// Takes in a page of a span of another replica: a row that is here and not in it is vacant there. How far it was taken in;
/// none to the end of the span.
pub fn merge_page(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    span: &ElementSpan,
    page: &ElementPage,
) -> (CollectionChange, Option<Bytes>) {
    let mut writer = CollectionWriter::new(header, rows);
    writer.clear(&page.cleared, Origin::Elsewhere);
    let (mut own, mut upto) = (BTreeSet::new(), page.upto.clone());
    let range = view::elements_between(span.from.as_deref().unwrap_or_default(), span.to.as_deref());
    rows.scan(&range, Direction::Up, &mut |row, _| {
        let name = view::element_name(row).expect("a row that we wrote can be read");
        if upto.as_ref().is_some_and(|upto| name > *upto) {
            return false;
        }
        own.insert(name.clone());
        let is_full = own.len() >= OWN_ROWS_MAX;
        if is_full {
            upto = Some(name);
        }
        !is_full
    });
    let is_within = |name: &Bytes| upto.as_ref().is_none_or(|upto| *name <= *upto);
    let vacant = ElementState::default();
    for ElementEntry { name, state } in page.entries.iter().filter(|entry| is_within(&entry.name)) {
        own.remove(name);
        take_row(&mut writer, name, state, &page.context);
    }
    own.iter().for_each(|name| take_row(&mut writer, name, &vacant, &page.context));
    (change(writer), upto)
}

fn take_row(writer: &mut CollectionWriter<'_>, name: &Bytes, theirs: &ElementState, seen: &Context) {
    let stored = writer.load(name);
    let mut theirs = theirs.clone();
    theirs.settle(&writer.header.cleared);
    let state = ElementState::join((&stored.state, &writer.header.context), (&theirs, seen));
    writer.store(name, &stored, &state);
}

fn change(writer: CollectionWriter<'_>) -> CollectionChange {
    let (header, rows) = writer.finish();
    CollectionChange { header, rows, verdict: TypeVerdict::Same }
}

/// Whether some writes of an element must not be merged: what a comparison is about to bring, or has found removed.
pub fn is_claimed(delta: &CollectionDelta, claim: &Context, seen: &Context) -> bool {
    let cells = delta.elements.iter().flat_map(|element| element.state.dots());
    cells.into_iter().any(|dot| claim.covers(dot) && !seen.covers(dot))
}

/// What both replicas have seen, if their rows are the same.
pub fn join_same(header: &CollectionHeader, other: &CollectionHeader) -> Option<CollectionHeader> {
    let rows = |header: &CollectionHeader| Some((header.of, header.exact_count()?, header.digest));
    let is_same = rows(header).is_some() && rows(header) == rows(other);
    is_same.then(|| {
        let mut joined = header.clone();
        joined.context.join(&other.context);
        joined
    })
}

/// The ranges of a level within a span, of which level one is the finest.
pub fn ranges_of(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    level: u8,
    span: &ElementSpan,
) -> Vec<ElementRange> {
    let level = level.clamp(1, LEVELS);
    RangeTree::new(RangeOrder::ByElement, header).list(rows, level, span.from.as_deref(), span.to.as_deref())
}

/// A part of a span in which several replicas' ranges were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedSpan {
    pub span: ElementSpan,
    /// What lies in it, if all replicas say the same.
    pub same: Option<RangeSummary>,
}

/// Compares several replicas' ranges of the same level in a span, between the places where all begin one. Where a span begins
/// at an element, a range has to begin there: at a replica that has lost this element since, what lies behind it counts to the
/// range before, and the ranges of the span do not tell of it. Ranges ascend; each is looked at once.
pub fn compare_ranges(lists: &[&[ElementRange]], span: &ElementSpan) -> Vec<ComparedSpan> {
    let mut rest: Vec<&[ElementRange]> = lists.to_vec();
    let begins = |list: &&[ElementRange]| list.first().is_some_and(|range| range.from == span.from);
    let mut is_whole =
        span.from.is_none() || rest.iter().all(begins) || planted(Mutant::LostRangeBeginOverlooked);
    let mut compared = Vec::new();
    let mut from = span.from.clone();
    loop {
        let to = next_common(&rest, &from);
        let sums: Vec<RangeSummary> = rest.iter_mut().map(|list| take_before(list, &to)).collect();
        let first = sums.first().copied().unwrap_or_default();
        let same = (is_whole && sums.iter().all(|sum| *sum == first)).then_some(first);
        let end = to.clone().or_else(|| span.to.clone());
        compared.push(ComparedSpan { span: ElementSpan { from, to: end }, same });
        if to.is_none() {
            return compared;
        }
        (from, is_whole) = (to, true);
    }
}

/// The first place behind another where all lists begin a range.
fn next_common(lists: &[&[ElementRange]], from: &Option<Bytes>) -> Option<Bytes> {
    let mut lists = lists.to_vec();
    let mut least = from.clone();
    loop {
        let mut firsts = Vec::with_capacity(lists.len());
        for list in &mut lists {
            let n_before = list.iter().take_while(|range| range.from <= *from || range.from < least).count();
            *list = &list[n_before..];
            firsts.push(list.first()?.from.clone());
        }
        let greatest = firsts.iter().max()?.clone();
        if firsts.iter().all(|first| *first == greatest) {
            return greatest;
        }
        least = greatest;
    }
}

/// Takes what lies before a place off a list, to the end without one.
fn take_before(list: &mut &[ElementRange], to: &Option<Bytes>) -> RangeSummary {
    let n_before = list.iter().take_while(|range| to.is_none() || range.from < *to).count();
    let (before, rest) = list.split_at(n_before);
    *list = rest;
    before.iter().fold(RangeSummary::default(), |sum, range| sum.add(range.summary))
}

/// Where two replicas' ranges of the same level and span differ.
pub fn differing_ranges(
    ours: &[ElementRange],
    theirs: &[ElementRange],
    span: &ElementSpan,
) -> Vec<ElementSpan> {
    differing_spans(compare_ranges(&[ours, theirs], span))
}

/// The parts that are not the same, those beside each other as one.
pub fn differing_spans(compared: Vec<ComparedSpan>) -> Vec<ElementSpan> {
    let mut differing: Vec<ElementSpan> = Vec::new();
    for ComparedSpan { span, .. } in compared.into_iter().filter(|part| part.same.is_none()) {
        match differing.last_mut() {
            Some(last) if last.to == span.from => last.to = span.to,
            _ => differing.push(span),
        }
    }
    differing
}
