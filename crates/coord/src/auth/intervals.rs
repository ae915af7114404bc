//! A set of keys as intervals that do not touch, in order. Ranges go in, however they overlap, one by one or all
//! together; whether all keys of another range are in the set comes out. Two adjacent ranges are one: a user that may
//! read `a` to `b` and `b` to `c` may read `a` to `c`. Both questions and changes cost what a search costs, however
//! many intervals there are: the list is cut into chunks, and copies of it share those that are the same.

use crate::mutant::Mutant;

use base::mutant::planted;
use base::{KeyRange, RangeEnd};
use bytes::Bytes;
use std::sync::Arc;

/// A chunk holds at most this many intervals.
const CHUNK_LEN_MAX: usize = 256;

/// From a key to another; `None` is an open end.
type Interval = (Bytes, Option<Bytes>);

#[derive(Clone, Debug, Default)]
pub struct Intervals {
    /// None is empty.
    chunks: Vec<Arc<[Interval]>>,
}

/// Where an interval is: in which chunk, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IntervalPos {
    chunk: usize,
    idx: usize,
}

impl Intervals {
    pub fn union<'k>(ranges: impl Iterator<Item = &'k KeyRange>) -> Intervals {
        let mut intervals = Intervals::default();
        intervals.chunks.extend(cut(merged(ranges)));
        intervals
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether one key is in the set; the same as for a range of it alone.
    pub fn contain_key(&self, key: &[u8]) -> bool {
        let Some((_, end)) = self.place_before(key).map(|place| self.at(place)) else { return false };
        end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// A range without any key is contained if its start is.
    pub fn contain(&self, keys: &KeyRange) -> bool {
        let Some((_, covered)) = self.place_before(&keys.start).map(|place| self.at(place)) else {
            return false;
        };
        let Some(covered) = covered else { return true };
        let begin_only = keys.is_empty() || planted(Mutant::PermissionByStartKey);
        let ends_within = match &keys.end {
            _ if begin_only => true,
            RangeEnd::Single => true,
            RangeEnd::Before(end) => end <= covered,
            RangeEnd::Open => false,
        };
        // A key is within if the end is behind it, and so is its successor.
        keys.start < *covered && ends_within
    }

    /// The keys of these ranges are in the set from now on. Only what lies between the first and the last is touched.
    pub fn add<'k>(&mut self, ranges: impl Iterator<Item = &'k KeyRange>) {
        let mut list = merged(ranges);
        let (Some((start, _)), Some((_, end))) = (list.first().cloned(), list.last().cloned()) else {
            return;
        };
        let meets = |place: &IntervalPos| !ends_before(&self.at(*place).1, &start);
        let from = self.place_before(&start).filter(meets).unwrap_or_else(|| self.place_behind(&start));
        let (mut place, mut count) = (from, 0);
        while let Some(interval) = self.get(place).filter(|(start, _)| !ends_before(&end, start)) {
            list.push(interval.clone());
            count += 1;
            place = self.next(place);
        }
        self.replace(from, count, merge(list));
    }

    /// The interval that this range is part of, if it is in the set.
    pub fn around(&self, range: &KeyRange) -> Option<KeyRange> {
        let (start, end) = self.at(self.place_before(&range.start).filter(|_| self.contain(range))?);
        let end = end.clone().map_or(RangeEnd::Open, RangeEnd::Before);
        Some(KeyRange { start: start.clone(), end })
    }

    /// Reduces the interval that begins here to what these ranges cover.
    pub fn reduce<'k>(&mut self, start: &Bytes, ranges: impl Iterator<Item = &'k KeyRange>) {
        let place = self.place_before(start).expect("the interval is in the set");
        assert_eq!(self.at(place).0, *start, "an interval is reduced as a whole");
        self.replace(place, 1, merged(ranges));
    }

    fn iter(&self) -> impl Iterator<Item = &Interval> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    fn at(&self, place: IntervalPos) -> &Interval {
        &self.chunks[place.chunk][place.idx]
    }

    fn get(&self, place: IntervalPos) -> Option<&Interval> {
        self.chunks.get(place.chunk)?.get(place.idx)
    }

    /// The place behind this one, which may be behind all intervals.
    fn next(&self, place: IntervalPos) -> IntervalPos {
        if place.idx + 1 < self.chunks[place.chunk].len() {
            IntervalPos { idx: place.idx + 1, ..place }
        } else {
            IntervalPos { chunk: place.chunk + 1, idx: 0 }
        }
    }

    /// The last interval that begins at this key or before it.
    fn place_before(&self, key: &[u8]) -> Option<IntervalPos> {
        let chunk = self.chunks.partition_point(|chunk| chunk[0].0.as_ref() <= key).checked_sub(1)?;
        let behind = self.chunks[chunk].partition_point(|(start, _)| start.as_ref() <= key);
        Some(IntervalPos { chunk, idx: behind - 1 })
    }

    /// The first interval that begins behind this key.
    fn place_behind(&self, key: &Bytes) -> IntervalPos {
        self.place_before(key).map_or(IntervalPos { chunk: 0, idx: 0 }, |place| self.next(place))
    }

    /// Puts others in the place of so many intervals.
    fn replace(&mut self, mut from: IntervalPos, count: usize, new: Vec<Interval>) {
        // What comes behind a chunk is added to it: otherwise intervals that are added in order would each get a
        // chunk of their own.
        if from.idx == 0 && from.chunk > 0 {
            from = IntervalPos { chunk: from.chunk - 1, idx: self.chunks[from.chunk - 1].len() };
        }
        let mut last = from.chunk;
        let kept: &[Interval] = self.chunks.get(from.chunk).map_or(&[], |chunk| &chunk[..from.idx]);
        let mut list = kept.to_vec();
        list.extend(new);
        let mut gone = from.idx + count;
        while let Some(chunk) = self.chunks.get(last) {
            last += 1;
            if let Some(kept) = chunk.get(gone..) {
                list.extend_from_slice(kept);
                break;
            }
            gone -= chunk.len();
        }
        self.chunks.splice(from.chunk..last, cut(list));
    }
}

