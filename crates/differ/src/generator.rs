//! Draws requests over few keys and few leases, so that they collide. The same seed and the same revisions seen
//! give the same requests. What COMPAT.md names as a deviation is not drawn.

use crate::test_call::{Step, TestCall, WatchCall};
use base::Rng;
use bytes::Bytes;
use prost::Message;
use proto::etcdserverpb::compare::{CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest, WatchCreateRequest,
};

/// Transactions within transactions.
const DEPTH: u64 = 2;
/// Streams of watches that are open side by side.
pub const STREAMS: usize = 3;
/// How far back a request usually looks.
const LOOK_BACK: i64 = 60;
/// Leases live longer than any run, so that none expires in it.
const LONG_TTL: i64 = 100_000;

/// What the other server is. What only older ones do otherwise is not drawn for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdRelease {
    Older,
    /// 3.7 or newer.
    Latest,
}

impl EtcdRelease {
    /// Of `/version`.
    pub fn of(answer: &[u8]) -> EtcdRelease {
        let version: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
        let mut numbers =
            version["etcdserver"].as_str().unwrap_or_default().split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (3, 7) => EtcdRelease::Latest,
            _ => EtcdRelease::Older,
        }
    }
}

pub struct RequestGenerator {
    rng: Rng,
    pub seed: u64,
    pub release: EtcdRelease,
    /// The newest revision that the servers returned.
    pub now: i64,
    /// The oldest that can be read.
    pub floor: i64,
}

impl RequestGenerator {
    pub fn new(seed: u64, release: EtcdRelease) -> RequestGenerator {
        RequestGenerator { rng: Rng::new(seed), seed, release, now: 1, floor: 1 }
    }

