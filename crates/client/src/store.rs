//! What a store keeps of the past, how much it may hold, and who keeps it instead of another.

use crate::{Client, Error, Kind};
use proto::althing::store::v1::store_service_client::StoreServiceClient;
use proto::althing::store::v1::{
    AcceptLossRequest, AcceptLossResponse, CreateJoinTokenRequest, CreateJoinTokenResponse, HistoryRequest,
    HistoryResponse, QuotaRequest, QuotaResponse, ReplaceMemberRequest, ReplaceMemberResponse,
    SecurePeersRequest, SecurePeersResponse,
};

impl Client {
    /// The changes of a key that are still known, also those whose values are gone.
    pub async fn history(&self, request: HistoryRequest) -> Result<HistoryResponse, Error> {
        let request = &request;
        let call = |channel| async move { StoreServiceClient::new(channel).history(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// Tells the quota of all members, or sets it. Setting it twice does no harm.
    pub async fn quota(&self, request: QuotaRequest) -> Result<QuotaResponse, Error> {
        let call = |channel| async move { StoreServiceClient::new(channel).quota(request).await };
        self.call(Kind::Read, call).await
    }

    /// Puts a new member in the place of another in one step. Never asked twice: the second would find the old one gone.
    pub async fn replace_member(
        &self,
        request: ReplaceMemberRequest,
    ) -> Result<ReplaceMemberResponse, Error> {
        let request = &request;
        let call =
            |channel| async move { StoreServiceClient::new(channel).replace_member(request.clone()).await };
        self.call(Kind::Write, call).await
    }

    /// A token for one node to join with. Asking twice makes two; the first one expires unused.
    pub async fn create_join_token(
        &self,
        request: CreateJoinTokenRequest,
    ) -> Result<CreateJoinTokenResponse, Error> {
        let request = &request;
        let call = |channel| async move {
            StoreServiceClient::new(channel).create_join_token(request.clone()).await
        };
        self.call(Kind::Read, call).await
    }

    /// Tells how the peer port of a member is guarded, or takes a step to close it. To take it twice does no harm.
    pub async fn secure_peers(&self, request: SecurePeersRequest) -> Result<SecurePeersResponse, Error> {
        let request = &request;
        let call =
            |channel| async move { StoreServiceClient::new(channel).secure_peers(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// Tells a member that is in doubt of its log to go on without another. To say it twice does no harm.
    pub async fn accept_loss(&self, request: AcceptLossRequest) -> Result<AcceptLossResponse, Error> {
        let call = |channel| async move { StoreServiceClient::new(channel).accept_loss(request).await };
        self.call(Kind::Read, call).await
    }
}
