//! Ranges of keys as etcd names them: one key, a half-open interval, or everything from a key on.
//! The wire spelling (`range_end` empty, `"\0"`, or a bound) is translated here once and nowhere else.

use bytes::Bytes;
use std::ops::Bound;

/// Where a range stops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RangeEnd {
    /// The range is exactly its start key.
    Single,
    /// Up to, and without, this key.
    Before(Bytes),
    /// Every key from the start on.
    Open,
}

/// A set of keys; `start` is included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    pub start: Bytes,
    pub end: RangeEnd,
}

impl KeyRange {
    pub fn single(key: Bytes) -> KeyRange {
        KeyRange { start: key, end: RangeEnd::Single }
    }

    /// From the wire: an empty `range_end` is one key, `"\0"` is an open end.
    pub fn from_wire(key: Bytes, range_end: Bytes) -> KeyRange {
        let end = match range_end.as_ref() {
            b"" => RangeEnd::Single,
            b"\0" => RangeEnd::Open,
            _ => RangeEnd::Before(range_end),
        };
        KeyRange { start: key, end }
    }

    /// Back to the wire's `range_end`.
    pub fn wire_end(&self) -> Bytes {
        match &self.end {
            RangeEnd::Single => Bytes::new(),
            RangeEnd::Before(end) => end.clone(),
            RangeEnd::Open => Bytes::from_static(b"\0"),
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            RangeEnd::Single => key == self.start.as_ref(),
            RangeEnd::Before(end) => key >= self.start.as_ref() && key < end.as_ref(),
            RangeEnd::Open => key >= self.start.as_ref(),
        }
    }

    /// No key can be inside: the end is at or before the start.
    pub fn is_empty(&self) -> bool {
        matches!(&self.end, RangeEnd::Before(end) if end.as_ref() <= self.start.as_ref())
    }

    pub fn overlaps(&self, other: &KeyRange) -> bool {
        let starts_before_end = |a: &KeyRange, b: &KeyRange| match &b.end {
            RangeEnd::Single => a.start <= b.start,
            RangeEnd::Before(end) => a.start < *end,
            RangeEnd::Open => true,
        };
        !self.is_empty()
            && !other.is_empty()
            && starts_before_end(self, other)
            && starts_before_end(other, self)
    }

    /// The same range as bounds for an ordered map. Callers check `is_empty` first: a map panics on an
    /// inverted range.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let start = self.start.as_ref();
        match &self.end {
            RangeEnd::Single => (Bound::Included(start), Bound::Included(start)),
            RangeEnd::Before(end) => (Bound::Included(start), Bound::Excluded(end.as_ref())),
            RangeEnd::Open => (Bound::Included(start), Bound::Unbounded),
        }
    }
}

/// The smallest key greater than every key with this prefix, in wire spelling: the last byte that can be
/// incremented is, and what follows is cut. An empty prefix and one of 0xFF alone have no such key: `"\0"`.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        None => Bytes::from_static(b"\0"),
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bytes::from(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &'static str, end: &'static str) -> KeyRange {
        KeyRange::from_wire(Bytes::from_static(start.as_bytes()), Bytes::from_static(end.as_bytes()))
    }

    #[test]
    fn the_wire_spelling_survives_a_round_trip() {
        for (start, end) in [("a", ""), ("a", "b"), ("a", "\0"), ("\0", "\0")] {
            assert_eq!(range(start, end).wire_end().as_ref(), end.as_bytes());
        }
    }

    #[test]
    fn overlap_is_symmetric_and_agrees_with_membership() {
        let ranges = [
            range("a", ""),
            range("a", "c"),
            range("b", "\0"),
            range("c", "d"),
            range("c", "b"),
            range("b", ""),
        ];
        let keys: [&[u8]; 6] = [b"a", b"aa", b"b", b"bb", b"c", b"z"];
        for left in &ranges {
            for right in &ranges {
                assert_eq!(left.overlaps(right), right.overlaps(left), "{left:?} {right:?}");
                let common = keys.iter().any(|key| left.contains(key) && right.contains(key));
                assert!(!common || left.overlaps(right), "{left:?} {right:?}");
            }
        }
        assert!(!range("a", "c").overlaps(&range("c", "d")));
        assert!(!range("c", "b").overlaps(&range("a", "\0")), "an inverted range holds nothing");
    }

    #[test]
    fn a_prefix_ends_at_its_last_incrementable_byte() {
        assert_eq!(prefix_end(b"a").as_ref(), b"b");
        assert_eq!(prefix_end(b"a\xff\xff").as_ref(), b"b");
        assert_eq!(prefix_end(b"\xff\xff").as_ref(), b"\0");
        assert_eq!(prefix_end(b"").as_ref(), b"\0");
    }
}