    pub fn step(&mut self) -> Step {
        match self.below(100) {
            0..=34 => Step::Reads((0..=self.below(8)).map(|_| self.read()).collect()),
            35..=59 => Step::Alone(TestCall::Put(self.put())),
            60..=66 => Step::Alone(TestCall::Delete(self.delete())),
            67..=84 => Step::Alone(TestCall::Txn(self.txn(DEPTH))),
            85 => Step::Alone(self.compact_or_refused()),
            86..=91 => self.lease(),
            _ => self.watch(),
        }
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.rng.between(0, n)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Six keys: up to so many, etcd 3.5 sorts equals in their order.
    fn key(&mut self) -> Bytes {
        match self.below(30) {
            0 => Bytes::new(),
            1 => "\0".into(),
            n => format!("k{}", n % 5).into(),
        }
    }

    fn range_end(&mut self) -> Bytes {
        match self.below(6) {
            0 => self.key(),
            1 => "\0".into(),
            2 => "k9".into(),
            _ => Bytes::new(),
        }
    }

    /// Around the present: seldom before the beginning, seldom in the future.
    fn near_now(&mut self) -> i64 {
        match self.below(30) {
            0 => self.below(5) as i64 - 3,
            _ => self.now + 3 - self.below(LOOK_BACK as u64) as i64,
        }
    }

    fn revision(&mut self) -> i64 {
        if self.one_in(3) { self.near_now() } else { 0 }
    }

    fn bound(&mut self) -> i64 {
        if self.one_in(8) { self.near_now() } else { 0 }
    }

    pub(crate) fn lease_id(&mut self) -> i64 {
        match self.below(12) {
            0 => -7,
            n => 1 + (n as i64) % 4,
        }
    }

    fn value(&mut self) -> Bytes {
        match self.below(2_000) {
            // Enough of them in one watch response make fragments.
            0 => vec![b'x'; 400_000].into(),
            1..=40 => vec![b'y'; self.below(3_000) as usize].into(),
            n => format!("{}", n % 4).into(),
        }
    }

    fn read(&mut self) -> TestCall {
        match self.below(20) {
            0 => TestCall::Leases,
            1 => TestCall::TimeToLive(LeaseTimeToLiveRequest { id: self.lease_id(), keys: self.one_in(2) }),
            _ => TestCall::Range(self.range()),
        }
    }

    pub(crate) fn range(&mut self) -> RangeRequest {
        RangeRequest {
            key: self.key(),
            range_end: self.range_end(),
            limit: if self.one_in(2) { self.below(6) as i64 - 1 } else { 0 },
            revision: self.revision(),
            sort_order: self.below(3) as i32,
            sort_target: self.below(5) as i32,
            serializable: self.one_in(4),
            keys_only: self.one_in(6),
            count_only: self.one_in(6),
            min_mod_revision: self.bound(),
            max_mod_revision: self.bound(),
            min_create_revision: self.bound(),
            max_create_revision: self.bound(),
        }
    }

    /// Of two operations that cannot be, etcd 3.6 tells the first and 3.5 tells of puts before ranges: inside a
    /// transaction, ranges reach neither into the future nor behind a compaction.
    fn present_range(&mut self) -> RangeRequest {
        let range = self.range();
        if self.release == EtcdRelease::Latest {
            return range;
        }
        let revision = if range.revision == 0 { 0 } else { range.revision.clamp(self.floor, self.now) };
        RangeRequest { revision, ..range }
    }

    /// Of a missing key and an unknown lease, older releases tell of the key inside a transaction: there, puts that keep
    /// what is there have no lease.
    fn put_in_txn(&mut self) -> PutRequest {
        let put = self.put();
        let keeps_lease = self.release == EtcdRelease::Latest || !put.ignore_value;
        if keeps_lease { put } else { PutRequest { lease: 0, ..put } }
    }

    pub(crate) fn put(&mut self) -> PutRequest {
        let mut put = PutRequest {
            key: self.key(),
            value: self.value(),
            lease: if self.one_in(8) { self.lease_id() } else { 0 },
            prev_kv: self.one_in(3),
            ignore_value: self.one_in(10),
            ignore_lease: self.one_in(10),
        };
        // A put that keeps what is there must give nothing; half of them obey.
        if put.ignore_value && self.one_in(2) {
            put.value = Bytes::new();
        }
        if put.ignore_lease && self.one_in(2) {
            put.lease = 0;
        }
        put
    }

    pub(crate) fn delete(&mut self) -> DeleteRangeRequest {
        DeleteRangeRequest { key: self.key(), range_end: self.range_end(), prev_kv: self.one_in(2) }
    }

    /// etcd overlooks that a delete with an open end, or one in a nested transaction, meets a put (deviation
    /// 14), so these do not come up in transactions.
    fn bounded_delete(&mut self) -> DeleteRangeRequest {
        let delete = self.delete();
        let range_end = if delete.range_end == "\0" { "k9".into() } else { delete.range_end };
        DeleteRangeRequest { range_end, ..delete }
    }

    fn compare(&mut self) -> Compare {
        let target_union = match self.below(6) {
            0 => Some(TargetUnion::Version(self.below(8) as i64)),
            1 => Some(TargetUnion::CreateRevision(self.near_now())),
            2 => Some(TargetUnion::ModRevision(self.near_now())),
            3 => Some(TargetUnion::Value(self.below(4).to_string().into())),
            4 => Some(TargetUnion::Lease(if self.one_in(2) { 0 } else { self.lease_id() })),
            _ => None,
        };
        let target = match (&target_union, self.one_in(10)) {
            (Some(TargetUnion::Version(_)), false) => CompareTarget::Version as i32,
            (Some(TargetUnion::CreateRevision(_)), false) => CompareTarget::Create as i32,
            (Some(TargetUnion::ModRevision(_)), false) => CompareTarget::Mod as i32,
            (Some(TargetUnion::Value(_)), false) => CompareTarget::Value as i32,
            (Some(TargetUnion::Lease(_)), false) => CompareTarget::Lease as i32,
            _ => self.below(5) as i32,
        };
        let result = self.below(4) as i32;
        Compare { result, target, key: self.key(), target_union, range_end: self.range_end() }
    }

    fn op(&mut self, depth_left: u64) -> RequestOp {
        let request = match self.below(if depth_left > 0 { 11 } else { 10 }) {
            0..=3 => Some(Op::RequestRange(self.present_range())),
            4..=7 => Some(Op::RequestPut(self.put_in_txn())),
            8 if depth_left == DEPTH => Some(Op::RequestDeleteRange(self.bounded_delete())),
            8 => Some(Op::RequestPut(self.put_in_txn())),
            9 if self.one_in(10) => None,
            9 => Some(Op::RequestRange(self.present_range())),
            _ => Some(Op::RequestTxn(self.txn(depth_left - 1))),
        };
        RequestOp { request }
    }

    fn ops(&mut self, depth_left: u64) -> Vec<RequestOp> {
        (0..self.below(4)).map(|_| self.op(depth_left)).collect()
    }

    pub(crate) fn txn(&mut self, depth_left: u64) -> TxnRequest {
        if depth_left == DEPTH && self.one_in(300) {
            // Of two errors we report the other one here (deviation 31), so there is one alone.
            let range = RangeRequest { key: "k1".into(), revision: 0, ..self.present_range() };
            let op = RequestOp { request: Some(Op::RequestRange(range)) };
            return TxnRequest { success: vec![op; 127 + self.below(4) as usize], ..Default::default() };
        }
        TxnRequest {
            compare: (0..self.below(3)).map(|_| self.compare()).collect(),
            success: self.ops(depth_left),
            failure: self.ops(depth_left),
        }
    }

    fn compact_or_refused(&mut self) -> TestCall {
        match self.below(10) {
            0 => self.malformed(),
            1 if self.one_in(10) => TestCall::Put(PutRequest {
                key: "big".into(),
                value: vec![b'z'; 1_800_000].into(),
                ..Default::default()
            }),
            _ => {
                // etcd accepts revision 0 once (deviation 20).
                let revision = self.near_now().max(1);
                TestCall::Compact(CompactionRequest { revision, physical: self.one_in(2) })
            }
        }
    }

    fn malformed(&mut self) -> TestCall {
        let put = PutRequest { key: "key".into(), value: "value".into(), ..Default::default() };
        let whole = put.encode_to_vec();
        let message = match self.below(3) {
            0 => whole[..whole.len() - 1].to_vec(),
            // A field without a number. A number where bytes belong is refused by us alone (deviation 32).
            1 => vec![0x00, 0x01],
            _ => vec![0xff; 12],
        };
        let path = *self.rng.pick(&[
            "/etcdserverpb.KV/Put",
            "/etcdserverpb.KV/Range",
            "/etcdserverpb.KV/DeleteRange",
            "/etcdserverpb.KV/Txn",
        ]);
        TestCall::Malformed { path, message: message.into() }
    }

    fn lease(&mut self) -> Step {
        let id = self.lease_id();
        match self.below(20) {
            0 => Step::ShortLease(LeaseGrantRequest { ttl: self.below(4) as i64 - 1, id: 99 }),
            1 => Step::Alone(TestCall::Grant(LeaseGrantRequest { ttl: 9_000_000_001, id })),
            2..=9 => {
                Step::Alone(TestCall::Grant(LeaseGrantRequest { ttl: LONG_TTL + self.below(10) as i64, id }))
            }
            10..=13 => Step::Alone(TestCall::KeepAlive(id)),
            _ => Step::Alone(TestCall::Revoke(id)),
        }
    }

    fn watch(&mut self) -> Step {
        let ask = match self.below(10) {
            0..=4 => WatchCall::Create(self.watch_create()),
            5..=8 => WatchCall::Cancel { nth: self.below(4) },
            _ => WatchCall::Progress,
        };
        Step::Watch { stream: self.below(STREAMS as u64) as usize, ask }
    }

    fn watch_create(&mut self) -> WatchCreateRequest {
        WatchCreateRequest {
            key: self.key(),
            range_end: self.range_end(),
            // A negative start is refused (deviation 25).
            start_revision: if self.one_in(2) { self.near_now().max(0) } else { 0 },
            progress_notify: self.one_in(4),
            filters: (0..self.below(3)).filter_map(|n| self.one_in(3).then_some(n as i32)).collect(),
            prev_kv: self.one_in(2),
            watch_id: if self.one_in(4) { self.below(12) as i64 } else { 0 },
            fragment: self.one_in(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_version() {
        let of = |version: &str| EtcdRelease::of(format!(r#"{{"etcdserver":"{version}"}}"#).as_bytes());
        assert_eq!([of("3.7.1"), of("3.10.0"), of("4.0.0")], [EtcdRelease::Latest; 3]);
        assert_eq!([of("3.5.1"), of("3.6.11"), of("nonsense")], [EtcdRelease::Older; 3]);
        assert_eq!(EtcdRelease::of(b"not found"), EtcdRelease::Older);
    }
}
