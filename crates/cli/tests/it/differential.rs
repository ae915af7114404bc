//! The same random requests to etcd and to us: every answer and every refusal must be the same.
//! It runs when the variable `ETCD` names etcd's binary. Identities and terms are left out of the comparison,
//! and so are the deviations that COMPAT.md lists.

use crate::etcd::Etcd;
use crate::process::{PATIENCE, Plan, free_port, until};
use crate::tour::block_on;
use base::Rng;
use bytes::Bytes;
use proto::etcdserverpb::compare::{CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest,
};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const SEEDS: u64 = 8;
const REQUESTS_PER_SEED: usize = 400;
/// Transactions within transactions.
const DEPTH: u64 = 2;

pub struct RealEtcd {
    child: Child,
    pub endpoint: String,
    _dir: tempfile::TempDir,
}

impl RealEtcd {
    pub fn start(binary: &str) -> RealEtcd {
        let dir = tempfile::TempDir::new().unwrap();
        let (client, peer) = (free_port(), free_port());
        let url = |port| format!("http://127.0.0.1:{port}");
        let child = Command::new(binary)
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer)), "--unsafe-no-fsync"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = RealEtcd { child, endpoint: url(client), _dir: dir };
        until("etcd listens", || TcpStream::connect(("127.0.0.1", client)).ok());
        etcd
    }
}

impl Drop for RealEtcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Draws requests over few keys, so that they meet.
struct Dice(Rng);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.between(0, n)
    }

    fn one_in(&mut self, n: u64) -> bool {
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

    fn revision(&mut self) -> i64 {
        if self.one_in(3) { self.below(63) as i64 - 3 } else { 0 }
    }

    fn range(&mut self) -> RangeRequest {
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
            min_mod_revision: if self.one_in(8) { self.below(60) as i64 - 5 } else { 0 },
            max_mod_revision: if self.one_in(8) { self.below(60) as i64 - 5 } else { 0 },
            min_create_revision: if self.one_in(8) { self.below(60) as i64 - 5 } else { 0 },
            max_create_revision: if self.one_in(8) { self.below(60) as i64 - 5 } else { 0 },
        }
    }

    /// Of two operations that cannot be, etcd 3.6 tells the first and 3.5 tells of puts before ranges: inside a
    /// transaction, ranges do not reach into the future.
    fn past_range(&mut self) -> RangeRequest {
        let range = self.range();
        RangeRequest { revision: range.revision % 2, ..range }
    }

    fn put(&mut self) -> PutRequest {
        PutRequest {
            key: self.key(),
            value: format!("{}", self.below(4)).into(),
            lease: if self.one_in(20) { self.below(3) as i64 } else { 0 },
            prev_kv: self.one_in(3),
            ignore_value: self.one_in(10),
            ignore_lease: self.one_in(10),
        }
        .emptied_half_the_time(self)
    }

    fn delete(&mut self) -> DeleteRangeRequest {
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
        let number = self.below(8) as i64;
        let target_union = match self.below(6) {
            0 => Some(TargetUnion::Version(number)),
            1 => Some(TargetUnion::CreateRevision(number)),
            2 => Some(TargetUnion::ModRevision(number)),
            3 => Some(TargetUnion::Value(number.to_string().into())),
            4 => Some(TargetUnion::Lease(0)),
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
        Compare {
            result: self.below(4) as i32,
            target,
            key: self.key(),
            target_union,
            range_end: self.range_end(),
        }
    }

    fn op(&mut self, depth_left: u64) -> RequestOp {
        let request = match self.below(if depth_left > 0 { 11 } else { 10 }) {
            0..=3 => Some(Op::RequestRange(self.past_range())),
            4..=7 => Some(Op::RequestPut(self.put())),
            8 if depth_left == DEPTH => Some(Op::RequestDeleteRange(self.bounded_delete())),
            8 => Some(Op::RequestPut(self.put())),
            9 if self.one_in(10) => None,
            9 => Some(Op::RequestRange(self.past_range())),
            _ => Some(Op::RequestTxn(self.txn(depth_left - 1))),
        };
        RequestOp { request }
    }

    fn ops(&mut self, depth_left: u64) -> Vec<RequestOp> {
        (0..self.below(4)).map(|_| self.op(depth_left)).collect()
    }

    fn txn(&mut self, depth_left: u64) -> TxnRequest {
        TxnRequest {
            compare: (0..self.below(3)).map(|_| self.compare()).collect(),
            success: self.ops(depth_left),
            failure: self.ops(depth_left),
        }
    }
}

trait Emptied {
    /// A put that keeps what is there must give nothing; half of them obey.
    fn emptied_half_the_time(self, dice: &mut Dice) -> Self;
}

impl Emptied for PutRequest {
    fn emptied_half_the_time(mut self, dice: &mut Dice) -> PutRequest {
        if self.ignore_value && dice.one_in(2) {
            self.value = Bytes::new();
        }
        if self.ignore_lease && dice.one_in(2) {
            self.lease = 0;
        }
        self
    }
}

/// What of an answer must be equal.
fn essence<T: std::fmt::Debug>(
    outcome: Result<T, tonic::Status>,
    header: impl Fn(&mut T) -> &mut Option<ResponseHeader>,
) -> String {
    match outcome {
        Ok(mut answer) => {
            let full = header(&mut answer).as_mut().expect("every answer has a header");
            *full = ResponseHeader { revision: full.revision, ..Default::default() };
            format!("{answer:?}")
        }
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    }
}

#[derive(Clone, Debug)]
enum Ask {
    Range(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
}

async fn answer(etcd: &mut Etcd, ask: Ask) -> String {
    let answered = async {
        match ask {
            Ask::Range(range) => essence(etcd.range(range).await, |answer| &mut answer.header),
            Ask::Put(put) => essence(etcd.put(put).await, |answer| &mut answer.header),
            Ask::Delete(delete) => essence(etcd.delete(delete).await, |answer| &mut answer.header),
            Ask::Txn(txn) => essence(etcd.txn(txn).await, |answer| &mut answer.header),
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer")
}

#[test]
fn random_requests_are_answered_as_etcd_answers_them() {
    let Ok(binary) = std::env::var("ETCD") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED random_requests_are_answered_as_etcd_answers_them: set ETCD to a binary to run it"
        );
        return;
    };
    for seed in 0..SEEDS {
        let theirs = RealEtcd::start(&binary);
        let ours = Plan::single().start_ready();
        block_on(async {
            let mut theirs = Etcd::connect(&theirs.endpoint).await;
            let mut ours = ours.etcd().await;
            let mut dice = Dice(Rng::new(seed));
            for step in 0..REQUESTS_PER_SEED {
                let ask = match dice.below(10) {
                    0..=2 => Ask::Range(dice.range()),
                    3..=5 => Ask::Put(dice.put()),
                    6 => Ask::Delete(dice.delete()),
                    _ => Ask::Txn(dice.txn(DEPTH)),
                };
                let expected = answer(&mut theirs, ask.clone()).await;
                let found = answer(&mut ours, ask.clone()).await;
                assert_eq!(found, expected, "seed {seed}, step {step}: {ask:#?}");
            }
        });
    }
}
