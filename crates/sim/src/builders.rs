//! Short ways to write requests and operations in tests.

use crate::durable::read_everything;
use crate::history::{ModelRequest, Operation, Outcome};
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::reply::{Body, DeleteReply, KeyValue, PutReply, RangeReply, Reply, TxnReply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn one(key: &str) -> KeyRange {
    KeyRange::single(bytes(key))
}

pub fn span(start: &str, end: &str) -> KeyRange {
    KeyRange::from_wire(bytes(start), bytes(end))
}

pub fn put(key: &str, value: &str) -> Put {
    Put { key: bytes(key), value: Some(bytes(value)), lease: Some(LeaseId::NONE), prev_kv: false }
}

pub fn range(keys: KeyRange) -> Range {
    let Request::Range(all) = read_everything() else { unreachable!("it reads") };
    Range { keys, ..all }
}

pub fn delete(keys: KeyRange) -> Delete {
    Delete { keys, prev_kv: false }
}

pub fn compare(key: &str, relation: Relation, target: Target) -> Compare {
    Compare { keys: one(key), relation, target }
}

pub fn txn(compares: Vec<Compare>, success: Vec<Request>, failure: Vec<Request>) -> Request {
    Request::Txn(Txn { compares, success, failure })
}

/// create, mod, version.
pub fn kv(key: &str, value: &str, create: i64, modified: i64, version: i64) -> KeyValue {
    KeyValue {
        key: bytes(key),
        create_revision: Revision(create),
        mod_revision: Revision(modified),
        version,
        lease: LeaseId::NONE,
        value: bytes(value),
    }
}

pub fn found(kvs: Vec<KeyValue>) -> Body {
    Body::Range(RangeReply { count: kvs.len() as u64, more: false, kvs })
}

pub fn was(prev_kv: Option<KeyValue>) -> Body {
    Body::Put(PutReply { prev_kv })
}

pub fn deleted(deleted: u64) -> Body {
    Body::Delete(DeleteReply { deleted, prev_kvs: Vec::new() })
}

pub fn went(succeeded: bool, bodies: Vec<Body>) -> Body {
    Body::Txn(TxnReply { succeeded, bodies })
}

pub fn done(
    invoked: u64,
    returned: u64,
    request: impl Into<ModelRequest>,
    revision: i64,
    body: Body,
) -> Operation {
    let request = request.into();
    let outcome = Outcome::Done(Reply { revision: Revision(revision), body });
    Operation { client: 1, invoked, returned: Some(returned), request, outcome }
}

pub fn unknown(invoked: u64, request: impl Into<ModelRequest>) -> Operation {
    let request = request.into();
    Operation { client: 1, invoked, returned: None, request, outcome: Outcome::Unknown }
}

pub fn refused(invoked: u64, returned: u64, request: impl Into<ModelRequest>, code: Code) -> Operation {
    let request = request.into();
    Operation { client: 1, invoked, returned: Some(returned), request, outcome: Outcome::Refused(code) }
}
