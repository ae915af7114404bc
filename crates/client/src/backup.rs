//! Rows of the data plane for backups, and putting them back.

use crate::{Client, Error, Kind};
use proto::althing::backup::v1 as wire;
use proto::althing::backup::v1::backup_service_client::BackupServiceClient;

/// A page holds a record at least.
const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

impl Client {
    /// What the called node goes by.
    pub async fn describe_rows(&self) -> Result<wire::DescribeResponse, Error> {
        let call = |line| async move { client(line).describe(wire::DescribeRequest {}).await };
        self.call(Kind::Read, call).await
    }

    /// Rows of the called node.
    pub async fn rows(&self, request: wire::RowsRequest) -> Result<wire::RowsResponse, Error> {
        let request = &request;
        let call = |line| async move { client(line).rows(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// A page of the elements of a collection, as a quorum has them.
    pub async fn saved_elements(
        &self,
        request: wire::ElementsRequest,
    ) -> Result<wire::ElementsResponse, Error> {
        let request = &request;
        let call = |line| async move { client(line).elements(request.clone()).await };
        self.call(Kind::Read, call).await
    }

    /// It may be repeated: keys that were restored are kept then.
    pub async fn restore_rows(&self, request: wire::RestoreRequest) -> Result<wire::RestoreResponse, Error> {
        let request = &request;
        let call = |line| async move { client(line).restore(request.clone()).await };
        self.call(Kind::Read, call).await
    }
}

fn client(line: crate::login::AuthedChannel) -> BackupServiceClient<crate::login::AuthedChannel> {
    BackupServiceClient::new(line).max_decoding_message_size(PAGE_BYTES_MAX)
}
