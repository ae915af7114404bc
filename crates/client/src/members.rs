//! The members of the cluster.

use crate::{Client, Error, Kind};
use proto::etcdserverpb::cluster_client::ClusterClient;
use proto::etcdserverpb::{
    MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse,
};

impl Client {
    pub async fn members(&self) -> Result<MemberListResponse, Error> {
        let request = MemberListRequest { linearizable: true };
        self.call(Kind::Read, |channel| async move { ClusterClient::new(channel).member_list(request).await })
            .await
    }

    pub async fn add_member(&self, request: MemberAddRequest) -> Result<MemberAddResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { ClusterClient::new(channel).member_add(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn remove_member(&self, id: u64) -> Result<MemberRemoveResponse, Error> {
        let request = MemberRemoveRequest { id };
        self.call(
            Kind::Write,
            |channel| async move { ClusterClient::new(channel).member_remove(request).await },
        )
        .await
    }

    pub async fn update_member(&self, request: MemberUpdateRequest) -> Result<MemberUpdateResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { ClusterClient::new(channel).member_update(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn promote_member(&self, id: u64) -> Result<MemberPromoteResponse, Error> {
        let request = MemberPromoteRequest { id };
        self.call(
            Kind::Write,
            |channel| async move { ClusterClient::new(channel).member_promote(request).await },
        )
        .await
    }
}
