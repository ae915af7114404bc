//! Everything that can be refused without looking at the state, in etcd's order.
//! A request goes in before it is proposed; the first rule that it breaks comes out. Inside a transaction an
//! operation obeys the same rules as outside, and nested transactions share what is left of the allowance.

use crate::overlap;
use crate::request::{Limits, Request, Txn};
use base::{Code, KeyRange};

impl Request {
    pub fn validate(&self, limits: &Limits) -> Result<(), Code> {
        check_request(self, *limits)?;
        match self {
            Request::Txn(txn) => overlap::check(txn),
            _ => Ok(()),
        }
    }
}

fn check_request(request: &Request, limits: Limits) -> Result<(), Code> {
    match request {
        Request::Range(range) => check_keys(&range.keys),
        Request::Put(put) => check_key(&put.key),
        Request::Delete(delete) => check_keys(&delete.keys),
        Request::Txn(txn) => check_txn(txn, limits),
    }
}

fn check_txn(txn: &Txn, limits: Limits) -> Result<(), Code> {
    let widest = txn.compares.len().max(txn.success.len()).max(txn.failure.len());
    let ops_left = limits.txn_ops_max.checked_sub(widest).ok_or(Code::TooManyOps)?;
    for compare in &txn.compares {
        check_keys(&compare.keys)?;
    }
    for request in txn.success.iter().chain(&txn.failure) {
        let depth_left = match request {
            Request::Txn(_) => limits.txn_depth_max.checked_sub(1).ok_or(Code::TxnTooDeep)?,
            _ => limits.txn_depth_max,
        };
        check_request(request, Limits { txn_ops_max: ops_left, txn_depth_max: depth_left })?;
    }
    Ok(())
}

fn check_keys(keys: &KeyRange) -> Result<(), Code> {
    check_key(&keys.start)
}

fn check_key(key: &[u8]) -> Result<(), Code> {
    if key.is_empty() { Err(Code::EmptyKey) } else { Ok(()) }
}
