//! The StoreService: what is known of a key's past, the quota, and replacing a member in one step.
//! Requests go in, the words of the state machine come out, and back.

use crate::grpc::{refusal, who};
use base::{Code, KeyRange, NodeId};
use coord::Past;
use proto::althing::store::v1::change::Kind;
use proto::althing::store::v1::quota_request::Action;
use proto::althing::store::v1::store_service_server::StoreService;
use proto::althing::store::v1::{
    AcceptLossRequest, AcceptLossResponse, Change, HistoryRequest, HistoryResponse, QuotaRequest,
    QuotaResponse, ReplaceMemberRequest, ReplaceMemberResponse,
};
use server::{Handle, Need};
use tonic::{Request, Response, Status};

pub struct Stores {
    handle: Handle,
}

impl Stores {
    pub fn new(handle: Handle) -> Stores {
        Stores { handle }
    }
}

#[tonic::async_trait]
impl StoreService for Stores {
    async fn history(&self, request: Request<HistoryRequest>) -> Result<Response<HistoryResponse>, Status> {
        let handle = who::admit(&self.handle, request.metadata()).await?;
        let HistoryRequest { key, limit } = request.into_inner();
        if key.is_empty() {
            return Err(refusal::render(Code::EmptyKey));
        }
        let shown = vec![KeyRange::single(key.clone())];
        handle.permit(Need::Read(shown)).await.map_err(refusal::render)?;
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let (past, more) = self.handle.history(key, limit).await.map_err(refusal::render)?;
        let status = self.handle.status();
        Ok(Response::new(HistoryResponse {
            header: Some(who::header(&self.handle, status.revision)),
            changes: past.iter().map(change).collect(),
            more,
            compact_revision: status.compacted.0,
        }))
    }

    async fn quota(&self, request: Request<QuotaRequest>) -> Result<Response<QuotaResponse>, Status> {
        let handle = who::admit(&self.handle, request.metadata()).await?;
        let QuotaRequest { action, bytes } = request.into_inner();
        let action = Action::try_from(action).map_err(|_| Status::invalid_argument("no such action"))?;
        match action {
            Action::Get => handle.permit(Need::User).await,
            Action::Set | Action::Reset => handle.permit_agreed(Need::Root).await,
        }
        .map_err(refusal::render)?;
        match action {
            Action::Get => {}
            Action::Set => drop(self.handle.set_quota(Some(bytes)).await.map_err(refusal::render)?),
            Action::Reset => drop(self.handle.set_quota(None).await.map_err(refusal::render)?),
        }
        let status = self.handle.status();
        Ok(Response::new(QuotaResponse {
            header: Some(who::header(&self.handle, status.revision)),
            quota_bytes: status.quota_bytes,
            stored_bytes: status.stored_bytes,
        }))
    }

    async fn replace_member(
        &self,
        request: Request<ReplaceMemberRequest>,
    ) -> Result<Response<ReplaceMemberResponse>, Status> {
        let handle = who::admit(&self.handle, request.metadata()).await?;
        handle.permit_agreed(Need::Root).await.map_err(refusal::render)?;
        let ReplaceMemberRequest { id, peer_urls } = request.into_inner();
        let new = self.handle.replace_member(NodeId(id), peer_urls).await.map_err(refusal::render)?;
        let header = Some(who::header(&self.handle, self.handle.status().revision));
        Ok(Response::new(ReplaceMemberResponse { header, id: new.0 }))
    }

    /// Permitted by what this member knows: without a leader no member knows more.
    async fn accept_loss(
        &self,
        request: Request<AcceptLossRequest>,
    ) -> Result<Response<AcceptLossResponse>, Status> {
        let handle = who::admit(&self.handle, request.metadata()).await?;
        handle.permit_here(Need::Root).await.map_err(refusal::render)?;
        self.handle.accept_loss(NodeId(request.into_inner().id)).map_err(refusal::render)?;
        let header = Some(who::header(&self.handle, self.handle.status().revision));
        Ok(Response::new(AcceptLossResponse { header }))
    }
}

fn change(past: &Past) -> Change {
    let kind = if past.put.is_some() { Kind::Put } else { Kind::Delete };
    Change {
        kind: kind as i32,
        revision: past.revision.0,
        time_ms: past.millis.unwrap_or(0),
        create_revision: past.put.map_or(0, |put| put.create.0),
        version: past.put.map_or(0, |put| put.version),
        lease: past.put.map_or(0, |put| put.lease.0),
        value_bytes: past.put.map_or(0, |put| i64::from(put.value_len)),
    }
}
