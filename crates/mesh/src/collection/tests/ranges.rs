//! Comparisons of ranges: what differs is found, wherever ranges begin, and each range is looked at once.

use super::*;
use crate::collection::ranges::ElementRange;

fn name(n: u64) -> Bytes {
    text(&format!("element-{n:08}"))
}

fn ranges(replica: &Replica, level: u8, span: &ElementSpan) -> Vec<ElementRange> {
    ranges_of(&replica.header, &replica.rows, level, span)
}

fn remove(replicas: [&mut Replica; 2], element: Bytes) {
    let [first, second] = replicas;
    let delta = first.writes(CollectionOp::Remove(vec![element]));
    second.hears(&delta);
}

/// A comparison has found that a range differs. Before its rows are asked for, the element at which it begins is removed on
/// both sides.
pub(super) fn what_lies_behind_a_lost_begin_is_found(seed: u64) -> Result<(), String> {
    let kind = CollectionKind::Set;
    let (mut here, mut there) = (Replica::new(1, kind), Replica::new(2, kind));
    let elements: Vec<Bytes> = (0..600).map(|n| name(seed * 1_000 + n)).collect();
    let delta = here.writes(CollectionOp::Add(elements));
    there.hears(&delta);
    let all = ElementSpan { from: None, to: None };
    let Some(begin) = ranges(&here, 1, &all).into_iter().find_map(|range| range.from) else { return Ok(()) };
    let missed = Bytes::from([begin.as_ref(), b"!"].concat());
    there.writes(CollectionOp::Add(vec![missed.clone()]));
    let found = differing_ranges(&ranges(&here, 1, &all), &ranges(&there, 1, &all), &all);
    let [span] = found.as_slice() else { return Err(format!("one range differs: {found:?}")) };
    remove([&mut here, &mut there], begin);
    let found = differing_ranges(&ranges(&here, 1, span), &ranges(&there, 1, span), span);
    let is_found = found.iter().any(|span| span.contains(&missed));
    is_found.then_some(()).ok_or_else(|| "an element behind a lost begin is missed".to_owned())
}

#[test]
fn an_element_behind_a_lost_begin_is_not_missed() {
    (0..20).for_each(|seed| what_lies_behind_a_lost_begin_is_found(seed).unwrap());
}

fn range(from: Option<u64>, count: u64) -> ElementRange {
    ElementRange { from: from.map(name), summary: RangeSummary { count, digest: count } }
}

#[test]
fn ranges_are_compared_between_common_begins() {
    let all = ElementSpan { from: None, to: None };
    let ours = [range(None, 1), range(Some(2), 2), range(Some(4), 3), range(Some(6), 4)];
    let theirs = [range(None, 1), range(Some(3), 5), range(Some(6), 4)];
    let span = |from: Option<u64>, to: Option<u64>| ElementSpan { from: from.map(name), to: to.map(name) };
    let of = |count| Some(RangeSummary { count, digest: count });
    let compared = compare_ranges(&[&ours, &theirs], &all);
    let parts: Vec<_> = compared.into_iter().map(|part| (part.span, part.same)).collect();
    assert_eq!(parts, [(span(None, Some(6)), None), (span(Some(6), None), of(4))]);
    let theirs = [range(None, 1), range(Some(2), 2), range(Some(6), 9)];
    assert_eq!(differing_ranges(&ours, &theirs, &all), [span(Some(2), None)]);
    assert_eq!(differing_ranges(&ours, &ours, &all), []);
    assert_eq!(differing_ranges(&ours, &[], &all), std::slice::from_ref(&all));
    assert_eq!(differing_ranges(&[], &[], &all), []);
    // Three replicas at once, as reads compare them.
    let lists: [&[ElementRange]; 3] = [&ours, &ours, &theirs];
    let same: Vec<_> = compare_ranges(&lists, &all).into_iter().filter_map(|part| part.same).collect();
    assert_eq!(same, [RangeSummary { count: 1, digest: 1 }]);
}

#[test]
fn a_comparison_looks_at_each_range_once() {
    // It would not come to an end if it looked at pairs: there are 40,000 million.
    let all = ElementSpan { from: None, to: None };
    let ours: Vec<ElementRange> = (0..200_000).map(|n| range(Some(n), 1)).collect();
    let theirs: Vec<ElementRange> = (0..200_000).map(|n| range(Some(n), 2)).collect();
    assert_eq!(differing_ranges(&ours, &theirs, &all).len(), 1);
    let few = [range(Some(0), 1), range(Some(199_999), 1)];
    assert_eq!(differing_ranges(&ours, &few, &all).len(), 1);
}
