//! The requests of the simple loads, one call after the other, and the calls under way on one connection.
//! A seed and a shape go in; requests come out, the same for the same seed.

use crate::wire::{GrpcConn, StreamId};
use base::Rng;
use bytes::Bytes;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{Compare, PutRequest, RangeRequest, RequestOp, TxnRequest};
use std::collections::VecDeque;
use std::time::Instant;

const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Put,
    Range {
        serializable: bool,
    },
    /// A compare that holds, and a put.
    Txn,
    /// So many of a hundred calls are linearizable reads, the others puts.
    Mixed {
        reads_percent: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub size: usize,
    /// How many different ones there are.
    pub space: u64,
    /// One after the other, instead of at random.
    pub sequential: bool,
}

/// Makes one call after the other.
pub struct Caller {
    kind: Kind,
    keys: Keys,
    value: Bytes,
    rng: Rng,
    next: u64,
    /// How far the next key in sequence is: callers that share a sequence take turns.
    stride: u64,
}

impl Caller {
    /// The `nth` of `of` callers that share the key space.
    pub fn new(kind: Kind, keys: Keys, value_size: usize, seed: u64, nth: u64, of: u64) -> Caller {
        let mut rng = Rng::new(seed.wrapping_add(nth));
        let value = (0..value_size).map(|_| rng.next_u64() as u8).collect();
        Caller { kind, keys, value, rng, next: nth, stride: of }
    }

    pub fn key(&mut self) -> Bytes {
        let number = if self.keys.sequential {
            self.next % self.keys.space
        } else {
            self.rng.between(0, self.keys.space)
        };
        self.next += self.stride;
        key(number, self.keys.size)
    }

    pub fn issue(&mut self, wire: &mut GrpcConn) -> StreamId {
        let key = self.key();
        match self.kind {
            Kind::Put => wire.call(PUT, &self.put(key)),
            Kind::Range { serializable } => wire.call(RANGE, &range(key, serializable)),
            Kind::Txn => wire.call(TXN, &self.txn(key)),
            Kind::Mixed { reads_percent } => {
                if self.rng.between(0, 100) < u64::from(reads_percent) {
                    wire.call(RANGE, &range(key, false))
                } else {
                    wire.call(PUT, &self.put(key))
                }
            }
        }
    }

    pub fn put(&self, key: Bytes) -> PutRequest {
        PutRequest { key, value: self.value.clone(), ..PutRequest::default() }
    }

    fn txn(&self, key: Bytes) -> TxnRequest {
        let always = Compare {
            result: CompareResult::Greater as i32,
            target: CompareTarget::Version as i32,
            key: key.clone(),
            target_union: Some(TargetUnion::Version(-1)),
            ..Compare::default()
        };
        let put = RequestOp { request: Some(Request::RequestPut(self.put(key))) };
        TxnRequest { compare: vec![always], success: vec![put], failure: Vec::new() }
    }
}

fn range(key: Bytes, serializable: bool) -> RangeRequest {
    RangeRequest { key, serializable, ..RangeRequest::default() }
}

/// A number as a key: decimal digits, filled up with zeros; a short key keeps the last digits.
pub fn key(number: u64, size: usize) -> Bytes {
    let digits = format!("{number:0size$}");
    Bytes::copy_from_slice(&digits.as_bytes()[digits.len() - size..])
}

/// The calls under way on one connection, and when each began. Streams are numbered in order, so a deque holds them.
#[derive(Default)]
pub struct InFlight {
    row: VecDeque<(StreamId, Option<Instant>)>,
    count: usize,
}

impl InFlight {
    pub fn begin(&mut self, stream: StreamId, at: Instant) {
        self.row.push_back((stream, Some(at)));
        self.count += 1;
    }

    /// When it began; `None` for a stream that is not under way.
    pub fn end(&mut self, stream: StreamId) -> Option<Instant> {
        let idx = self.row.binary_search_by_key(&stream, |(other, _)| *other).ok()?;
        let began = self.row[idx].1.take()?;
        self.count -= 1;
        while self.row.pop_front_if(|(_, began)| began.is_none()).is_some() {}
        Some(began)
    }

    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_size_whatever_the_number() {
        assert_eq!(key(7, 4), "0007");
        assert_eq!(key(123_456, 4), "3456");
    }

    #[test]
    fn callers_in_sequence_share_the_space_between_them() {
        let keys = Keys { size: 2, space: 10, sequential: true };
        let mut callers: Vec<Caller> = (0..2).map(|nth| Caller::new(Kind::Put, keys, 1, 1, nth, 2)).collect();
        let mut seen: Vec<Bytes> = (0..10).map(|nth| callers[nth % 2].key()).collect();
        seen.sort();
        assert_eq!(seen, (0..10).map(|number| key(number, 2)).collect::<Vec<_>>());
    }
}
