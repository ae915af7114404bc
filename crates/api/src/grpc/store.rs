//! The StoreService: a key's history, the quota, and replacing a member in one step.
//! Requests go in, commands of the state machine come out, and back.

use crate::audit;
use crate::clients::unix_millis;
use crate::grpc::{call_context, refusal};
use base::{Code, KeyRange, NodeId};
use coord::{CompactionState, PastChange};
use proto::althing::store::v1::change::Kind;
use proto::althing::store::v1::quota_request::Action;
use proto::althing::store::v1::secure_peers_request::Step;
use proto::althing::store::v1::secure_peers_response::Stage;
use proto::althing::store::v1::store_service_server::StoreService;
use proto::althing::store::v1::{
    AcceptLossRequest, AcceptLossResponse, Change, CreateJoinTokenRequest, CreateJoinTokenResponse,
    HistoryRequest, HistoryResponse, QuotaRequest, QuotaResponse, ReplaceMemberRequest,
    ReplaceMemberResponse, SecurePeersRequest, SecurePeersResponse,
};
use server::{AuditClass, Handle, RequiredAccess};
use std::time::Duration;
use tonic::{Request, Response, Status};

const JOIN_TOKEN_TTL: Duration = Duration::from_secs(3_600);
const JOIN_TOKEN_TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

pub struct StoreApi {
    handle: Handle,
}

impl StoreApi {
    pub fn new(handle: Handle) -> StoreApi {
        StoreApi { handle }
    }
}

#[tonic::async_trait]
impl StoreService for StoreApi {
    async fn history(&self, request: Request<HistoryRequest>) -> Result<Response<HistoryResponse>, Status> {
        audit::note_key(&request.get_ref().key);
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        let HistoryRequest { key, limit } = request.into_inner();
        if key.is_empty() {
            return Err(refusal::render(Code::EmptyKey));
        }
        let shown = vec![KeyRange::single(key.clone())];
        handle.auth().permit(RequiredAccess::Read(shown)).await.map_err(refusal::render)?;
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let (past, more) = self.handle.kv().history(key, limit).await.map_err(refusal::render)?;
        let status = self.handle.status();
        let now_ms = unix_millis();
        Ok(Response::new(HistoryResponse {
            header: Some(call_context::header(&self.handle, status.revision)),
            changes: past.iter().map(|past| change(past, now_ms)).collect(),
            more,
            compact_revision: status.compacted.0,
        }))
    }

    async fn quota(&self, request: Request<QuotaRequest>) -> Result<Response<QuotaResponse>, Status> {
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        let QuotaRequest { action, bytes } = request.into_inner();
        let action = Action::try_from(action).map_err(|_| Status::invalid_argument("no such action"))?;
        match action {
            Action::Get => {
                audit::note_read();
                handle.auth().permit(RequiredAccess::User).await
            }
            Action::Set | Action::Reset => handle.auth().permit_agreed(RequiredAccess::Root).await,
        }
        .map_err(refusal::render)?;
        match action {
            Action::Get => {}
            Action::Set => {
                self.handle.maintenance().set_quota(Some(bytes)).await.map_err(refusal::render)?;
            }
            Action::Reset => {
                self.handle.maintenance().set_quota(None).await.map_err(refusal::render)?;
            }
        }
        let status = self.handle.status();
        Ok(Response::new(QuotaResponse {
            header: Some(call_context::header(&self.handle, status.revision)),
            quota_bytes: status.quota_bytes,
            stored_bytes: status.stored_bytes,
        }))
    }

