//! Serializable reads: they may be as old as the member that answers, but never invented.
//! Such a read must equal the state at the revision in its header, whatever the real time, and that revision
//! must have been asked for by someone before the read returned. The linearizability search places these
//! reads together with all others (a read may be the only witness of what an operation of unknown fate did);
//! this file says which requests they are.

use crate::history::ModelRequest;
use coord::request::Request;

/// As etcd has it: a read that asks for it, or a transaction of nothing but such reads.
pub fn is_serializable(asked: &ModelRequest) -> bool {
    let ModelRequest::Kv(request) = asked else { return false };
    match request {
        Request::Range(range) => range.serializable,
        Request::Put(_) | Request::Delete(_) => false,
        Request::Txn(txn) => txn
            .success
            .iter()
            .chain(&txn.failure)
            .all(|request| matches!(request, Request::Range(range) if range.serializable)),
    }
}
