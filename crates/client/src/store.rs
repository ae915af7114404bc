//! The history of keys, the quota, member replacement, join tokens and the peer port.

use crate::{Client, Error, Kind};
use proto::althing::store::v1::store_service_client::StoreServiceClient;
use proto::althing::store::v1::{
    AcceptLossRequest, AcceptLossResponse, CreateJoinTokenRequest, CreateJoinTokenResponse, HistoryRequest,
    HistoryResponse, QuotaRequest, QuotaResponse, ReplaceMemberRequest, ReplaceMemberResponse,
    SecurePeersRequest, SecurePeersResponse,
};

impl Client {
    /// The known changes of a key, also those whose values are compacted.
    pub async fn history(&self, request: HistoryRequest) -> Result<HistoryResponse, Error> {
        let request = &request;
        let call = |channel| async move { StoreServiceClient::new(channel).history(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// Returns the quota of all members, or sets it. Setting it twice does no harm.
    pub async fn quota(&self, request: QuotaRequest) -> Result<QuotaResponse, Error> {
        let call = |channel| async move { StoreServiceClient::new(channel).quota(request).await };
        self.call(Kind::Read, call).await
    }

    /// Replaces a member by a new one in one step. Never repeated: the second call would find the old one gone.
    pub async fn replace_member(
        &self,
        request: ReplaceMemberRequest,
    ) -> Result<ReplaceMemberResponse, Error> {
        let request = &request;
        let call =
            |channel| async move { StoreServiceClient::new(channel).replace_member(request.clone()).await };
        self.call(Kind::Write, call).await
    }

    /// A token for one node to join with. A repetition makes two; the first one expires unused.
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

    /// Returns how the peer port of a member authenticates, or takes a step to close it. A repetition does no harm.
    pub async fn secure_peers(&self, request: SecurePeersRequest) -> Result<SecurePeersResponse, Error> {
        let request = &request;
        let call =
            |channel| async move { StoreServiceClient::new(channel).secure_peers(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// Makes a member that is in doubt of its log continue without another. A repetition does no harm.
    pub async fn accept_loss(&self, request: AcceptLossRequest) -> Result<AcceptLossResponse, Error> {
        let call = |channel| async move { StoreServiceClient::new(channel).accept_loss(request).await };
        self.call(Kind::Read, call).await
    }
}