impl PartialEq for Intervals {
    /// However they are cut.
    fn eq(&self, other: &Intervals) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Intervals {}

/// Into chunks of nearly the same length, so that a chunk that was split can grow.
fn cut(list: Vec<Interval>) -> impl Iterator<Item = Arc<[Interval]>> {
    let mut chunks = list.len().div_ceil(CHUNK_LEN_MAX);
    let mut rest = list.into_iter();
    std::iter::from_fn(move || {
        let len = rest.len().div_ceil(chunks.max(1));
        chunks = chunks.saturating_sub(1);
        (len > 0).then(|| rest.by_ref().take(len).collect())
    })
}

fn merged<'k>(ranges: impl Iterator<Item = &'k KeyRange>) -> Vec<Interval> {
    merge(ranges.filter(|range| !range.is_empty()).map(interval_of).collect())
}

fn merge(mut list: Vec<Interval>) -> Vec<Interval> {
    // Lists that are nearly in order are usual, and cheap for this way of sorting.
    list.sort();
    let mut merged: Vec<Interval> = Vec::with_capacity(list.len());
    for (start, end) in list {
        match merged.last_mut() {
            Some((_, last)) if !ends_before(last, &start) => {
                if is_before(last, &end) {
                    *last = end;
                }
            }
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// One key is the interval from it to its successor.
fn interval_of(keys: &KeyRange) -> Interval {
    let end = match &keys.end {
        RangeEnd::Single => Some([&keys.start, &b"\0"[..]].concat().into()),
        RangeEnd::Before(end) => Some(end.clone()),
        RangeEnd::Open => None,
    };
    (keys.start.clone(), end)
}

/// There is something between this end and the key.
fn ends_before(end: &Option<Bytes>, key: &Bytes) -> bool {
    end.as_ref().is_some_and(|end| end < key)
}

fn is_before(end: &Option<Bytes>, other: &Option<Bytes>) -> bool {
    match (end, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(end), Some(other)) => end < other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &'static str, end: &'static str) -> KeyRange {
        KeyRange::from_wire(Bytes::from_static(start.as_bytes()), Bytes::from_static(end.as_bytes()))
    }

    fn covered(granted: &[KeyRange], asked: KeyRange) -> bool {
        Intervals::union(granted.iter()).contain(&asked)
    }

    #[test]
    fn a_range_must_lie_within_what_is_granted() {
        let granted = [range("b", "d")];
        for (start, end, expected) in [
            ("b", "", true),
            ("c", "", true),
            ("d", "", false),
            ("a", "", false),
            ("b", "d", true),
            ("bb", "c", true),
            ("a", "c", false),
            ("c", "e", false),
            ("c", "\0", false),
        ] {
            assert_eq!(covered(&granted, range(start, end)), expected, "{start} {end}");
            if end.is_empty() {
                assert_eq!(
                    Intervals::union(granted.iter()).contain_key(start.as_bytes()),
                    expected,
                    "{start}"
                );
            }
        }
    }

    #[test]
    fn ranges_that_meet_are_one() {
        let granted = [range("c", "e"), range("a", "c"), range("b", "bb")];
        assert!(covered(&granted, range("a", "e")));
        let apart = [range("a", "b"), range("c", "d")];
        assert!(!covered(&apart, range("a", "d")));
        let keys = [range("a", ""), range("a\0", "")];
        assert!(covered(&keys, range("a", "a\0\0")), "neighbouring keys leave nothing between them");
    }

    #[test]
    fn an_open_end_is_contained_only_in_one() {
        assert!(covered(&[range("b", "\0")], range("c", "\0")));
        assert!(covered(&[range("b", "d"), range("c", "\0")], range("b", "\0")));
        assert!(covered(&[range("", "\0")], range("\0", "\0")), "everything");
        assert!(!covered(&[range("b", "\0")], range("a", "\0")));
        assert!(!covered(&[range("b", "z")], range("b", "\0")));
    }

    #[test]
    fn what_is_inverted_grants_nothing() {
        assert!(!covered(&[range("d", "b")], range("c", "")));
        assert!(covered(&[range("a", "z")], range("d", "b")));
        assert!(!covered(&[range("a", "c")], range("d", "b")));
        assert!(!covered(&[], range("a", "")));
    }

    /// Whatever is granted and taken back in whichever order, the set is the union of what is left.
    #[test]
    fn changes_lead_where_a_union_of_everything_would() {
        for seed in 0..200 {
            let mut rng = base::Rng::new(seed);
            let key = |rng: &mut base::Rng| Bytes::from(format!("{:03}", rng.between(0, 400)));
            let (mut set, mut granted) = (Intervals::default(), Vec::<KeyRange>::new());
            for _ in 0..600 {
                if rng.chance(400_000) && !granted.is_empty() {
                    let gone = granted.swap_remove(rng.between(0, granted.len() as u64) as usize);
                    if let Some(around) = set.around(&gone).filter(|_| !gone.is_empty()) {
                        let left = granted.iter().filter(|range| around.contains(&range.start));
                        set.reduce(&around.start, left);
                    }
                } else {
                    let end = match rng.between(0, 20) {
                        0 if granted.is_empty() => RangeEnd::Open,
                        0..8 => RangeEnd::Single,
                        _ => RangeEnd::Before(key(&mut rng)),
                    };
                    let range = KeyRange { start: key(&mut rng), end };
                    set.add(std::iter::once(&range));
                    granted.push(range);
                }
                assert_eq!(set, Intervals::union(granted.iter()), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_long_list_is_cut_into_chunks_and_a_copy_shares_them() {
        let singles: Vec<KeyRange> =
            (0..5_000).map(|nth| KeyRange::single(Bytes::from(format!("{nth:06}")))).collect();
        let mut set = Intervals::union(singles.iter());
        let copy = set.clone();
        set.add([KeyRange::single(Bytes::from_static(b"002500x"))].iter());
        assert!(set.contain(&KeyRange::single(Bytes::from_static(b"002500x"))));
        assert!(!copy.contain(&KeyRange::single(Bytes::from_static(b"002500x"))));
        let shared = |chunk: &&Arc<[Interval]>| copy.chunks.iter().any(|other| Arc::ptr_eq(chunk, other));
        assert_eq!(set.chunks.iter().filter(shared).count() + 1, copy.chunks.len());
        assert!(set.chunks.iter().all(|chunk| chunk.len() <= CHUNK_LEN_MAX));
        let mut grown = Intervals::default();
        singles.chunks(7).for_each(|ranges| grown.add(ranges.iter()));
        assert_eq!(grown, copy);
        assert!(grown.chunks.len() <= 2 * copy.chunks.len(), "{} chunks", grown.chunks.len());
    }
}
