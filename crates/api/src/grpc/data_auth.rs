//! The DataAuth service: what roles permit on the data plane. Requests go in, commands about auth come out, and back.
//! The apply machine decides which caller may do what, as for the Auth service.

use crate::grpc::{auth, refusal};
use base::Code;
use coord::call::{AuthCall, DataPermissionsOfRole};
use coord::{AuthCommand, DataAccess, DataPermission, DataRange};
use proto::althing::auth::v1 as wire;
use proto::althing::auth::v1::data_auth_server::DataAuth;
use proto::etcdserverpb::ResponseHeader;
use server::Handle;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

pub struct DataAuthService {
    handle: Handle,
}

impl DataAuthService {
    pub fn new(handle: Handle) -> DataAuthService {
        DataAuthService { handle }
    }

    async fn run<C: AuthCall>(
        &self,
        metadata: &MetadataMap,
        call: C,
    ) -> Result<(Option<ResponseHeader>, C::Reply), Status> {
        auth::run(&self.handle, metadata, call).await
    }
}

#[tonic::async_trait]
impl DataAuth for DataAuthService {
    async fn role_grant_data(
        &self,
        request: Request<wire::RoleGrantDataRequest>,
    ) -> Result<Response<wire::RoleGrantDataResponse>, Status> {
        let (metadata, _, wire::RoleGrantDataRequest { role, permission }) = request.into_parts();
        let permission = parse_permission(permission).map_err(refusal::render)?;
        let (header, _) = self.run(&metadata, AuthCommand::RoleGrantData { role, permission }).await?;
        Ok(Response::new(wire::RoleGrantDataResponse { header }))
    }

    async fn role_revoke_data(
        &self,
        request: Request<wire::RoleRevokeDataRequest>,
    ) -> Result<Response<wire::RoleRevokeDataResponse>, Status> {
        let (metadata, _, wire::RoleRevokeDataRequest { role, namespace, prefix }) = request.into_parts();
        let range = DataRange { namespace, prefix };
        range.validate().map_err(refusal::render)?;
        let (header, _) = self.run(&metadata, AuthCommand::RoleRevokeData { role, range }).await?;
        Ok(Response::new(wire::RoleRevokeDataResponse { header }))
    }

    async fn role_get_data(
        &self,
        request: Request<wire::RoleGetDataRequest>,
    ) -> Result<Response<wire::RoleGetDataResponse>, Status> {
        let (metadata, _, wire::RoleGetDataRequest { role }) = request.into_parts();
        let (header, list) = self.run(&metadata, DataPermissionsOfRole(role)).await?;
        let permissions = list.into_iter().map(render_permission).collect();
        Ok(Response::new(wire::RoleGetDataResponse { header, permissions }))
    }
}

fn parse_permission(given: Option<wire::DataPermission>) -> Result<DataPermission, Code> {
    let wire::DataPermission { access, namespace, prefix } = given.ok_or(Code::PermissionNotGiven)?;
    let access = u8::try_from(access).ok().and_then(DataAccess::from_number);
    let range = DataRange { namespace, prefix };
    range.validate()?;
    Ok(DataPermission { range, access: access.ok_or(Code::PermissionNotGiven)? })
}

fn render_permission(permission: DataPermission) -> wire::DataPermission {
    let DataPermission { range: DataRange { namespace, prefix }, access } = permission;
    wire::DataPermission { access: i32::from(access as u8), namespace, prefix }
}
