//! The translation of the KV service: etcd's messages in, `coord` requests out; `coord` replies in, etcd's messages out.
//! This is the one place that knows both vocabularies. Parsing refuses what a domain request cannot express (an
//! unknown enum, a value given and ignored, an operation that holds nothing), and an empty key, so that of two
//! mistakes in a transaction the first is reported, as in etcd; the rest is for `coord`'s `validate`.

use base::{Code, KeyRange, LeaseId, Revision};
use coord::call::{OpReply, ReplyBody};
use coord::reply::{Body, DeleteReply, KeyValue, PutReply, RangeReply, TxnReply};
use coord::request::{
    Bounds, Compare, Delete, Order, Put, Range, Relation, Request, Sort, SortTarget, Target, Txn,
};
use proto::etcdserverpb as wire;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget as WireTarget};
use proto::etcdserverpb::request_op::Request as WireOp;
use proto::etcdserverpb::response_op::Response as WireOpReply;
use proto::mvccpb;

/// A range on its own: any revision below zero means now.
pub fn parse_range(wire: wire::RangeRequest) -> Result<Range, Code> {
    parse_range_op(wire).map(|range| Range { revision: range.revision.max(Revision::ZERO), ..range })
}

/// A range within a transaction: a revision below zero is held against what was compacted.
fn parse_range_op(wire: wire::RangeRequest) -> Result<Range, Code> {
    require_key(&wire.key)?;
    let sort = parse_sort(wire.sort_order, wire.sort_target)?;
    Ok(Range {
        keys: KeyRange::from_wire(wire.key, wire.range_end),
        revision: Revision(wire.revision),
        // etcd takes a negative limit for none.
        limit: u64::try_from(wire.limit).unwrap_or(0),
        sort,
        serializable: wire.serializable,
        keys_only: wire.keys_only,
        count_only: wire.count_only,
        mod_revisions: bounds(wire.min_mod_revision, wire.max_mod_revision),
        create_revisions: bounds(wire.min_create_revision, wire.max_create_revision),
        in_pieces: false,
    })
}

pub fn parse_put(wire: wire::PutRequest) -> Result<Put, Code> {
    require_key(&wire.key)?;
    if wire.ignore_value && !wire.value.is_empty() {
        return Err(Code::ValueProvided);
    }
    if wire.ignore_lease && wire.lease != 0 {
        return Err(Code::LeaseProvided);
    }
    Ok(Put {
        key: wire.key,
        value: (!wire.ignore_value).then_some(wire.value),
        lease: (!wire.ignore_lease).then_some(LeaseId(wire.lease)),
        prev_kv: wire.prev_kv,
    })
}

pub fn parse_delete(wire: wire::DeleteRangeRequest) -> Result<Delete, Code> {
    require_key(&wire.key)?;
    Ok(Delete { keys: KeyRange::from_wire(wire.key, wire.range_end), prev_kv: wire.prev_kv })
}

pub fn parse_txn(wire: wire::TxnRequest) -> Result<Txn, Code> {
    Ok(Txn {
        compares: wire.compare.into_iter().map(parse_compare).collect::<Result<_, _>>()?,
        success: wire.success.into_iter().map(parse_op).collect::<Result<_, _>>()?,
        failure: wire.failure.into_iter().map(parse_op).collect::<Result<_, _>>()?,
    })
}

fn parse_op(wire: wire::RequestOp) -> Result<Request, Code> {
    // etcd's own answer to an operation that holds nothing.
    match wire.request.ok_or(Code::KeyNotFound)? {
        WireOp::RequestRange(range) => parse_range_op(range).map(Request::Range),
        WireOp::RequestPut(put) => parse_put(put).map(Request::Put),
        WireOp::RequestDeleteRange(delete) => parse_delete(delete).map(Request::Delete),
        WireOp::RequestTxn(txn) => parse_txn(txn).map(Request::Txn),
    }
}

/// The target chooses the field; an operand of another kind, or none, counts as zero, as in etcd.
fn parse_compare(wire: wire::Compare) -> Result<Compare, Code> {
    require_key(&wire.key)?;
    let relation = match CompareResult::try_from(wire.result).map_err(|_| Code::UnknownCompare)? {
        CompareResult::Equal => Relation::Equal,
        CompareResult::Greater => Relation::Greater,
        CompareResult::Less => Relation::Less,
        CompareResult::NotEqual => Relation::NotEqual,
    };
    let target = CompareTarget::try_from(wire.target).map_err(|_| Code::UnknownCompare)?;
    let target = match (target, wire.target_union) {
        (CompareTarget::Version, Some(TargetUnion::Version(version))) => Target::Version(version),
        (CompareTarget::Version, _) => Target::Version(0),
        (CompareTarget::Create, Some(TargetUnion::CreateRevision(rev))) => Target::Create(Revision(rev)),
        (CompareTarget::Create, _) => Target::Create(Revision::ZERO),
        (CompareTarget::Mod, Some(TargetUnion::ModRevision(rev))) => Target::Mod(Revision(rev)),
        (CompareTarget::Mod, _) => Target::Mod(Revision::ZERO),
        (CompareTarget::Value, Some(TargetUnion::Value(value))) => Target::Value(value),
        (CompareTarget::Value, _) => Target::Value(Default::default()),
        (CompareTarget::Lease, Some(TargetUnion::Lease(lease))) => Target::Lease(LeaseId(lease)),
        (CompareTarget::Lease, _) => Target::Lease(LeaseId::NONE),
    };
    Ok(Compare { keys: KeyRange::from_wire(wire.key, wire.range_end), relation, target })
}

