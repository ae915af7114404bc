//! The Lease service: etcd's messages in, questions and commands to `server::Handle` out.
//! A keep-alive stream answers each request in its order and ends with its client; that a lease is gone is an
//! answer (TTL 0 or -1), not an error.

use crate::audit;
use crate::clients::{self, ClientRecord};
use crate::grpc::ordered_answers::{Asking, OrderedAnswers};
use crate::grpc::revoke_on_disconnect::RevokeOnDisconnect;
use crate::grpc::{call_context, once, refusal};
use base::{KeyRange, LeaseId};
use coord::call::{GrantedLease, RenewedLease};
use coord::reply::{LeaseRenewal, LeaseTime};
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

/// Answers of a keep-alive stream that its client has not taken yet, where leases are revoked when it disconnects.
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
        let (client, renewing) = (clients::current(), handle.clone());
        let answers = OrderedAnswers::new(requests, move |request: LeaseKeepAliveRequest| {
            Box::pin(renew(renewing.clone(), client.clone(), request.id)) as Asking<Renewal>
        });
        let Some(revoke_on_disconnect) = revoke_on_disconnect else {
            return Ok(Box::pin(answers.map(|answer| answer.map(|(response, _)| response))));
        };
        let (sender, receiver) = mpsc::channel(KEEP_ALIVES_BUFFERED);
        tokio::spawn(async move {
            let parting = note_renewals(answers, revoke_on_disconnect, sender).await;
            parting.revoke_unrenewed(handle).await;
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

/// An answer, and the renewal that it tells of.
type Renewal = (LeaseKeepAliveResponse, LeaseRenewal);

async fn renew(handle: Handle, client: Option<Arc<ClientRecord>>, id: i64) -> Result<Renewal, Status> {
    let need = RequiredAccess::Leases(LeaseAccess::Renew(LeaseId(id)));
    handle.auth().permit_here(need).await.map_err(refusal::render)?;
    let reply = handle.leases().keep_alive(LeaseId(id)).await.map_err(refusal::render)?;
    let header = Some(call_context::header(&handle, reply.revision));
    let RenewedLease { ttl, renewal } = reply.body;
    if let Some(client) = client {
        client.note_lease(LeaseId(id));
    }
    Ok((LeaseKeepAliveResponse { header, id, ttl }, renewal))
}

/// Passes the answers on, and notes what was renewed. Ends with the client's last request, with its disconnect, or with
/// the first refusal; returns what must be revoked then.
async fn note_renewals<S, F>(
    mut answers: OrderedAnswers<S, F, Renewal>,
    mut revoke_on_disconnect: RevokeOnDisconnect,
    sender: mpsc::Sender<Result<LeaseKeepAliveResponse, Status>>,
) -> RevokeOnDisconnect
where
    S: Stream<Item = Result<LeaseKeepAliveRequest, Status>> + Unpin,
    F: FnMut(LeaseKeepAliveRequest) -> Asking<Renewal> + Unpin,
{
    loop {
        let answer = tokio::select! {
            answer = answers.next() => answer,
            () = sender.closed(), if answers.is_reading() => {
                // What it has asked for is renewed all the same.
                answers.stop_reading();
                continue;
            }
        };
        let Some(answer) = answer else { return revoke_on_disconnect };
        let answer = answer.and_then(|(response, renewal)| {
            revoke_on_disconnect.renewed(LeaseId(response.id), response.ttl, renewal)?;
            Ok(response)
        });
        let ends = answer.is_err();
        let is_gone = sender.send(answer).await.is_err();
        if ends {
            return revoke_on_disconnect;
        }
        if is_gone {
            answers.stop_reading();
        }
    }
}
