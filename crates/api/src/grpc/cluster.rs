//! The Cluster service: who is in the cluster. Clusters are static, so nobody is added or removed.
//! A list that asks for it is linearizable; any other is what this member knows.

use crate::grpc::{refusal, who};
use base::Revision;
use proto::etcdserverpb::cluster_server::Cluster;
use proto::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse,
};
use server::{Handle, MemberInfo};
use tonic::{Request, Response, Status};

pub struct ClusterService {
    handle: Handle,
}

impl ClusterService {
    pub fn new(handle: Handle) -> ClusterService {
        ClusterService { handle }
    }
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        if request.get_ref().linearizable {
            who::catch_up(&self.handle).await.map_err(refusal::render)?;
        }
        Ok(Response::new(MemberListResponse {
            // As in etcd, without a revision: members do not belong to one.
            header: Some(who::header(&self.handle, Revision::ZERO)),
            members: self.handle.members().into_iter().map(render).collect(),
        }))
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        Err(is_static("MemberAdd"))
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        Err(is_static("MemberRemove"))
    }

    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        Err(is_static("MemberUpdate"))
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        Err(is_static("MemberPromote"))
    }
}

fn is_static(call: &str) -> Status {
    Status::unimplemented(format!(
        "{call} is not served by this version; the members are those of --initial-cluster"
    ))
}

fn render(member: MemberInfo) -> Member {
    Member {
        id: member.id.0,
        name: member.name,
        peer_ur_ls: vec![member.peer_url],
        client_ur_ls: member.client_url.into_iter().collect(),
        is_learner: false,
    }
}
