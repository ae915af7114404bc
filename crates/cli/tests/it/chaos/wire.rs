//! The judge's vocabulary to the wire and back, as far as the load speaks it.

use crate::etcd::{Answer, Etcd, op};
use base::{LeaseId, Revision};
use coord::reply::{Body, DeleteReply, KeyValue, PutReply, RangeReply, Reply, TxnReply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::response_op::Response as OpReply;
use proto::etcdserverpb::{self as wire, ResponseHeader};
use proto::mvccpb;

pub async fn send(etcd: &mut Etcd, request: &Request) -> Answer<Reply> {
    let (header, body) = match request {
        Request::Range(range) => etcd.range(range_out(range)).await.map(range_in)?,
        Request::Put(put) => etcd.put(put_out(put)).await.map(put_in)?,
        Request::Delete(delete) => etcd.delete(delete_out(delete)).await.map(delete_in)?,
        Request::Txn(txn) => etcd.txn(txn_out(txn)).await.map(txn_in)?,
    };
    Ok(Reply { revision: Revision(header.unwrap().revision), body })
}

fn range_out(range: &Range) -> wire::RangeRequest {
    wire::RangeRequest {
        key: range.keys.start.clone(),
        range_end: range.keys.wire_end(),
        ..Default::default()
    }
}

fn put_out(put: &Put) -> wire::PutRequest {
    let value = put.value.clone().expect("the load gives values");
    wire::PutRequest { key: put.key.clone(), value, prev_kv: put.prev_kv, ..Default::default() }
}

fn delete_out(delete: &Delete) -> wire::DeleteRangeRequest {
    let keys = &delete.keys;
    wire::DeleteRangeRequest { key: keys.start.clone(), range_end: keys.wire_end(), prev_kv: delete.prev_kv }
}

fn txn_out(txn: &Txn) -> wire::TxnRequest {
    wire::TxnRequest {
        compare: txn.compares.iter().map(compare_out).collect(),
        success: txn.success.iter().map(op_out).collect(),
        failure: txn.failure.iter().map(op_out).collect(),
    }
}

fn op_out(request: &Request) -> wire::RequestOp {
    op(match request {
        Request::Range(range) => Op::RequestRange(range_out(range)),
        Request::Put(put) => Op::RequestPut(put_out(put)),
        Request::Delete(delete) => Op::RequestDeleteRange(delete_out(delete)),
        Request::Txn(txn) => Op::RequestTxn(txn_out(txn)),
    })
}

fn compare_out(compare: &Compare) -> wire::Compare {
    assert_eq!(compare.relation, Relation::Equal, "the load compares for equality only");
    let (target, operand) = match &compare.target {
        Target::Value(value) => (CompareTarget::Value, TargetUnion::Value(value.clone())),
        Target::Create(revision) => (CompareTarget::Create, TargetUnion::CreateRevision(revision.0)),
        other => unreachable!("the load does not compare {other:?}"),
    };
    wire::Compare {
        result: CompareResult::Equal as i32,
        target: target as i32,
        key: compare.keys.start.clone(),
        range_end: compare.keys.wire_end(),
        target_union: Some(operand),
    }
}

type Read = (Option<ResponseHeader>, Body);

fn range_in(range: wire::RangeResponse) -> Read {
    let kvs = range.kvs.into_iter().map(key_value_in).collect();
    (range.header, Body::Range(RangeReply { kvs, more: range.more, count: range.count as u64 }))
}

fn put_in(put: wire::PutResponse) -> Read {
    (put.header, Body::Put(PutReply { prev_kv: put.prev_kv.map(key_value_in) }))
}

fn delete_in(delete: wire::DeleteRangeResponse) -> Read {
    let prev_kvs = delete.prev_kvs.into_iter().map(key_value_in).collect();
    (delete.header, Body::Delete(DeleteReply { deleted: delete.deleted as u64, prev_kvs }))
}

fn txn_in(txn: wire::TxnResponse) -> Read {
    let bodies = txn.responses.into_iter().map(op_in).collect();
    (txn.header, Body::Txn(TxnReply { succeeded: txn.succeeded, bodies }))
}

fn op_in(reply: wire::ResponseOp) -> Body {
    let (_, body) = match reply.response.unwrap() {
        OpReply::ResponseRange(range) => range_in(range),
        OpReply::ResponsePut(put) => put_in(put),
        OpReply::ResponseDeleteRange(delete) => delete_in(delete),
        OpReply::ResponseTxn(txn) => txn_in(txn),
    };
    body
}

fn key_value_in(kv: mvccpb::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key,
        create_revision: Revision(kv.create_revision),
        mod_revision: Revision(kv.mod_revision),
        version: kv.version,
        lease: LeaseId(kv.lease),
        value: kv.value,
    }
}
