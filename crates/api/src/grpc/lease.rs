//! The Lease service: etcd's messages in, questions and commands to `server::Handle` out.
//! A keep-alive stream answers each request in its order and ends with its client; that a lease is gone is an
//! answer (TTL 0 or -1), not an error.

use crate::audit;
use crate::clients::{self, ClientRecord};
use crate::grpc::revoke_on_disconnect::RevokeOnDisconnect;
use crate::grpc::{call_context, once, refusal};
use base::{KeyRange, LeaseId};
use coord::call::{GrantedLease, RenewedLease};
use coord::reply::LeaseTime;
use coord::{Command, Grant, LeaseAccess, Revoke};
use proto::etcdserverpb::lease_server::Lease;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use server::{Handle, RequiredAccess};
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

/// Answers of a keep-alive stream that its client has not taken yet; while there are so many, it reads no request.
const KEEP_ALIVES_BUFFERED: usize = 16;

pub struct LeaseService {
    handle: Handle,
}

impl LeaseService {
    pub fn new(handle: Handle) -> LeaseService {
        LeaseService { handle }
    }

    async fn admit(&self, metadata: &MetadataMap) -> Result<Handle, Status> {
        call_context::check_leader(&self.handle, metadata).map_err(refusal::render)?;
        call_context::admit(&self.handle, metadata).await
    }

    /// A stream of keep-alives, for gRPC and for the gateway.
    pub async fn keep_alives(
        &self,
        metadata: &MetadataMap,
        requests: impl Stream<Item = Result<LeaseKeepAliveRequest, Status>> + Send + Unpin + 'static,
    ) -> Result<BoxStream<LeaseKeepAliveResponse>, Status> {
        let handle = self.admit(metadata).await?;
        handle.auth().permit(RequiredAccess::User).await.map_err(refusal::render)?;
        let revoke_on_disconnect = RevokeOnDisconnect::from_metadata(metadata)?;
        let (sender, receiver) = mpsc::channel(KEEP_ALIVES_BUFFERED);
        let client = clients::current();
        tokio::spawn(async move {
            let renewing = Renewing { handle: handle.clone(), client, revoke_on_disconnect };
            let parting = keep_alive(renewing, requests, sender).await;
            if let Some(revoke_on_disconnect) = parting {
                revoke_on_disconnect.revoke_unrenewed(handle).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }
}

#[tonic::async_trait]
impl Lease for LeaseService {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        audit::note_id("lease", request.get_ref().id as u64);
        let handle = self.admit(request.metadata()).await?;
        let request_id = once::request_id(request.metadata())?;
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        let id = LeaseId(id);
        let reply = match request_id {
            None => handle.leases().grant(id, ttl).await.map_err(refusal::render)?,
            Some(request) => {
                let grant = Command::LeaseGrant(Grant { id, ttl });
                let answer = handle.kv().submit_once(request, grant).await;
                answer.map_err(refusal::render).and_then(once::whole)?
            }
        };
        let header = Some(call_context::header(&self.handle, reply.revision));
        let GrantedLease { id, ttl } = reply.body;
        audit::note_id("lease", id.0 as u64);
        if let Some(client) = clients::current() {
            client.note_lease(id);
        }
        Ok(Response::new(LeaseGrantResponse { header, id: id.0, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        audit::note_id("lease", request.get_ref().id as u64);
        let handle = self.admit(request.metadata()).await?;
        let request_id = once::request_id(request.metadata())?;
        let revoke = Revoke { id: LeaseId(request.into_inner().id), guard: None };
        let reply = match request_id {
            None => handle.leases().revoke(revoke.id).await.map_err(refusal::render)?,
            Some(request) => {
                let answer = handle.kv().submit_once(request, Command::LeaseRevoke(revoke)).await;
                answer.map_err(refusal::render).and_then(once::whole)?
            }
        };
        let header = Some(call_context::header(&self.handle, reply.revision));
        Ok(Response::new(LeaseRevokeResponse { header }))
    }

    type LeaseKeepAliveStream = BoxStream<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (metadata, _, requests) = request.into_parts();
        self.keep_alives(&metadata, requests).await.map(Response::new)
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        audit::note_id("lease", request.get_ref().id as u64);
        let handle = self.admit(request.metadata()).await?;
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let answer = if keys {
            handle.leases().time_to_live_and_keys(LeaseId(id)).await
        } else {
            handle.leases().time_to_live(LeaseId(id)).await
        };
        let reply = answer.map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, reply.revision));
        let LeaseTime { ttl, granted, keys, .. } = reply.body;
        let shown = keys.iter().cloned().map(KeyRange::single).collect();
        handle.auth().permit(RequiredAccess::Read(shown)).await.map_err(refusal::render)?;
        Ok(Response::new(LeaseTimeToLiveResponse { header, id, ttl, granted_ttl: granted, keys }))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let handle = self.admit(request.metadata()).await?;
        let reply = handle.leases().list().await.map_err(refusal::render)?;
        // The answer waited for everything committed before, and so did the permission check.
        handle
            .auth()
            .permit_here(RequiredAccess::Leases(LeaseAccess::List))
            .await
            .map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, reply.revision));
        let leases = reply.body.into_iter().map(|id| LeaseStatus { id: id.0 }).collect();
        Ok(Response::new(LeaseLeasesResponse { header, leases }))
    }
}

/// Ends with the client's last request, with its disconnect, or with the first refusal; returns what
/// must be revoked then.
async fn keep_alive(
    mut renewing: Renewing,
    mut requests: impl Stream<Item = Result<LeaseKeepAliveRequest, Status>> + Unpin,
    answers: mpsc::Sender<Result<LeaseKeepAliveResponse, Status>>,
) -> Option<RevokeOnDisconnect> {
    loop {
        let request = tokio::select! {
            request = requests.next() => request,
            () = answers.closed() => return renewing.revoke_on_disconnect,
        };
        let answer = match request {
            None => return renewing.revoke_on_disconnect,
            Some(Ok(request)) => renew(&mut renewing, request.id).await,
            Some(Err(status)) => Err(status),
        };
        let ends = answer.is_err();
        if answers.send(answer).await.is_err() || ends {
            return renewing.revoke_on_disconnect;
        }
    }
}

/// A stream of keep-alives.
struct Renewing {
    handle: Handle,
    client: Option<Arc<ClientRecord>>,
    revoke_on_disconnect: Option<RevokeOnDisconnect>,
}

async fn renew(renewing: &mut Renewing, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
    let Renewing { handle, client, revoke_on_disconnect } = renewing;
    let need = RequiredAccess::Leases(LeaseAccess::Renew(LeaseId(id)));
    handle.auth().permit_here(need).await.map_err(refusal::render)?;
    let reply = handle.leases().keep_alive(LeaseId(id)).await.map_err(refusal::render)?;
    let header = Some(call_context::header(handle, reply.revision));
    let RenewedLease { ttl, renewal } = reply.body;
    if let Some(client) = client {
        client.note_lease(LeaseId(id));
    }
    if let Some(revoke_on_disconnect) = revoke_on_disconnect {
        revoke_on_disconnect.renewed(LeaseId(id), ttl, renewal)?;
    }
    Ok(LeaseKeepAliveResponse { header, id, ttl })
}
