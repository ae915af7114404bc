//! The lock service: locks with fencing tokens, leases, and checks of tokens for foreign storage.
//! Every answer says what the caller has and who holds the lock; a lock that is granted comes with what is left of
//! its lease, asked of the leader after the grant, so a holder knows from the first moment when it must stop. The calls
//! of leases are those of `LeaseService`, in messages of this service.

use crate::audit::{self, WatchRecording};
use crate::grpc::etcd_lock::until_stopped;
use crate::grpc::lease::LeaseService;
use crate::grpc::{call_context, fence, lock_view, lock_watch, refusal};
use base::limits::HOLDER_ID_BYTES_MAX;
use base::{Code, LeaseId, Revision};
use bytes::Bytes;
use coord::call::{FenceOutcome, PassedFence};
use coord::reply::LockReply;
use coord::{CheckFence, FencingToken, Release, lock_queue};
use proto::etcdserverpb;
use proto::etcdserverpb::lease_server::Lease;
use proto::lock::lock_service_server::LockService;
use proto::lock::{
    FenceRequest, FenceResponse, InspectRequest, InspectResponse, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, ListRequest,
    ListResponse, LockRequest, LockResponse, TryLockRequest, UnlockRequest, UnlockResponse, UpdateRequest,
    UpdateResponse, WatchRequest, WatchResponse,
};
use server::{AcquireRequest, Handle, LockGrant, LockOutcome, LockWaitLimit};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

/// Answers of a stream that its client has not taken yet.
const ANSWERS_BUFFERED: usize = 16;

pub struct LockApi {
    handle: Handle,
    leases: Arc<LeaseService>,
    stopping: watch::Receiver<bool>,
}

impl LockApi {
    pub fn new(handle: Handle, leases: Arc<LeaseService>, stopping: watch::Receiver<bool>) -> LockApi {
        LockApi { handle, leases, stopping }
    }

    /// The same service acting for the caller.
    async fn admit(&self, metadata: &MetadataMap) -> Result<LockApi, Status> {
        call_context::check_leader(&self.handle, metadata).map_err(refusal::render)?;
        let handle = call_context::admit(&self.handle, metadata).await?;
        Ok(LockApi { handle, leases: self.leases.clone(), stopping: self.stopping.clone() })
    }

    async fn take(&self, ask: AcquireRequest) -> Result<LockResponse, Code> {
        if ask.name.is_empty() {
            return Err(Code::EmptyKey);
        }
        if ask.holder.len() > HOLDER_ID_BYTES_MAX {
            return Err(Code::HolderIdTooLong);
        }
        let (lease, holder) = (ask.lease, ask.holder.clone());
        match until_stopped(&self.stopping, self.handle.locks().acquire(ask)).await? {
            LockOutcome::Held(grant) => self.render_held(grant, lease, holder).await,
            LockOutcome::NotHeld(reply) => self.render_not_held(reply, lease).await,
        }
    }

    /// The lease is read after the grant: a caller that waited long may have lost it meanwhile.
    async fn render_held(
        &self,
        grant: LockGrant,
        lease: LeaseId,
        holder: Bytes,
    ) -> Result<LockResponse, Code> {
        let left = self.handle.leases().left_ms(lease).await.unwrap_or(Some(0));
        let remaining_ttl_ms = left.ok_or(Code::LeaseNotFound)?;
        let holder_id =
            if holder.is_empty() { self.holder_of(&grant.held().key).await } else { text(&holder) };
        let held = grant.confirm();
        Ok(LockResponse {
            header: Some(call_context::header(&self.handle, held.revision)),
            key: text(&held.key),
            fencing_token: held.token.0,
            acquired: true,
            holder_id,
            queue_position: 0,
            remaining_ttl_ms,
            deadline_unix_ms: now_unix_ms() + remaining_ttl_ms,
            holder_token: held.token.0,
        })
    }

    async fn render_not_held(&self, reply: LockReply, lease: LeaseId) -> Result<LockResponse, Code> {
        let left = self.handle.leases().left_ms(lease).await.ok().flatten();
        let (holder_id, holder_token) = match &reply.holder {
            Some(holder) => (self.holder_of(&holder.key).await, holder.token.0),
            None => (String::new(), 0),
        };
        Ok(LockResponse {
            header: Some(call_context::header(&self.handle, self.handle.status().revision)),
            key: text(&reply.key),
            fencing_token: 0,
            acquired: false,
            holder_id,
            queue_position: reply.ahead as i64,
            remaining_ttl_ms: left.unwrap_or(0),
            deadline_unix_ms: 0,
            holder_token,
        })
    }

    /// The name that the client of a place has given itself, or else its lease.
    async fn holder_of(&self, key: &Bytes) -> String {
        let claims = self.handle.locks().claims(vec![key.clone()]).await.unwrap_or_default();
        let claim = claims.into_iter().flatten().next();
        lock_view::holder_id(key, claim.as_ref())
    }
}

