//! The KV service: check, parse, submit, render. It holds no state of its own.
//! Every call ends in an answer with a full header or in a refusal from `base::code`; nothing is proposed
//! that could have been refused here.

use crate::Settings;
use crate::grpc::{kv, refusal, who};
use base::Code;
use coord::reply::{Body, Reply};
use coord::request::Request as Ask;
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

    async fn submit(&self, metadata: &MetadataMap, ask: Ask) -> Result<(ResponseHeader, Body), Status> {
        who::check_leader(&self.handle, metadata)?;
        let Reply { revision, body } = self.handle.submit(ask).await.map_err(refusal::render)?;
        Ok((who::header(&self.handle, revision), body))
    }

    /// etcd measures the request as it would be proposed; the wire message is within a few bytes of that.
    fn check_size(&self, bytes: usize) -> Result<(), Status> {
        if bytes > self.settings.request_bytes_max {
            return Err(refusal::render(Code::RequestTooLarge));
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let range = kv::parse_range(wire).map_err(refusal::render)?;
        match self.submit(&metadata, Ask::Range(range)).await? {
            (header, Body::Range(reply)) => Ok(Response::new(kv::render_range(header, reply))),
            (_, other) => unreachable!("a range is answered by a range, not {other:?}"),
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let bytes = wire.encoded_len();
        let put = kv::parse_put(wire).map_err(refusal::render)?;
        self.check_size(bytes)?;
        match self.submit(&metadata, Ask::Put(put)).await? {
            (header, Body::Put(reply)) => Ok(Response::new(kv::render_put(header, reply))),
            (_, other) => unreachable!("a put is answered by a put, not {other:?}"),
        }
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let bytes = wire.encoded_len();
        let delete = kv::parse_delete(wire).map_err(refusal::render)?;
        self.check_size(bytes)?;
        match self.submit(&metadata, Ask::Delete(delete)).await? {
            (header, Body::Delete(reply)) => Ok(Response::new(kv::render_delete(header, reply))),
            (_, other) => unreachable!("a delete is answered by a delete, not {other:?}"),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let bytes = wire.encoded_len();
        let txn = kv::parse_txn(wire, self.settings.txn_ops_max).map_err(refusal::render)?;
        self.check_size(bytes)?;
        match self.submit(&metadata, Ask::Txn(txn)).await? {
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
