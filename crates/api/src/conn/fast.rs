//! The fast path for the most frequent calls: Put, DeleteRange, Txn, Range unless the answer is large, and the
//! Unlock of etcd's lock service, which is a delete.
//! A head and a whole message go in, a request for the core comes out; a reply of the core goes in, an answer comes
//! out. It decides nothing that the services do not decide: the same functions parse, validate and render,
//! and whatever is in any way unusual is left to the services.

use crate::grpc::{breadth, call_context, etcd_lock, kv};
use crate::metrics::{ApiMetrics, ClientVersions, MethodMetrics};
use base::{Code, Revision};
use bytes::{Buf, Bytes};
use coord::call::{Call, InPieces, OpReply};
use coord::request::{Limits, Request as CoreRequest};
use http2::{Connection, Field, Head, StreamId};
use prometheus_client::metrics::counter::Counter;
use prost::Message;
use proto::DecodeLimit;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};
use proto::v3lockpb::{UnlockRequest, UnlockResponse};
use server::Handle;
use std::sync::Arc;

/// The prefix of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
static HEAD: [Field; 1] = [Field::from_static("content-type", "application/grpc")];
static TRAILERS: [Field; 2] =
    [Field::from_static("grpc-status", "0"), Field::from_static("grpc-message", "")];

pub struct GrpcFastPath {
    pub handle: Handle,
    limits: Limits,
    message_bytes_max: usize,
    methods: [Arc<MethodMetrics>; PATHS.len()],
    /// How many calls took this path.
    pub calls: Counter,
    pub versions: Arc<ClientVersions>,
}

/// How metadata begins that asks for more than etcd's clients can ask for.
const OUR_METADATA: &[u8] = b"althing-";

/// One of the calls that take the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCall {
    Put,
    Range,
    Txn,
    DeleteRange,
    Unlock,
}

const PATHS: [(&str, FastCall); 5] = [
    ("/etcdserverpb.KV/Put", FastCall::Put),
    ("/etcdserverpb.KV/Range", FastCall::Range),
    ("/etcdserverpb.KV/Txn", FastCall::Txn),
    ("/etcdserverpb.KV/DeleteRange", FastCall::DeleteRange),
    ("/v3lockpb.Lock/Unlock", FastCall::Unlock),
];

/// The parsed message.
#[derive(Debug)]
pub enum ParsedCall {
    Core(CoreRequest),
    Refused(Code),
    /// A call that the services must serve.
    Unusual,
}

impl GrpcFastPath {
    pub fn new(
        handle: Handle,
        limits: Limits,
        message_bytes_max: usize,
        metrics: &ApiMetrics,
    ) -> GrpcFastPath {
        let methods = PATHS.map(|(path, _)| metrics.method(path).expect("the API has these methods"));
        let (calls, versions) = (metrics.fast_calls.clone(), metrics.versions.clone());
        GrpcFastPath { handle, limits, message_bytes_max, methods, calls, versions }
    }

    /// The counters of a call.
    pub fn method(&self, call: FastCall) -> &Arc<MethodMetrics> {
        &self.methods[call as usize]
    }

    /// The path of a call.
    pub fn path(call: FastCall) -> &'static str {
        PATHS[call as usize].0
    }

    /// Whether a body that begins so can be gathered here.
    pub fn can_gather(&self, body: &[u8]) -> bool {
        let Some(prefix) = body.first_chunk::<PREFIX_BYTES>() else { return true };
        let len = message_len(prefix);
        prefix[0] == 0 && len <= self.message_bytes_max && body.len() <= PREFIX_BYTES + len
    }

    /// Parses a whole body.
    pub fn parse_call(&self, call: FastCall, head: &Head, mut body: Bytes) -> ParsedCall {
        let whole = body.first_chunk().is_some_and(|prefix| body.len() == PREFIX_BYTES + message_len(prefix));
        if !whole || !self.can_gather(&body) {
            return ParsedCall::Unusual;
        }
        body.advance(PREFIX_BYTES);
        let Some(parsed) = parse(call, body) else { return ParsedCall::Unusual };
        // Its answer needs a reservation, which may have to wait.
        if parsed.as_ref().is_ok_and(breadth::is_wide) {
            return ParsedCall::Unusual;
        }
        let leader_required = head.get(call_context::REQUIRE_LEADER).is_some_and(|value| value == "true");
        let checked = parsed.and_then(|request| {
            request.validate(&self.limits)?;
            call_context::check_leader_if(leader_required, &self.handle)?;
            Ok(request)
        });
        checked.map_or_else(ParsedCall::Refused, ParsedCall::Core)
    }

    /// Answers a call; a large range is not answered here.
    pub fn answer(
        &self,
        connection: &mut Connection,
        (stream, call): (StreamId, FastCall),
        (revision, reply): (Revision, OpReply),
        raft_term: u64,
    ) {
        let header = call_context::header_at(&self.handle, revision, raft_term);
        match reply {
            OpReply::Put(put) => send(connection, stream, &kv::render_put(header, put)),
            OpReply::Range(range) => send(connection, stream, &kv::render_range(header, range)),
            OpReply::Txn(txn) => send(connection, stream, &kv::render_txn(header, txn)),
            OpReply::Delete(_) if call == FastCall::Unlock => {
                send(connection, stream, &UnlockResponse { header: Some(header) });
            }
            OpReply::Delete(delete) => send(connection, stream, &kv::render_delete(header, delete)),
        }
    }
}

