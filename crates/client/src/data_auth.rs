//! What roles permit on the data plane.

use crate::{Client, Error, Kind};
use proto::althing::auth::v1 as wire;
use proto::althing::auth::v1::data_auth_client::DataAuthClient;

impl Client {
    /// Granting the same twice does no harm.
    pub async fn role_grant_data(
        &self,
        request: wire::RoleGrantDataRequest,
    ) -> Result<wire::RoleGrantDataResponse, Error> {
        let request = &request;
        let call = |line| async move { DataAuthClient::new(line).role_grant_data(request.clone()).await };
        self.call(Kind::Write, call).await
    }

    pub async fn role_revoke_data(
        &self,
        request: wire::RoleRevokeDataRequest,
    ) -> Result<wire::RoleRevokeDataResponse, Error> {
        let request = &request;
        let call = |line| async move { DataAuthClient::new(line).role_revoke_data(request.clone()).await };
        self.call(Kind::Write, call).await
    }

    pub async fn role_get_data(
        &self,
        request: wire::RoleGetDataRequest,
    ) -> Result<wire::RoleGetDataResponse, Error> {
        let request = &request;
        let call = |line| async move { DataAuthClient::new(line).role_get_data(request.clone()).await };
        self.call(Kind::Read, call).await
    }
}
