//! The KV service: check, parse, submit, render. It holds no state of its own.
//! Every call ends in an answer with a full header or in a refusal from `base::code`; nothing is proposed
//! that could have been refused here.

use crate::audit;
use crate::grpc::pieces::{self, LargeRange, LargeShape, ProtobufEncoder};
use crate::grpc::{breadth, call_context, fence, kv, once, refusal};
use base::{Code, Revision};
use coord::call::{Call, InPieces, RangeOutcome, TypedRequest};
use coord::reply::RangeReply;
use coord::request::{Limits, Range, Request as CoreRequest};
use coord::{Command, Compact, Fenced, FencingToken};
use proto::etcdserverpb::kv_server::Kv;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, TxnRequest, TxnResponse,
};
use server::pieces::{BudgetShare, HoldKind, KeyEncoder, RangePieces, WholeRange};
use server::{Handle, RequiredAccess};
use std::sync::Arc;
use tonic::codegen::{BoxStream, tokio_stream};
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

    /// Everything that can be refused without the state is refused before anything is submitted. Returns the fence of
    /// the call and the handle of its caller.
    async fn check(
        &self,
        metadata: &MetadataMap,
        request: &CoreRequest,
    ) -> Result<(Option<FencingToken>, Handle), Status> {
        request.validate(&self.limits).map_err(refusal::render)?;
        call_context::check_leader(&self.handle, metadata).map_err(refusal::render)?;
        let fence = fence::parse(metadata).map_err(refusal::render)?;
        Ok((fence, call_context::admit(&self.handle, metadata).await?))
    }

    async fn submit_range(
        &self,
        metadata: &MetadataMap,
        range: Range,
    ) -> Result<(ResponseHeader, RangeOutcome), Status> {
        let typed = TypedRequest::of(InPieces(range));
        audit::note_request(typed.request());
        // A request that only reads changes nothing that a fence could protect.
        let (_, handle) = self.check(metadata, typed.request()).await?;
        let reply = handle.kv().submit(typed).await.map_err(refusal::render)?;
        Ok((call_context::header(&self.handle, reply.revision), reply.body))
    }

    /// Requests that may change something: with a request id of the client's it may be repeated.
    async fn submit_change<C: Call>(
        &self,
        metadata: &MetadataMap,
        call: C,
    ) -> Result<(ResponseHeader, C::Reply), Status> {
        let typed = TypedRequest::of(call);
        audit::note_request(typed.request());
        let id = once::request_id(metadata)?;
        let (fence, handle) = self.check(metadata, typed.request()).await?;
        let reply = match (id, fence) {
            (None, None) => handle.kv().submit(typed).await.map_err(refusal::render)?,
            (None, Some(fence)) => {
                fence::passed(handle.kv().submit_fenced(fence, typed).await.map_err(refusal::render)?)?
            }
            (Some(id), None) => {
                let command = Command::from_request(typed.into_request())
                    .expect("a range is submitted without an identity");
                once::whole(handle.kv().submit_once(id, command).await.map_err(refusal::render)?)?
            }
            // A repetition is answered as at first, though the fence may have passed meanwhile.
            (Some(id), Some(fence)) => {
                let command = Command::Fenced(Fenced { fence, request: typed.into_request() });
                let reply = handle.kv().submit_once(id, command).await.map_err(refusal::render)?;
                fence::passed(once::whole(reply)?)?
            }
        };
        Ok((call_context::header(&self.handle, reply.revision), reply.body))
    }

    /// The same for requests that may also return much: the reservation comes with the answer.
    async fn submit_wide<C: Call>(
        &self,
        metadata: &MetadataMap,
        call: C,
    ) -> Result<(ResponseHeader, C::Reply, Option<BudgetShare>), Status> {
        let typed = TypedRequest::of(call);
        let share = if breadth::is_wide(typed.request()) {
            typed.request().validate(&self.limits).map_err(refusal::render)?;
            let shown = breadth::shown(typed.request());
            let reserved = self.handle.kv().reserve_for(shown, &RangeEncoding::protobuf().0).await;
            reserved.map_err(refusal::render)?
        } else {
            None
        };
        let (header, body) = self.submit_change(metadata, typed).await?;
        Ok((header, body, share))
    }

    /// A large answer is read at the revision that it was found at, by the fast path or here. Should that be compacted
    /// before it is held, a client that asked for the newest state does not notice.
    async fn read(
        &self,
        metadata: &MetadataMap,
        range: Range,
        mut found: Option<LargeFound>,
        keep: HoldKind,
        encoding: impl Fn() -> RangeEncoding,
    ) -> Result<RangeRead, Status> {
        let asked_revision = range.revision;
        let mut range = range;
        loop {
            let (header, large) = match found.take() {
                Some(found) => (call_context::header(&self.handle, found.revision), found.range),
                None => match self.submit_range(metadata, range).await? {
                    (header, RangeOutcome::Whole(reply)) => return Ok(RangeRead::WholeRange(header, reply)),
                    (header, RangeOutcome::Large(large)) => (header, *large),
                },
            };
            range = Range { revision: asked_revision, ..large.clone() };
            match self.handle.kv().pieces(large, keep, encoding().0).await {
                Ok(pieces) => return Ok(RangeRead::Large(survey(header, pieces).await?)),
                Err(Code::Compacted) if asked_revision == Revision::ZERO => {}
                Err(code) => return Err(refusal::render(code)),
            }
        }
    }
}

