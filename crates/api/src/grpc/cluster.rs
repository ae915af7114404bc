//! The Cluster service: lists the members, and changes them, which goes through the log like anything else.
//! A list that asks for it is linearizable; any other is what this member knows. After a change the answer lists
//! the members as they are then.

use crate::audit;
use crate::grpc::{call_context, refusal};
use base::{NodeId, Revision};
use proto::etcdserverpb::cluster_server::Cluster;
use proto::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse, ResponseHeader,
};
use server::{Handle, MemberInfo, RequiredAccess};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

pub struct ClusterService {
    handle: Handle,
}

impl ClusterService {
    pub fn new(handle: Handle) -> ClusterService {
        ClusterService { handle }
    }

    /// As in etcd, without a revision: members do not belong to one.
    fn header(&self) -> Option<ResponseHeader> {
        Some(call_context::header(&self.handle, Revision::ZERO))
    }

    /// Only root changes the members.
    async fn check_root(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let handle = call_context::admit(&self.handle, metadata).await?;
        handle.auth().permit_agreed(RequiredAccess::Root).await.map_err(refusal::render)
    }

    fn members(&self) -> Vec<Member> {
        self.handle.members().list().into_iter().map(render).collect()
    }
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        if request.get_ref().linearizable {
            self.handle.auth().catch_up_urgently().await.map_err(refusal::render)?;
        }
        call_context::require_user(&self.handle, request.metadata()).await?;
        Ok(Response::new(MemberListResponse { header: self.header(), members: self.members() }))
    }

    async fn member_add(
        &self,
        request: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        request.get_ref().peer_ur_ls.iter().for_each(|url| audit::note_target("peer_url", url));
        if !self.handle.auth().is_on() {
            // Without waiting for a leader, whom the cluster may lack.
            self.handle.members().check_add(request.get_ref().is_learner).map_err(refusal::render)?;
        }
        self.check_root(request.metadata()).await?;
        let MemberAddRequest { peer_ur_ls, is_learner } = request.into_inner();
        let id = self.handle.members().add(peer_ur_ls, is_learner).await.map_err(refusal::render)?;
        let members = self.members();
        let member = members.iter().find(|member| member.id == id.0).cloned();
        Ok(Response::new(MemberAddResponse { header: self.header(), member, members }))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        audit::note_id("member", request.get_ref().id);
        let id = NodeId(request.get_ref().id);
        if !self.handle.auth().is_on() {
            self.handle.members().check_remove(id).map_err(refusal::render)?;
        }
        self.check_root(request.metadata()).await?;
        self.handle.members().remove(id).await.map_err(refusal::render)?;
        Ok(Response::new(MemberRemoveResponse { header: self.header(), members: self.members() }))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        audit::note_id("member", request.get_ref().id);
        self.check_root(request.metadata()).await?;
        let MemberUpdateRequest { id, peer_ur_ls } = request.into_inner();
        self.handle.members().update(NodeId(id), peer_ur_ls).await.map_err(refusal::render)?;
        Ok(Response::new(MemberUpdateResponse { header: self.header(), members: self.members() }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        audit::note_id("member", request.get_ref().id);
        self.check_root(request.metadata()).await?;
        let id = NodeId(request.get_ref().id);
        self.handle.members().promote(id).await.map_err(refusal::render)?;
        Ok(Response::new(MemberPromoteResponse { header: self.header(), members: self.members() }))
    }
}

fn render(member: MemberInfo) -> Member {
    Member {
        id: member.id.0,
        name: member.name,
        peer_ur_ls: member.peer_urls,
        client_ur_ls: member.client_urls,
        is_learner: member.learner,
    }
}
