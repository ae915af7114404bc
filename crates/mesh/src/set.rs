//! The observed-remove set: each element with the dots of the adds that put it there.
//! What a side has seen is its record's context. Merging keeps a dot that both have, or that the other has not
//! seen; a dot that the other has seen and no longer has was removed there. So a removal stays removed without
//! a tombstone per element, and an add that the removal did not see survives it.

use crate::actor::Dot;
use crate::context::Context;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrSet {
    /// By element; dots sorted, never empty.
    elements: Vec<(Bytes, Vec<Dot>)>,
}

impl OrSet {
    pub fn elements(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.elements.iter().map(|(element, _)| element)
    }

    /// Each element with the adds that put it there.
    pub fn entries(&self) -> impl Iterator<Item = (&Bytes, &[Dot])> {
        self.elements.iter().map(|(element, dots)| (element, dots.as_slice()))
    }

    pub fn contains(&self, element: &[u8]) -> bool {
        self.find(element).is_ok()
    }

    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    fn find(&self, element: &[u8]) -> Result<usize, usize> {
        self.elements.binary_search_by(|(other, _)| other.as_ref().cmp(element))
    }

    /// Adds under a new dot, which replaces those seen so far; they are put into `seen`.
    pub fn add(&mut self, element: Bytes, dot: Dot, seen: &mut Context) -> OrSet {
        self.remove(&element, seen);
        let at = self.find(&element).expect_err("it was removed just now");
        self.elements.insert(at, (element.clone(), vec![dot]));
        OrSet { elements: vec![(element, vec![dot])] }
    }

    /// Removes what is here of an element; its dots are put into `seen`, and no more is needed as a delta.
    pub fn remove(&mut self, element: &[u8], seen: &mut Context) {
        if let Ok(at) = self.find(element) {
            let (_, dots) = self.elements.remove(at);
            dots.into_iter().for_each(|dot| seen.join(&Context::of_dot(dot)));
        }
    }

    pub fn clear(&mut self, seen: &mut Context) {
        for (_, dots) in self.elements.drain(..) {
            dots.into_iter().for_each(|dot| seen.join(&Context::of_dot(dot)));
        }
    }

    /// Joins two sets, each with what its side has seen.
    pub fn join(left: (&OrSet, &Context), right: (&OrSet, &Context)) -> OrSet {
        let ((left, left_seen), (right, right_seen)) = (left, right);
        let (mut l, mut r) = (left.elements.iter().peekable(), right.elements.iter().peekable());
        let mut elements = Vec::with_capacity(left.elements.len().max(right.elements.len()));
        let none = Vec::new();
        loop {
            let (element, left_dots, right_dots) = match (l.peek(), r.peek()) {
                (Some((a, dots)), Some((b, _))) if a < b => (a, dots, &none),
                (Some((a, _)), Some((b, dots))) if b < a => (b, &none, dots),
                (Some((a, left_dots)), Some((_, right_dots))) => (a, left_dots, right_dots),
                (Some((a, dots)), None) => (a, dots, &none),
                (None, Some((b, dots))) => (b, &none, dots),
                (None, None) => break,
            };
            let dots = join_dots((left_dots, left_seen), (right_dots, right_seen));
            if !dots.is_empty() {
                elements.push((element.clone(), dots));
            }
            l.next_if(|(other, _)| other == element);
            r.next_if(|(other, _)| other == element);
        }
        OrSet { elements }
    }

    /// The same elements under other names of their dots.
    pub fn renamed(&self, name: impl Fn(Dot) -> Dot) -> OrSet {
        let element = |(element, dots): &(Bytes, Vec<Dot>)| {
            let mut dots: Vec<Dot> = dots.iter().map(|dot| name(*dot)).collect();
            dots.sort_unstable();
            (element.clone(), dots)
        };
        OrSet { elements: self.elements.iter().map(element).collect() }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.elements.len() as u64);
        for (element, dots) in &self.elements {
            put_bytes(out, element);
            put_varint(out, dots.len() as u64);
            dots.iter().for_each(|dot| dot.encode(out));
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<OrSet> {
        let count = reader.count()?;
        let mut elements: Vec<(Bytes, Vec<Dot>)> = Vec::new();
        for _ in 0..count {
            let element = reader.bytes()?;
            let dots = (0..reader.count()?).map(|_| Dot::decode(reader)).collect::<Option<Vec<_>>>()?;
            let ordered = elements.last().is_none_or(|(last, _)| *last < element);
            if !ordered || dots.is_empty() || !dots.is_sorted_by(|left, right| left < right) {
                return None;
            }
            elements.push((element, dots));
        }
        Some(OrSet { elements })
    }
}

/// Dots that both sides have, and dots of one side that the other has not seen.
pub(crate) fn join_dots(left: (&[Dot], &Context), right: (&[Dot], &Context)) -> Vec<Dot> {
    let stays = |dot: &&Dot, (dots, seen): (&[Dot], &Context)| dots.contains(dot) || !seen.covers(**dot);
    let from_left = left.0.iter().filter(|dot| stays(dot, right));
    let from_right = right.0.iter().filter(|dot| stays(dot, left) && !left.0.contains(dot));
    let mut dots: Vec<Dot> = from_left.chain(from_right).copied().collect();
    dots.sort_unstable();
    dots
}
