//! The KV service: check, parse, submit, render. It holds no state of its own.
//! Every call ends in an answer with a full header or in a refusal from `base::code`; nothing is proposed
//! that could have been refused here.

use crate::Settings;
use crate::grpc::{kv, refusal, who};
use base::Code;
use coord::reply::{Body, Reply};
use coord::request::{Limits, Request as Ask};
use prost::Message;
use proto::etcdserverpb::kv_server::Kv;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, TxnRequest, TxnResponse,
};
use server::Handle;
use tonic::codegen::BoxStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

pub struct KvService {
    handle: Handle,
    settings: Settings,
}

impl KvService {
    pub fn new(handle: Handle, settings: Settings) -> KvService {
        KvService { handle, settings }
    }

    /// Everything that can be refused is refused before anything is submitted.
    async fn submit(&self, call: Call, ask: Ask) -> Result<(ResponseHeader, Body), Status> {
        self.check(&call, &ask).map_err(refusal::render)?;
        let Reply { revision, body } = self.handle.submit(ask).await.map_err(refusal::render)?;
        Ok((who::header(&self.handle, revision), body))
    }

    fn check(&self, call: &Call, ask: &Ask) -> Result<(), Code> {
        let limits = Limits { txn_ops_max: self.settings.txn_ops_max, ..Limits::default() };
        ask.validate(&limits)?;
        // etcd measures the request as it would be proposed; the wire message is within a few bytes of that.
        if !ask.is_read_only() && call.bytes > self.settings.request_bytes_max {
            return Err(Code::RequestTooLarge);
        }
        who::check_leader(&self.handle, &call.metadata)
    }
}

/// What is known of a call besides its message.
struct Call {
    metadata: MetadataMap,
    bytes: usize,
}

fn open<T: Message>(request: Request<T>) -> (Call, T) {
    let (metadata, _, wire) = request.into_parts();
    (Call { metadata, bytes: wire.encoded_len() }, wire)
}

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let (call, wire) = open(request);
        let range = kv::parse_range(wire).map_err(refusal::render)?;
        match self.submit(call, Ask::Range(range)).await? {
            (header, Body::Range(reply)) => Ok(Response::new(kv::render_range(header, reply))),
            (_, other) => unreachable!("a range is answered by a range, not {other:?}"),
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (call, wire) = open(request);
        let put = kv::parse_put(wire).map_err(refusal::render)?;
        match self.submit(call, Ask::Put(put)).await? {
            (header, Body::Put(reply)) => Ok(Response::new(kv::render_put(header, reply))),
            (_, other) => unreachable!("a put is answered by a put, not {other:?}"),
        }
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let (call, wire) = open(request);
        let delete = kv::parse_delete(wire).map_err(refusal::render)?;
        match self.submit(call, Ask::Delete(delete)).await? {
            (header, Body::Delete(reply)) => Ok(Response::new(kv::render_delete(header, reply))),
            (_, other) => unreachable!("a delete is answered by a delete, not {other:?}"),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let (call, wire) = open(request);
        let txn = kv::parse_txn(wire).map_err(refusal::render)?;
        match self.submit(call, Ask::Txn(txn)).await? {
            (header, Body::Txn(reply)) => Ok(Response::new(kv::render_txn(header, reply))),
            (_, other) => unreachable!("a transaction is answered by a transaction, not {other:?}"),
        }
    }

    async fn compact(&self, _: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        Err(Status::unimplemented("Compact is not served by this version; history is kept whole"))
    }

    type RangeStreamStream = BoxStream<RangeStreamResponse>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("RangeStream is not served by this version; use Range with a limit"))
    }
}
