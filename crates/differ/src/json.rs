//! Requests as the JSON gateway takes them: bytes in base64, numbers of 64 bits as text, what is empty left out.

use crate::test_call::TestCall;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use proto::etcdserverpb::compare::TargetUnion;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest,
};
use serde_json::{Map, Value, json};

/// The path and the body; none for what the gateway does not take.
pub fn request(call: &TestCall) -> Option<(&'static str, Value)> {
    Some(match call {
        TestCall::Range(request) => ("/v3/kv/range", range(request)),
        TestCall::Put(request) => ("/v3/kv/put", put(request)),
        TestCall::Delete(request) => ("/v3/kv/deleterange", delete(request)),
        TestCall::Txn(request) => ("/v3/kv/txn", txn(request)),
        TestCall::Compact(request) => ("/v3/kv/compaction", compact(request)),
        TestCall::Grant(request) => ("/v3/lease/grant", grant(request)),
        TestCall::Revoke(id) => ("/v3/lease/revoke", json!({ "ID": id.to_string() })),
        TestCall::KeepAlive(id) => ("/v3/lease/keepalive", json!({ "ID": id.to_string() })),
        TestCall::TimeToLive(request) => ("/v3/lease/timetolive", time_to_live(request)),
        TestCall::Leases => ("/v3/lease/leases", json!({})),
        TestCall::Auth(_) | TestCall::Malformed { .. } => return None,
    })
}

/// Fields in the order in which they were added, without those that are as if they were not there.
#[derive(Default)]
struct Message(Map<String, Value>);

impl Message {
    fn bytes(mut self, name: &str, bytes: &[u8]) -> Message {
        if !bytes.is_empty() {
            self.0.insert(name.to_owned(), BASE64_STANDARD.encode(bytes).into());
        }
        self
    }

    fn number(mut self, name: &str, number: i64) -> Message {
        if number != 0 {
            self.0.insert(name.to_owned(), number.to_string().into());
        }
        self
    }

    fn choice(mut self, name: &str, number: i32) -> Message {
        if number != 0 {
            self.0.insert(name.to_owned(), number.into());
        }
        self
    }

    fn flag(mut self, name: &str, flag: bool) -> Message {
        if flag {
            self.0.insert(name.to_owned(), true.into());
        }
        self
    }

    fn list<T>(mut self, name: &str, all: &[T], one: fn(&T) -> Value) -> Message {
        if !all.is_empty() {
            self.0.insert(name.to_owned(), all.iter().map(one).collect());
        }
        self
    }

    fn end(self) -> Value {
        Value::Object(self.0)
    }
}

fn range(request: &RangeRequest) -> Value {
    Message::default()
        .bytes("key", &request.key)
        .bytes("range_end", &request.range_end)
        .number("limit", request.limit)
        .number("revision", request.revision)
        .choice("sort_order", request.sort_order)
        .choice("sort_target", request.sort_target)
        .flag("serializable", request.serializable)
        .flag("keys_only", request.keys_only)
        .flag("count_only", request.count_only)
        .number("min_mod_revision", request.min_mod_revision)
        .number("max_mod_revision", request.max_mod_revision)
        .number("min_create_revision", request.min_create_revision)
        .number("max_create_revision", request.max_create_revision)
        .end()
}

fn put(request: &PutRequest) -> Value {
    Message::default()
        .bytes("key", &request.key)
        .bytes("value", &request.value)
        .number("lease", request.lease)
        .flag("prev_kv", request.prev_kv)
        .flag("ignore_value", request.ignore_value)
        .flag("ignore_lease", request.ignore_lease)
        .end()
}

fn delete(request: &DeleteRangeRequest) -> Value {
    Message::default()
        .bytes("key", &request.key)
        .bytes("range_end", &request.range_end)
        .flag("prev_kv", request.prev_kv)
        .end()
}

fn txn(request: &TxnRequest) -> Value {
    Message::default()
        .list("compare", &request.compare, compare)
        .list("success", &request.success, op)
        .list("failure", &request.failure, op)
        .end()
}

/// What is compared with is there even if it is zero.
fn compare(one: &Compare) -> Value {
    let message = Message::default()
        .choice("result", one.result)
        .choice("target", one.target)
        .bytes("key", &one.key)
        .bytes("range_end", &one.range_end);
    let Value::Object(mut fields) = message.end() else { return Value::Null };
    let target = match &one.target_union {
        None => None,
        Some(TargetUnion::Version(number)) => Some(("version", number.to_string())),
        Some(TargetUnion::CreateRevision(number)) => Some(("create_revision", number.to_string())),
        Some(TargetUnion::ModRevision(number)) => Some(("mod_revision", number.to_string())),
        Some(TargetUnion::Lease(number)) => Some(("lease", number.to_string())),
        Some(TargetUnion::Value(bytes)) => Some(("value", BASE64_STANDARD.encode(bytes))),
    };
    if let Some((name, value)) = target {
        fields.insert(name.to_owned(), value.into());
    }
    Value::Object(fields)
}

fn op(one: &RequestOp) -> Value {
    match &one.request {
        None => json!({}),
        Some(Op::RequestRange(request)) => json!({ "request_range": range(request) }),
        Some(Op::RequestPut(request)) => json!({ "request_put": put(request) }),
        Some(Op::RequestDeleteRange(request)) => json!({ "request_delete_range": delete(request) }),
        Some(Op::RequestTxn(request)) => json!({ "request_txn": txn(request) }),
    }
}

fn compact(request: &CompactionRequest) -> Value {
    Message::default().number("revision", request.revision).flag("physical", request.physical).end()
}

fn grant(request: &LeaseGrantRequest) -> Value {
    Message::default().number("TTL", request.ttl).number("ID", request.id).end()
}

fn time_to_live(request: &LeaseTimeToLiveRequest) -> Value {
    Message::default().number("ID", request.id).flag("keys", request.keys).end()
}