#[tonic::async_trait]
impl LockService for LockApi {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        audit::note_target("lock", &request.get_ref().name);
        audit::note_id("lease", request.get_ref().lease_id as u64);
        let admitted = self.admit(request.metadata()).await?;
        let LockRequest { name, lease_id, metadata, timeout_ms, holder_id } = request.into_inner();
        let wait_limit = match timeout_ms {
            None | Some(..0) => LockWaitLimit::Unbounded,
            Some(0) => LockWaitLimit::DoNotWait,
            Some(timeout @ 1..) => LockWaitLimit::AtMost(Duration::from_millis(timeout as u64)),
        };
        let ask = AcquireRequest {
            name: name.into(),
            lease: LeaseId(lease_id),
            value: metadata,
            holder: holder_id.into(),
            replaces_value: false,
            wait_limit,
        };
        admitted.take(ask).await.map(Response::new).map_err(refusal::render)
    }

    async fn try_lock(&self, request: Request<TryLockRequest>) -> Result<Response<LockResponse>, Status> {
        audit::note_target("lock", &request.get_ref().name);
        audit::note_id("lease", request.get_ref().lease_id as u64);
        let admitted = self.admit(request.metadata()).await?;
        let TryLockRequest { name, lease_id, metadata, holder_id } = request.into_inner();
        let ask = AcquireRequest {
            name: name.into(),
            lease: LeaseId(lease_id),
            value: metadata,
            holder: holder_id.into(),
            replaces_value: false,
            wait_limit: LockWaitLimit::DoNotWait,
        };
        admitted.take(ask).await.map(Response::new).map_err(refusal::render)
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        audit::note_target("lock", &request.get_ref().name);
        audit::note_key(request.get_ref().key.as_bytes());
        let admitted = self.admit(request.metadata()).await?;
        let UnlockRequest { key, lease_id, fencing_token, name } = request.into_inner();
        let key = if key.is_empty() {
            lock_queue::key_of(name.as_bytes(), LeaseId(lease_id))
        } else {
            Bytes::from(key)
        };
        let release = Release { key, token: Revision(fencing_token) };
        let reply = admitted.handle.locks().release(release).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&admitted.handle, reply.revision));
        Ok(Response::new(UnlockResponse { header }))
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        audit::note_target("lock", &request.get_ref().name);
        let admitted = self.admit(request.metadata()).await?;
        let UpdateRequest { name, fencing_token, metadata } = request.into_inner();
        let updated =
            lock_view::update(&admitted.handle, name.into(), Revision(fencing_token), metadata).await;
        let reply = fence::passed(updated.map_err(refusal::render)?)?;
        let header = Some(call_context::header(&admitted.handle, reply.revision));
        Ok(Response::new(UpdateResponse { header }))
    }

    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let request =
            request.map(|LeaseGrantRequest { ttl, id }| etcdserverpb::LeaseGrantRequest { ttl, id });
        let granted = self.leases.lease_grant(request).await?;
        Ok(granted.map(|granted| {
            let etcdserverpb::LeaseGrantResponse { header, id, ttl, .. } = granted;
            LeaseGrantResponse { header, id, ttl }
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let request = request.map(|LeaseRevokeRequest { id }| etcdserverpb::LeaseRevokeRequest { id });
        let revoked = self.leases.lease_revoke(request).await?;
        Ok(revoked.map(|revoked| LeaseRevokeResponse { header: revoked.header }))
    }

    type LeaseKeepAliveStream = BoxStream<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (metadata, _, requests) = request.into_parts();
        let requests = requests.map(|request| {
            request.map(|LeaseKeepAliveRequest { id }| etcdserverpb::LeaseKeepAliveRequest { id })
        });
        let answers = self.leases.keep_alives(&metadata, requests).await?;
        let answers = answers.map(|answer| {
            let etcdserverpb::LeaseKeepAliveResponse { header, id, ttl } = answer?;
            Ok(LeaseKeepAliveResponse { header, id, ttl })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    type WatchStream = BoxStream<WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let admitted = self.admit(request.metadata()).await?;
        admitted.handle.auth().refuse_strangers_to_data_nodes().map_err(refusal::render)?;
        let (answers, receiver) = mpsc::channel(ANSWERS_BUFFERED);
        let (handle, stopping) = (admitted.handle.clone(), admitted.stopping.clone());
        let requests = (request.into_inner(), WatchRecording::begin());
        tokio::spawn(lock_watch::serve(handle, stopping, requests, answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn inspect(&self, request: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        audit::note_target("lock", &request.get_ref().name);
        let admitted = self.admit(request.metadata()).await?;
        let name = Bytes::from(request.into_inner().name);
        let (revision, lock) = lock_view::inspect(&admitted.handle, name).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&admitted.handle, revision));
        Ok(Response::new(InspectResponse { header, lock }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        audit::note_target("prefix", &request.get_ref().prefix);
        let admitted = self.admit(request.metadata()).await?;
        let ListRequest { prefix, limit } = request.into_inner();
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let (revision, mut locks) =
            lock_view::list(&admitted.handle, Bytes::from(prefix)).await.map_err(refusal::render)?;
        let more = locks.len() > limit;
        locks.truncate(limit);
        let header = Some(call_context::header(&admitted.handle, revision));
        Ok(Response::new(ListResponse { header, locks, more }))
    }

    async fn fence(&self, request: Request<FenceRequest>) -> Result<Response<FenceResponse>, Status> {
        audit::note_target("lock", &request.get_ref().lock);
        audit::note_target("resource", &request.get_ref().resource);
        let admitted = self.admit(request.metadata()).await?;
        let FenceRequest { resource, lock, fencing_token } = request.into_inner();
        if resource.is_empty() {
            return Err(refusal::render(Code::EmptyKey));
        }
        let fence = FencingToken { lock: lock.into(), token: Revision(fencing_token) };
        let check = CheckFence { resource: resource.clone().into(), fence };
        let reply = admitted.handle.locks().check_fence(check).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&admitted.handle, reply.revision));
        match reply.body {
            FenceOutcome::Passed(PassedFence(last)) => {
                Ok(Response::new(FenceResponse { header, last_token: last.0 }))
            }
            FenceOutcome::Refused(refused) => Err(fence::refuse_token(&resource, &refused)),
        }
    }
}

/// A key's bytes as text; keys that other programs made need not be UTF-8.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn now_unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
