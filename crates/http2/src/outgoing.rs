//! What waits to be sent on one stream: pieces of a body and what ends it. It is empty for almost every stream,
//! because answers usually fit into the other side's window at once.

use crate::hpack::Field;
use bytes::Bytes;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Outgoing {
    pieces: VecDeque<Bytes>,
    pub end: Option<BodyEnd>,
}

/// How a body ends.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// With its last byte.
    Plain,
    Trailers(Vec<Field>),
}

impl Outgoing {
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Whether no bytes wait; an end may.
    pub fn is_drained(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The next bytes, at most as many as the limit says.
    pub fn take(&mut self, limit: usize) -> Option<Bytes> {
        let first = self.pieces.front_mut()?;
        if first.len() > limit {
            return Some(first.split_to(limit));
        }
        self.pieces.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order_and_no_larger_than_the_limit() {
        let mut outgoing = Outgoing::default();
        ["abcd", "", "ef"].into_iter().for_each(|piece| outgoing.push(Bytes::from_static(piece.as_bytes())));
        let mut taken = Vec::new();
        while let Some(piece) = outgoing.take(3) {
            taken.push(piece);
        }
        assert_eq!(taken, ["abc", "d", "ef"]);
        assert!(outgoing.is_drained());
    }
}