/// Keys come in ascending order by themselves; what is sorted by anything else starts ascending, too.
fn parse_sort(order: i32, target: i32) -> Result<Option<Sort>, Code> {
    let order = SortOrder::try_from(order).map_err(|_| Code::InvalidSortOption)?;
    let target = match WireTarget::try_from(target).map_err(|_| Code::InvalidSortOption)? {
        WireTarget::Key => SortTarget::Key,
        WireTarget::Version => SortTarget::Version,
        WireTarget::Create => SortTarget::Create,
        WireTarget::Mod => SortTarget::Mod,
        WireTarget::Value => SortTarget::Value,
    };
    let order = match order {
        SortOrder::None => Order::Unspecified,
        SortOrder::Ascend => Order::Ascending,
        SortOrder::Descend => Order::Descending,
    };
    let needed = order == Order::Descending || target != SortTarget::Key;
    Ok(needed.then_some(Sort { target, order }))
}

fn require_key(key: &[u8]) -> Result<(), Code> {
    if key.is_empty() { Err(Code::EmptyKey) } else { Ok(()) }
}

fn bounds(min: i64, max: i64) -> Bounds {
    Bounds { min: Revision(min), max: Revision(max) }
}

type Head = wire::ResponseHeader;

pub fn render_range(head: Head, reply: RangeReply) -> wire::RangeResponse {
    wire::RangeResponse {
        header: Some(head),
        kvs: reply.kvs.into_iter().map(render_key_value).collect(),
        more: reply.more,
        count: reply.count as i64,
    }
}

pub fn render_put(head: Head, reply: PutReply) -> wire::PutResponse {
    wire::PutResponse { header: Some(head), prev_kv: reply.prev_kv.map(render_key_value) }
}

pub fn render_delete(head: Head, reply: DeleteReply) -> wire::DeleteRangeResponse {
    wire::DeleteRangeResponse {
        header: Some(head),
        deleted: reply.deleted as i64,
        prev_kvs: reply.prev_kvs.into_iter().map(render_key_value).collect(),
    }
}

pub fn render_txn(head: Head, reply: TxnReply) -> wire::TxnResponse {
    let mut progress = TxnRevisions::before(&reply, Revision(head.revision));
    progress.render_txn(head, reply)
}

/// The revision that each answer inside a transaction shows: the one from before until the first change,
/// and the transaction's own from then on.
struct TxnRevisions {
    revision: Revision,
    after: Revision,
}

impl TxnRevisions {
    fn before(reply: &TxnReply, after: Revision) -> TxnRevisions {
        let changed = reply.bodies.iter().any(Body::changed_keys);
        TxnRevisions { revision: Revision(after.0 - i64::from(changed)), after }
    }

    fn render_txn(&mut self, head: Head, reply: TxnReply) -> wire::TxnResponse {
        let responses = reply.bodies.into_iter().map(|body| self.render_op(body)).collect();
        wire::TxnResponse { header: Some(head), succeeded: reply.succeeded, responses }
    }

    fn render_op(&mut self, body: Body) -> wire::ResponseOp {
        let nested = matches!(body, Body::Txn(_));
        if !nested && body.changed_keys() {
            self.revision = self.after;
        }
        let head = Head { revision: self.revision.0, ..Head::default() };
        let response = match OpReply::of(body) {
            OpReply::Range(range) => WireOpReply::ResponseRange(render_range(head, range)),
            OpReply::Put(put) => WireOpReply::ResponsePut(render_put(head, put)),
            OpReply::Delete(delete) => WireOpReply::ResponseDeleteRange(render_delete(head, delete)),
            // etcd leaves the header of a nested transaction empty.
            OpReply::Txn(txn) => WireOpReply::ResponseTxn(self.render_txn(Head::default(), txn)),
        };
        wire::ResponseOp { response: Some(response) }
    }
}

pub fn render_key_value(kv: KeyValue) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: kv.key,
        create_revision: kv.create_revision.0,
        mod_revision: kv.mod_revision.0,
        version: kv.version,
        value: kv.value,
        lease: kv.lease.0,
    }
}

#[cfg(test)]
mod tests;
