//! Two replicas of a collection compare below its key: ranges first, then the rows of ranges that differ.
//! A row is here and not at the peer: it was removed there if the peer has seen its dots, and has not come there yet otherwise.
//! Contexts are joined when the rows are the same: then the result is exactly the join of both. Until then a row may have dots that
//! are not in the context, and nothing is claimed about what else its sender has seen.

use super::element::ElementState;
use super::header::CollectionHeader;
use super::merge::{CollectionChange, TypeVerdict};
use super::ranges::{ElementRange, LEVELS, RangeSummary, RangeTree};
use super::view::{CollectionRows, RangeOrder};
use super::writer::{Origin, Writer};
use crate::context::Context;
use bytes::Bytes;

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

/// Takes in a row of another replica of the same collection.
pub fn merge_row(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    remote: &RemoteRow,
) -> CollectionChange {
    let mut writer = Writer::new(header, rows);
    writer.clear(&remote.cleared, Origin::Elsewhere);
    let stored = writer.load(&remote.name);
    let mut theirs = remote.state.clone();
    theirs.settle(&writer.header.cleared);
    let state = ElementState::join((&stored.state, &writer.header.context), (&theirs, &remote.context));
    writer.store(&remote.name, &stored, &state);
    let (header, rows) = writer.finish();
    CollectionChange { header, rows, verdict: TypeVerdict::Same }
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

/// Where two replicas' ranges of the same level and span differ. Ranges are compared between the places where both begin one.
pub fn differing_ranges(
    ours: &[ElementRange],
    theirs: &[ElementRange],
    span: &ElementSpan,
) -> Vec<ElementSpan> {
    let begins = |ranges: &[ElementRange]| ranges.iter().map(|range| range.from.clone()).collect::<Vec<_>>();
    let theirs_begin = begins(theirs);
    let mut common: Vec<Option<Bytes>> = begins(ours);
    common.retain(|begin| begin.is_none() || theirs_begin.contains(begin));
    if common.first() != Some(&span.from) {
        common.insert(0, span.from.clone());
    }
    let mut differing: Vec<ElementSpan> = Vec::new();
    for (nth, from) in common.iter().enumerate() {
        let to = common.get(nth + 1).cloned().unwrap_or_else(|| span.to.clone());
        let sum = |ranges: &[ElementRange]| {
            let inside =
                ranges.iter().filter(|range| range.from >= *from && (to.is_none() || range.from < to));
            inside.fold(RangeSummary::default(), |sum, range| sum.add(range.summary))
        };
        if sum(ours) == sum(theirs) {
            continue;
        }
        match differing.last_mut() {
            Some(last) if last.to == *from => last.to = to,
            _ => differing.push(ElementSpan { from: from.clone(), to }),
        }
    }
    differing
}
