//! A set of keys as intervals that do not touch, in order.
//! Ranges go in, however they overlap; whether all keys of another range are in the set comes out. Two ranges that
//! meet are one: whoever may read `a` to `b` and `b` to `c` may read `a` to `c`.

use base::mutant::{Mutant, planted};
use base::{KeyRange, RangeEnd};
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// With `None` for an end that is open.
    list: Vec<(Bytes, Option<Bytes>)>,
}

impl Intervals {
    pub fn union<'k>(ranges: impl Iterator<Item = &'k KeyRange>) -> Intervals {
        let mut list: Vec<_> = ranges.filter(|range| !range.is_empty()).map(interval_of).collect();
        list.sort();
        let mut merged: Vec<(Bytes, Option<Bytes>)> = Vec::new();
        for (start, end) in list {
            match merged.last_mut() {
                Some((_, last)) if last.as_ref().is_none_or(|last| start <= *last) => {
                    if is_before(last, &end) {
                        *last = end;
                    }
                }
                _ => merged.push((start, end)),
            }
        }
        Intervals { list: merged }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one key is in the set; the same as for a range of it alone.
    pub fn contain_key(&self, key: &[u8]) -> bool {
        let behind = self.list.partition_point(|(from, _)| from.as_ref() <= key);
        let Some((_, end)) = behind.checked_sub(1).map(|at| &self.list[at]) else { return false };
        end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// A range without any key is judged by where it would begin.
    pub fn contain(&self, keys: &KeyRange) -> bool {
        let begin_only = keys.is_empty() || planted(Mutant::PermissionByStartKey);
        let (start, end) = match begin_only {
            true => interval_of(&KeyRange::single(keys.start.clone())),
            false => interval_of(keys),
        };
        let behind = self.list.partition_point(|(from, _)| *from <= start);
        let Some((_, covered)) = behind.checked_sub(1).map(|at| &self.list[at]) else { return false };
        covered.as_ref().is_none_or(|covered| start < *covered) && !is_before(covered, &end)
    }
}

/// One key is the interval from it to its successor.
fn interval_of(keys: &KeyRange) -> (Bytes, Option<Bytes>) {
    let end = match &keys.end {
        RangeEnd::Single => Some([&keys.start, &b"\0"[..]].concat().into()),
        RangeEnd::Before(end) => Some(end.clone()),
        RangeEnd::Open => None,
    };
    (keys.start.clone(), end)
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
}