async fn survey(header: ResponseHeader, pieces: RangePieces) -> Result<LargeRange, Status> {
    let total = pieces.survey().await.map_err(refusal::render)?;
    let head = RangeResponse {
        header: Some(header),
        more: total.more,
        count: pieces.count() as i64,
        ..RangeResponse::default()
    };
    Ok(LargeRange { head, total, pieces, shape: LargeShape::Message })
}

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let (metadata, extensions, wire) = request.into_parts();
        let range = kv::parse_range(wire).map_err(refusal::render)?;
        let encoding =
            || extensions.get::<RangeEncoding>().map_or_else(RangeEncoding::protobuf, RangeEncoding::clone);
        let found = extensions.get::<LargeFound>().cloned();
        match self.read(&metadata, range, found, HoldKind::BlocksCompaction, encoding).await? {
            RangeRead::WholeRange(header, reply) => Ok(Response::new(kv::render_range(header, reply))),
            RangeRead::Large(large) if large.pieces.range().sort.is_some() => {
                let WholeRange { reply, share } =
                    large.pieces.whole(large.total).await.map_err(refusal::render)?;
                let header = large.head.header.unwrap_or_default();
                Ok(pieces::pack_share(Some(share), Response::new(kv::render_range(header, reply))))
            }
            RangeRead::Large(large) => {
                large.check_size()?;
                Ok(large.pack(Response::new(RangeResponse::default())))
            }
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let put = kv::parse_put(wire).map_err(refusal::render)?;
        let (header, reply) = self.submit_change(&metadata, put).await?;
        Ok(Response::new(kv::render_put(header, reply)))
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let delete = kv::parse_delete(wire).map_err(refusal::render)?;
        let (header, reply, share) = self.submit_wide(&metadata, delete).await?;
        Ok(pieces::pack_share(share, Response::new(kv::render_delete(header, reply))))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let txn = kv::parse_txn(wire).map_err(refusal::render)?;
        let (header, reply, share) = self.submit_wide(&metadata, txn).await?;
        Ok(pieces::pack_share(share, Response::new(kv::render_txn(header, reply))))
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let (metadata, _, CompactionRequest { revision, physical }) = request.into_parts();
        audit::note_target("revision", &revision.to_string());
        call_context::check_leader(&self.handle, &metadata).map_err(refusal::render)?;
        let compact = Compact { revision: Revision(revision), physical };
        let handle = call_context::admit(&self.handle, &metadata).await?;
        handle.auth().permit_agreed(RequiredAccess::Root).await.map_err(refusal::render)?;
        let reply = self.handle.kv().compact(compact).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, reply.revision));
        Ok(Response::new(CompactionResponse { header }))
    }

    type RangeStreamStream = BoxStream<RangeStreamResponse>;

    /// etcd words these two refusals without its usual beginning.
    async fn range_stream(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let (metadata, _, wire) = request.into_parts();
        let custom_order = wire.sort_order != SortOrder::None as i32
            && (wire.sort_order, wire.sort_target) != (SortOrder::Ascend as i32, SortTarget::Key as i32);
        let range = kv::parse_range(wire).map_err(refusal::render)?;
        if custom_order {
            return Err(Status::unimplemented("RangeStream does not support custom sort orders"));
        }
        if range.is_filtered() {
            return Err(Status::unimplemented("RangeStream does not support revision filters"));
        }
        let keep = HoldKind::EndsWithCompaction;
        match self.read(&metadata, range, None, keep, RangeEncoding::protobuf).await? {
            RangeRead::WholeRange(header, reply) => {
                let range_response = Some(kv::render_range(header, reply));
                let only = tokio_stream::once(Ok(RangeStreamResponse { range_response }));
                Ok(Response::new(Box::pin(only)))
            }
            // A sorted range is read whole.
            RangeRead::Large(large) if large.pieces.range().sort.is_some() => {
                let WholeRange { reply, share } =
                    large.pieces.whole(large.total).await.map_err(refusal::render)?;
                let header = large.head.header.unwrap_or_default();
                let range_response = Some(kv::render_range(header, reply));
                let only = tokio_stream::once(Ok(RangeStreamResponse { range_response }));
                Ok(pieces::pack_share(Some(share), Response::new(Box::pin(only) as Self::RangeStreamStream)))
            }
            RangeRead::Large(large) => {
                let large = LargeRange { shape: LargeShape::Stream, ..large };
                Ok(large.pack(Response::new(Box::pin(tokio_stream::empty()))))
            }
        }
    }
}

/// A range that the fast path has submitted and whose answer is large: it comes with the request, and is not asked for
/// again.
#[derive(Clone)]
pub struct LargeFound {
    /// The revision in the answer's header.
    pub revision: Revision,
    /// At the revision that it was found at.
    pub range: Range,
}

/// How a range is answered.
enum RangeRead {
    WholeRange(ResponseHeader, RangeReply),
    Large(LargeRange),
}

/// How the keys of a large answer are written; a request may bring one along.
#[derive(Clone)]
pub struct RangeEncoding(pub Arc<dyn KeyEncoder>);

impl RangeEncoding {
    fn protobuf() -> RangeEncoding {
        RangeEncoding(Arc::new(ProtobufEncoder))
    }
}
