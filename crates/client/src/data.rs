//! Keys and values of the data plane: batches and pages of scans.

use crate::{AuthedChannel, Client, Error, Kind};
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::data_service_client::DataServiceClient;

impl Client {
    /// It may be sent twice: each operation in it must do no harm when it is repeated, or have a request id.
    pub async fn data_batch(&self, request: wire::BatchRequest) -> Result<wire::BatchResponse, Error> {
        let request = &request;
        let call = |line| async move { data(line).batch(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// All entries of a scan, which should have a limit.
    pub async fn data_page(&self, request: wire::ScanRequest) -> Result<wire::ScanResponse, Error> {
        let request = &request;
        let call = |line| async move { data(line).scan(request.clone()).await };
        let mut messages = self.call(Kind::Read, call).await?;
        let mut page = wire::ScanResponse::default();
        while let Some(message) = messages.message().await? {
            page.entries.extend(message.entries);
            page.missing_partitions = page.missing_partitions.max(message.missing_partitions);
            page.next = message.next;
        }
        Ok(page)
    }

    pub async fn data_count(&self, request: wire::CountRequest) -> Result<wire::CountResponse, Error> {
        let request = &request;
        let call = |line| async move { data(line).count(request.clone()).await };
        self.call(Kind::Read, call).await
    }
}

fn data(line: AuthedChannel) -> DataServiceClient<AuthedChannel> {
    DataServiceClient::new(line).max_decoding_message_size(usize::MAX)
}
