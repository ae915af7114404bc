//! Users, roles and permissions, and whether auth is on.

use crate::{Client, Error, Kind};
use proto::etcdserverpb as wire;
use proto::etcdserverpb::auth_client::AuthClient;

/// A method each: its name, whether it only reads, its request and its answer.
macro_rules! calls {
    ($($name:ident $kind:ident $request:ident $response:ident;)*) => {
        impl Client {
            $(pub async fn $name(&self, request: wire::$request) -> Result<wire::$response, Error> {
                let request = &request;
                let call = |line| async move { AuthClient::new(line).$name(request.clone()).await };
                self.call(Kind::$kind, call).await
            })*
        }
    };
}

calls! {
    auth_enable Write AuthEnableRequest AuthEnableResponse;
    auth_disable Write AuthDisableRequest AuthDisableResponse;
    auth_status Read AuthStatusRequest AuthStatusResponse;
    user_add Write AuthUserAddRequest AuthUserAddResponse;
    user_get Read AuthUserGetRequest AuthUserGetResponse;
    user_list Read AuthUserListRequest AuthUserListResponse;
    user_delete Write AuthUserDeleteRequest AuthUserDeleteResponse;
    user_change_password Write AuthUserChangePasswordRequest AuthUserChangePasswordResponse;
    user_grant_role Write AuthUserGrantRoleRequest AuthUserGrantRoleResponse;
    user_revoke_role Write AuthUserRevokeRoleRequest AuthUserRevokeRoleResponse;
    role_add Write AuthRoleAddRequest AuthRoleAddResponse;
    role_get Read AuthRoleGetRequest AuthRoleGetResponse;
    role_list Read AuthRoleListRequest AuthRoleListResponse;
    role_delete Write AuthRoleDeleteRequest AuthRoleDeleteResponse;
    role_grant_permission Write AuthRoleGrantPermissionRequest AuthRoleGrantPermissionResponse;
    role_revoke_permission Write AuthRoleRevokePermissionRequest AuthRoleRevokePermissionResponse;
}
