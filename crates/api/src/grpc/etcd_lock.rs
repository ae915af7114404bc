//! etcd's lock service over the lock machine: the same keys, values and revisions as etcd's own.
//! `Lock` answers when the lock is held and leaves the queue when its client does; `Unlock` deletes whatever key it
//! is given, as in etcd.

use crate::audit;
use crate::grpc::{call_context, refusal};
use base::{Code, KeyRange, LeaseId};
use bytes::Bytes;
use coord::call::TypedRequest;
use coord::request::{Delete, Limits};
use proto::v3lockpb::lock_server::Lock;
use proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use server::{AcquireRequest, Handle, HeldLock, LockOutcome, LockWaitLimit};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// The TTL for a client that has no lease of its own: etcd's default for sessions, in seconds.
const SESSION_TTL: i64 = 60;

pub struct EtcdLockService {
    handle: Handle,
    stopping: watch::Receiver<bool>,
}

impl EtcdLockService {
    pub fn new(handle: Handle, stopping: watch::Receiver<bool>) -> EtcdLockService {
        EtcdLockService { handle, stopping }
    }
}

#[tonic::async_trait]
impl Lock for EtcdLockService {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        audit::note_target("lock", &String::from_utf8_lossy(&request.get_ref().name));
        audit::note_id("lease", request.get_ref().lease as u64);
        call_context::check_leader(&self.handle, request.metadata()).map_err(refusal::render)?;
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        let LockRequest { name, lease } = request.into_inner();
        let held = hold(&handle, &self.stopping, name, lease, None).await.map_err(render_session)?;
        let header = Some(call_context::header(&self.handle, held.revision));
        Ok(Response::new(LockResponse { header, key: held.key }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        audit::note_key(&request.get_ref().key);
        call_context::check_leader(&self.handle, request.metadata()).map_err(refusal::render)?;
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        let delete = TypedRequest::of(parse_unlock(request.into_inner()));
        delete.request().validate(&Limits::default()).map_err(refusal::render)?;
        let reply = handle.kv().submit(delete).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, reply.revision));
        Ok(Response::new(UnlockResponse { header }))
    }
}

/// etcd's services of locks and elections have a client inside, whose error for a lease loses its code.
pub fn render_session(code: Code) -> Status {
    match code {
        Code::LeaseNotFound => Status::unknown(code.message()),
        code => refusal::render(code),
    }
}

/// Whatever key it is given goes.
pub fn parse_unlock(request: UnlockRequest) -> Delete {
    Delete { keys: KeyRange::single(request.key), prev_kv: false }
}

/// Waits until the lock is held: for a lock without a value, for a candidate with its own.
pub async fn hold(
    handle: &Handle,
    stopping: &watch::Receiver<bool>,
    name: Bytes,
    lease: i64,
    value: Option<Bytes>,
) -> Result<HeldLock, Code> {
    let lease = session(handle, LeaseId(lease)).await?;
    let ask = AcquireRequest {
        name,
        lease,
        holder: Bytes::new(),
        replaces_value: value.is_some(),
        value: value.unwrap_or_default(),
        wait_limit: LockWaitLimit::Unbounded,
    };
    match until_stopped(stopping, handle.locks().acquire(ask)).await? {
        LockOutcome::Held(grant) => Ok(grant.confirm()),
        // A wait without a bound ends with the lock or with an error.
        LockOutcome::NotHeld(_) => Err(Code::LockLost),
    }
}

async fn session(handle: &Handle, lease: LeaseId) -> Result<LeaseId, Code> {
    if lease != LeaseId::NONE {
        return Ok(lease);
    }
    Ok(handle.leases().grant(lease, SESSION_TTL).await?.body.id)
}

/// A call that may wait for ever ends with the member.
pub async fn until_stopped<T>(
    stopping: &watch::Receiver<bool>,
    call: impl Future<Output = Result<T, Code>>,
) -> Result<T, Code> {
    let mut stopping = stopping.clone();
    tokio::select! {
        outcome = call => outcome,
        _ = stopping.wait_for(|stopping| *stopping) => Err(Code::Stopped),
    }
}
