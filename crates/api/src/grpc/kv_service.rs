//! The KV service: check, parse, submit, render. It holds no state of its own.
//! Every call ends in an answer with a full header or in a refusal from `base::code`; nothing is proposed
//! that could have been refused here.

use crate::grpc::{fence, kv, refusal, who};
use base::Revision;
use coord::Compact;
use coord::reply::{Body, Reply};
use coord::request::{Limits, Request as Ask};
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
    limits: Limits,
}

impl KvService {
    pub fn new(handle: Handle, limits: Limits) -> KvService {
        KvService { handle, limits }
    }

    /// Everything that can be refused without the state is refused before anything is submitted.
    async fn submit(&self, metadata: &MetadataMap, ask: Ask) -> Result<(ResponseHeader, Body), Status> {
        ask.validate(&self.limits).map_err(refusal::render)?;
        who::check_leader(&self.handle, metadata).map_err(refusal::render)?;
        // What only reads changes nothing that a fence could protect.
        let fence = fence::parse(metadata).map_err(refusal::render)?;
        let reply = match fence.filter(|_| !matches!(ask, Ask::Range(_))) {
            None => self.handle.submit(ask).await,
            Some(fence) => self.handle.submit_fenced(fence, ask).await,
        };
        match reply.map_err(refusal::render)? {
            Reply { body: Body::Fenced(refused), .. } => Err(fence::refuse_write(&refused)),
            Reply { revision, body } => Ok((who::header(&self.handle, revision), body)),
        }
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
        let put = kv::parse_put(wire).map_err(refusal::render)?;
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
        let delete = kv::parse_delete(wire).map_err(refusal::render)?;
        match self.submit(&metadata, Ask::Delete(delete)).await? {
            (header, Body::Delete(reply)) => Ok(Response::new(kv::render_delete(header, reply))),
            (_, other) => unreachable!("a delete is answered by a delete, not {other:?}"),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let txn = kv::parse_txn(wire).map_err(refusal::render)?;
        match self.submit(&metadata, Ask::Txn(txn)).await? {
            (header, Body::Txn(reply)) => Ok(Response::new(kv::render_txn(header, reply))),
            (_, other) => unreachable!("a transaction is answered by a transaction, not {other:?}"),
        }
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let (metadata, _, CompactionRequest { revision, physical }) = request.into_parts();
        who::check_leader(&self.handle, &metadata).map_err(refusal::render)?;
        let compact = Compact { revision: Revision(revision), physical };
        let reply = self.handle.compact(compact).await.map_err(refusal::render)?;
        let header = Some(who::header(&self.handle, reply.revision));
        Ok(Response::new(CompactionResponse { header }))
    }

    type RangeStreamStream = BoxStream<RangeStreamResponse>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("RangeStream is not served by this version; use Range with a limit"))
    }
}