/// Which call this is, if the fast path takes it and nothing about it is unusual.
pub fn call_of(head: &Head) -> Option<FastCall> {
    let call = PATHS.iter().find(|(path, _)| head.path == *path)?.1;
    let plain = head.method == "POST"
        && head.get("content-type").is_some_and(|kind| kind == "application/grpc")
        && head.get("grpc-encoding").is_none_or(|encoding| encoding == "identity")
        && !head.fields.iter().any(|field| field.name.starts_with(OUR_METADATA));
    plain.then_some(call)
}

/// `None` for what cannot be decoded. A range whose answer is large is not read: the core says so.
fn parse(call: FastCall, message: Bytes) -> Option<Result<CoreRequest, Code>> {
    let parsed = match call {
        FastCall::Put => kv::parse_put(decode::<PutRequest>(message)?).map(CoreRequest::Put),
        FastCall::DeleteRange => {
            kv::parse_delete(decode::<DeleteRangeRequest>(message)?).map(CoreRequest::Delete)
        }
        FastCall::Txn => kv::parse_txn(decode::<TxnRequest>(message)?).map(CoreRequest::Txn),
        FastCall::Unlock => {
            Ok(CoreRequest::Delete(etcd_lock::parse_unlock(decode::<UnlockRequest>(message)?)))
        }
        FastCall::Range => {
            kv::parse_range(decode::<RangeRequest>(message)?).map(|range| InPieces(range).into_request())
        }
    };
    Some(parsed)
}

/// As the services' codec does it.
fn decode<M: Message + Default + DecodeLimit>(message: Bytes) -> Option<M> {
    M::check(&message).ok()?;
    M::decode(message).ok()
}

fn message_len(prefix: &[u8; PREFIX_BYTES]) -> usize {
    u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize
}

fn send(connection: &mut Connection, stream: StreamId, message: &impl Message) {
    let len = message.encoded_len();
    let write = |out: &mut Vec<u8>| {
        out.push(0);
        out.extend_from_slice(&(len as u32).to_be_bytes());
        message.encode_raw(out);
    };
    connection.answer_whole(stream, &HEAD, PREFIX_BYTES + len, write, &TRAILERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_calls_take_the_fast_path() {
        let head = |path: &'static str, fields: &[(&'static str, &'static str)]| Head {
            method: Bytes::from_static(b"POST"),
            path: Bytes::from_static(path.as_bytes()),
            fields: fields.iter().map(|(name, value)| Field::from_static(name, value)).collect(),
            ..Head::default()
        };
        let grpc = ("content-type", "application/grpc");
        for (path, call) in PATHS {
            assert_eq!(call_of(&head(path, &[grpc])), Some(call));
            assert_eq!(PATHS[call as usize].0, path, "counters are found by the number of the call");
        }
        assert_eq!(call_of(&head("/etcdserverpb.KV/Compact", &[grpc])), None);
        assert_eq!(call_of(&head("/etcdserverpb.KV/Put?", &[grpc])), None);
        assert_eq!(call_of(&head("/etcdserverpb.KV/Put", &[])), None);
        let put = |fields: &[(&'static str, &'static str)]| call_of(&head("/etcdserverpb.KV/Put", fields));
        assert_eq!(put(&[grpc, ("grpc-encoding", "identity")]), Some(FastCall::Put));
        assert_eq!(put(&[grpc, ("grpc-encoding", "gzip")]), None);
        assert_eq!(put(&[("content-type", "application/json")]), None);
        assert_eq!(put(&[grpc, ("althing-request-id", "1-1")]), None);
        let get = Head { method: Bytes::from_static(b"GET"), ..head("/etcdserverpb.KV/Put", &[grpc]) };
        assert_eq!(call_of(&get), None);
    }

    #[test]
    fn what_cannot_be_decoded_is_left_to_the_services_and_no_large_range_is_read() {
        assert!(parse(FastCall::Put, Bytes::from_static(&[0xff; 8])).is_none());
        let range = |range: RangeRequest| parse(FastCall::Range, range.encode_to_vec().into());
        let key = RangeRequest { key: "k".into(), ..Default::default() };
        assert!(matches!(range(key), Some(Ok(CoreRequest::Range(range))) if range.in_pieces));
        assert!(matches!(range(RangeRequest::default()), Some(Err(Code::EmptyKey))));
    }
}
