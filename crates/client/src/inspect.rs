//! Clients, watches and leases, and what pins compaction.

use crate::{Client, Error, Kind};
use proto::inspect::inspect_service_client::InspectServiceClient;
use proto::inspect::{
    ClientsRequest, ClientsResponse, CompactionRequest, CompactionResponse, LeasesRequest, LeasesResponse,
    WatchesRequest, WatchesResponse,
};

impl Client {
    /// The connections of the member that answers.
    pub async fn describe_clients(&self, request: ClientsRequest) -> Result<ClientsResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move {
                InspectServiceClient::new(channel)
                    .max_decoding_message_size(usize::MAX)
                    .clients(request)
                    .await
            }
        };
        self.call(Kind::Read, call).await
    }

    /// The watches of the member that answers.
    pub async fn describe_watches(&self, request: WatchesRequest) -> Result<WatchesResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move {
                InspectServiceClient::new(channel)
                    .max_decoding_message_size(usize::MAX)
                    .watches(request)
                    .await
            }
        };
        self.call(Kind::Read, call).await
    }

    /// All leases.
    pub async fn describe_leases(&self, request: LeasesRequest) -> Result<LeasesResponse, Error> {
        let call = |channel| async move {
            InspectServiceClient::new(channel).max_decoding_message_size(usize::MAX).leases(request).await
        };
        self.call(Kind::Read, call).await
    }

    /// What pins compaction on the member that answers.
    pub async fn describe_compaction(&self) -> Result<CompactionResponse, Error> {
        let call = |channel| async move {
            let mut service = InspectServiceClient::new(channel).max_decoding_message_size(usize::MAX);
            service.compaction(CompactionRequest {}).await
        };
        self.call(Kind::Read, call).await
    }
}