    async fn replace_member(
        &self,
        request: Request<ReplaceMemberRequest>,
    ) -> Result<Response<ReplaceMemberResponse>, Status> {
        audit::note_id("member", request.get_ref().id);
        request.get_ref().peer_urls.iter().for_each(|url| audit::note_target("peer_url", url));
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        handle.auth().permit_agreed(RequiredAccess::Root).await.map_err(refusal::render)?;
        let ReplaceMemberRequest { id, peer_urls } = request.into_inner();
        let new = self.handle.members().replace(NodeId(id), peer_urls).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, self.handle.status().revision));
        Ok(Response::new(ReplaceMemberResponse { header, id: new.0 }))
    }

    /// Permitted by what this member knows: without a leader no member knows more.
    async fn accept_loss(
        &self,
        request: Request<AcceptLossRequest>,
    ) -> Result<Response<AcceptLossResponse>, Status> {
        audit::note_id("member", request.get_ref().id);
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        handle.auth().permit_here(RequiredAccess::Root).await.map_err(refusal::render)?;
        self.handle.members().accept_loss(NodeId(request.into_inner().id)).map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, self.handle.status().revision));
        Ok(Response::new(AcceptLossResponse { header }))
    }

    async fn create_join_token(
        &self,
        request: Request<CreateJoinTokenRequest>,
    ) -> Result<Response<CreateJoinTokenResponse>, Status> {
        audit::note_target("peer_url", &request.get_ref().peer_url);
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        handle.auth().permit_agreed(RequiredAccess::Root).await.map_err(refusal::render)?;
        let CreateJoinTokenRequest { ttl_seconds, peer_url } = request.into_inner();
        let ttl = match ttl_seconds {
            0 => JOIN_TOKEN_TTL,
            seconds => u64::try_from(seconds)
                .ok()
                .map(Duration::from_secs)
                .filter(|ttl| *ttl <= JOIN_TOKEN_TTL_MAX)
                .ok_or_else(|| Status::invalid_argument("a join token lives for 30 days at most"))?,
        };
        let token =
            self.handle.members().make_join_token(ttl, &peer_url).await.map_err(refusal::render)?.to_string();
        let header = Some(call_context::header(&self.handle, self.handle.status().revision));
        Ok(Response::new(CreateJoinTokenResponse { header, token }))
    }

    /// Permitted by what this member knows, as it concerns this member alone.
    async fn secure_peers(
        &self,
        request: Request<SecurePeersRequest>,
    ) -> Result<Response<SecurePeersResponse>, Status> {
        let step = request.get_ref().step();
        audit::note(|entry| match step {
            Step::Show => entry.class = AuditClass::Read,
            step => entry.add_target("step", step.as_str_name()),
        });
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        handle.auth().permit_here(RequiredAccess::Root).await.map_err(refusal::render)?;
        let request = request.into_inner();
        let port = match request.step() {
            Step::Show => Ok(self.handle.peer_port().status()),
            Step::Redial => Ok(self.handle.peer_port().redial_one()),
            Step::Close => self.handle.peer_port().close(),
            Step::TakeSecret => {
                let secret = tls::Secret::parse(&request.secret);
                let secret = secret
                    .ok_or_else(|| Status::invalid_argument("a secret is a line of 32 bytes or more"))?;
                self.handle.peer_port().take_secret(secret)
            }
        };
        let port = port.map_err(|refusal| Status::failed_precondition(refusal.to_string()))?;
        let stage = match port.stage {
            server::PeerAuthStage::Open => Stage::Open,
            server::PeerAuthStage::Both => Stage::Both,
            server::PeerAuthStage::Closed => Stage::Closed,
        };
        Ok(Response::new(SecurePeersResponse {
            header: Some(call_context::header(&self.handle, self.handle.status().revision)),
            stage: stage as i32,
            authority: port.authority.map(|authority| authority.0.to_vec().into()).unwrap_or_default(),
            in_the_clear: port.in_the_clear.iter().map(|id| id.0).collect(),
        }))
    }
}

/// What has no time mark yet has happened by now.
fn change(past: &PastChange, now_ms: i64) -> Change {
    let kind = if past.put.is_some() { Kind::Put } else { Kind::Delete };
    Change {
        kind: kind as i32,
        revision: past.revision.0,
        time_ms: past.millis.unwrap_or(now_ms),
        create_revision: past.put.map_or(0, |put| put.create.0),
        version: past.put.map_or(0, |put| put.version),
        lease: past.put.map_or(0, |put| put.lease.0),
        value_bytes: past.put.map_or(0, |put| i64::from(put.value_len)),
        compacted_at_ms: match past.compacted {
            CompactionState::Readable => 0,
            CompactionState::Compacted(at) => at.unwrap_or(now_ms),
        },
    }
}
