//! The Auth service: etcd's messages in, commands about users, roles and permissions out.
//! Passwords are hashed or compared here, before anything is proposed, and go no further. Who may ask for what is
//! decided where the commands are applied.

use crate::audit;
use crate::grpc::{call_context, refusal};
use base::{Code, KeyRange, Revision};
use coord::call::{
    AuthCall, AuthNames, AuthStatus, AuthStatusQuery, AuthToken, ListRoles, ListUsers, PermissionsOfRole,
    RolesOfUser, TypedCommand,
};
use coord::{Access, AuthCommand, DataPermission, Permission};
use proto::authpb;
use proto::etcdserverpb::auth_server::Auth;
use proto::etcdserverpb::{
    AuthDisableRequest, AuthDisableResponse, AuthEnableRequest, AuthEnableResponse, AuthRoleAddRequest,
    AuthRoleAddResponse, AuthRoleDeleteRequest, AuthRoleDeleteResponse, AuthRoleGetRequest,
    AuthRoleGetResponse, AuthRoleGrantPermissionRequest, AuthRoleGrantPermissionResponse,
    AuthRoleListRequest, AuthRoleListResponse, AuthRoleRevokePermissionRequest,
    AuthRoleRevokePermissionResponse, AuthStatusRequest, AuthStatusResponse, AuthUserAddRequest,
    AuthUserAddResponse, AuthUserChangePasswordRequest, AuthUserChangePasswordResponse,
    AuthUserDeleteRequest, AuthUserDeleteResponse, AuthUserGetRequest, AuthUserGetResponse,
    AuthUserGrantRoleRequest, AuthUserGrantRoleResponse, AuthUserListRequest, AuthUserListResponse,
    AuthUserRevokeRoleRequest, AuthUserRevokeRoleResponse, AuthenticateRequest, AuthenticateResponse,
    ResponseHeader,
};
use server::{Handle, IdentifiedBy};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

pub struct AuthService {
    handle: Handle,
}

/// Admits the caller, runs the command, and returns its reply with a header.
pub async fn run<C: AuthCall>(
    handle: &Handle,
    metadata: &MetadataMap,
    call: C,
) -> Result<(Option<ResponseHeader>, C::Reply), Status> {
    let call = TypedCommand::of(call);
    note_command(call.command());
    let admitted = call_context::admit(handle, metadata).await?;
    let reply = admitted.auth().run(call).await.map_err(refusal::render)?;
    Ok((Some(call_context::header(handle, reply.revision)), reply.body))
}

impl AuthService {
    pub fn new(handle: Handle) -> AuthService {
        AuthService { handle }
    }

    async fn run<C: AuthCall>(
        &self,
        metadata: &MetadataMap,
        call: C,
    ) -> Result<(Option<ResponseHeader>, C::Reply), Status> {
        run(&self.handle, metadata, call).await
    }

    /// For calls that are answered by a header alone.
    async fn change(
        &self,
        metadata: &MetadataMap,
        command: AuthCommand,
    ) -> Result<Option<ResponseHeader>, Status> {
        self.run(metadata, command).await.map(|(header, ())| header)
    }

    fn header(&self, revision: Revision) -> Option<ResponseHeader> {
        Some(call_context::header(&self.handle, revision))
    }

    /// Only for callers that may set one: hashing takes long.
    async fn hash(&self, metadata: &MetadataMap, password: String) -> Result<bytes::Bytes, Status> {
        let handle = self.admit_root(metadata).await?;
        if password.is_empty() {
            return Err(refusal::render(Code::PasswordEmpty));
        }
        handle.auth().hash_password(password).await.map_err(refusal::render)
    }

    async fn admit_root(&self, metadata: &MetadataMap) -> Result<Handle, Status> {
        let handle = call_context::admit(&self.handle, metadata).await?;
        handle.auth().permit(server::RequiredAccess::Root).await.map_err(refusal::render)?;
        Ok(handle)
    }
}

#[tonic::async_trait]
impl Auth for AuthService {
    async fn auth_enable(
        &self,
        request: Request<AuthEnableRequest>,
    ) -> Result<Response<AuthEnableResponse>, Status> {
        let header = self.change(request.metadata(), AuthCommand::Enable).await?;
        Ok(Response::new(AuthEnableResponse { header }))
    }

    async fn auth_disable(
        &self,
        request: Request<AuthDisableRequest>,
    ) -> Result<Response<AuthDisableResponse>, Status> {
        let header = self.change(request.metadata(), AuthCommand::Disable).await?;
        Ok(Response::new(AuthDisableResponse { header }))
    }

    async fn auth_status(
        &self,
        request: Request<AuthStatusRequest>,
    ) -> Result<Response<AuthStatusResponse>, Status> {
        let (header, status) = self.run(request.metadata(), AuthStatusQuery).await?;
        let AuthStatus { enabled, revision } = status;
        Ok(Response::new(AuthStatusResponse { header, enabled, auth_revision: revision }))
    }

    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let address = call_context::address(request.extensions());
        let AuthenticateRequest { name, password } = request.into_inner();
        audit::note_target("user", &name);
        let login = self.handle.auth().authenticate_from(address, name.clone(), password);
        let reply = login.await.map_err(refusal::render)?;
        audit::note(|entry| {
            entry.user = Some(name.into());
            entry.identified_by = Some(IdentifiedBy::Password);
        });
        let AuthToken(token) = reply.body;
        Ok(Response::new(AuthenticateResponse { header: self.header(reply.revision), token }))
    }

    async fn user_add(
        &self,
        request: Request<AuthUserAddRequest>,
    ) -> Result<Response<AuthUserAddResponse>, Status> {
        let (metadata, _, AuthUserAddRequest { name: user, password, options }) = request.into_parts();
        audit::note_target("user", &user);
        let password = if options.is_some_and(|options| options.no_password) {
            None
        } else {
            Some(self.hash(&metadata, password).await?)
        };
        let header = self.change(&metadata, AuthCommand::UserAdd { user, password }).await?;
        Ok(Response::new(AuthUserAddResponse { header }))
    }

    async fn user_get(
        &self,
        request: Request<AuthUserGetRequest>,
    ) -> Result<Response<AuthUserGetResponse>, Status> {
        let (metadata, _, AuthUserGetRequest { name: user }) = request.into_parts();
        let (header, AuthNames(roles)) = self.run(&metadata, RolesOfUser(user)).await?;
        Ok(Response::new(AuthUserGetResponse { header, roles }))
    }

    async fn user_list(
        &self,
        request: Request<AuthUserListRequest>,
    ) -> Result<Response<AuthUserListResponse>, Status> {
        let (header, AuthNames(users)) = self.run(request.metadata(), ListUsers).await?;
        Ok(Response::new(AuthUserListResponse { header, users }))
    }

    async fn user_delete(
        &self,
        request: Request<AuthUserDeleteRequest>,
    ) -> Result<Response<AuthUserDeleteResponse>, Status> {
        let (metadata, _, AuthUserDeleteRequest { name: user }) = request.into_parts();
        let header = self.change(&metadata, AuthCommand::UserDelete { user }).await?;
        Ok(Response::new(AuthUserDeleteResponse { header }))
    }

    async fn user_change_password(
        &self,
        request: Request<AuthUserChangePasswordRequest>,
    ) -> Result<Response<AuthUserChangePasswordResponse>, Status> {
        let (metadata, _, AuthUserChangePasswordRequest { name: user, password }) = request.into_parts();
        audit::note_target("user", &user);
        let password = self.hash(&metadata, password).await?;
        let header = self.change(&metadata, AuthCommand::UserChangePassword { user, password }).await?;
        Ok(Response::new(AuthUserChangePasswordResponse { header }))
    }

    async fn user_grant_role(
        &self,
        request: Request<AuthUserGrantRoleRequest>,
    ) -> Result<Response<AuthUserGrantRoleResponse>, Status> {
        let (metadata, _, AuthUserGrantRoleRequest { user, role }) = request.into_parts();
        let header = self.change(&metadata, AuthCommand::UserGrantRole { user, role }).await?;
        Ok(Response::new(AuthUserGrantRoleResponse { header }))
    }

    async fn user_revoke_role(
        &self,
        request: Request<AuthUserRevokeRoleRequest>,
    ) -> Result<Response<AuthUserRevokeRoleResponse>, Status> {
        let (metadata, _, AuthUserRevokeRoleRequest { name: user, role }) = request.into_parts();
        let header = self.change(&metadata, AuthCommand::UserRevokeRole { user, role }).await?;
        Ok(Response::new(AuthUserRevokeRoleResponse { header }))
    }

    async fn role_add(
        &self,
        request: Request<AuthRoleAddRequest>,
    ) -> Result<Response<AuthRoleAddResponse>, Status> {
        let (metadata, _, AuthRoleAddRequest { name: role }) = request.into_parts();
        let header = self.change(&metadata, AuthCommand::RoleAdd { role }).await?;
        Ok(Response::new(AuthRoleAddResponse { header }))
    }

    async fn role_get(
        &self,
        request: Request<AuthRoleGetRequest>,
    ) -> Result<Response<AuthRoleGetResponse>, Status> {
        let (metadata, _, AuthRoleGetRequest { role }) = request.into_parts();
        let (header, list) = self.run(&metadata, PermissionsOfRole(role)).await?;
        let perm = list.into_iter().map(render_permission).collect();
        Ok(Response::new(AuthRoleGetResponse { header, perm }))
    }

    async fn role_list(
        &self,
        request: Request<AuthRoleListRequest>,
    ) -> Result<Response<AuthRoleListResponse>, Status> {
        let (header, AuthNames(roles)) = self.run(request.metadata(), ListRoles).await?;
        Ok(Response::new(AuthRoleListResponse { header, roles }))
    }

    async fn role_delete(
        &self,
        request: Request<AuthRoleDeleteRequest>,
    ) -> Result<Response<AuthRoleDeleteResponse>, Status> {
        let (metadata, _, AuthRoleDeleteRequest { role }) = request.into_parts();
        let header = self.change(&metadata, AuthCommand::RoleDelete { role }).await?;
        Ok(Response::new(AuthRoleDeleteResponse { header }))
    }

    async fn role_grant_permission(
        &self,
        request: Request<AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<AuthRoleGrantPermissionResponse>, Status> {
        let (metadata, _, AuthRoleGrantPermissionRequest { name: role, perm }) = request.into_parts();
        audit::note_target("role", &role);
        let permission = match parse_permission(perm) {
            Ok(permission) => permission,
            // A caller that may not grant any learns that first, as in etcd.
            Err(code) => {
                self.admit_root(&metadata).await?;
                return Err(refusal::render(code));
            }
        };
        let header = self.change(&metadata, AuthCommand::RoleGrantPermission { role, permission }).await?;
        Ok(Response::new(AuthRoleGrantPermissionResponse { header }))
    }

    async fn role_revoke_permission(
        &self,
        request: Request<AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<AuthRoleRevokePermissionResponse>, Status> {
        let (metadata, _, AuthRoleRevokePermissionRequest { role, key, range_end }) = request.into_parts();
        let keys = KeyRange::from_wire(key, range_end);
        let header = self.change(&metadata, AuthCommand::RoleRevokePermission { role, keys }).await?;
        Ok(Response::new(AuthRoleRevokePermissionResponse { header }))
    }
}

/// Which users and roles a command is about, and the keys of a permission.
pub fn note_command(command: &AuthCommand) {
    audit::note(|entry| match command {
        AuthCommand::Enable | AuthCommand::Disable | AuthCommand::Status => {}
        AuthCommand::UserList | AuthCommand::RoleList => {}
        AuthCommand::Authenticate { user, .. }
        | AuthCommand::UserAdd { user, .. }
        | AuthCommand::UserGet { user }
        | AuthCommand::UserDelete { user }
        | AuthCommand::UserChangePassword { user, .. } => entry.add_target("user", user),
        AuthCommand::UserGrantRole { user, role } | AuthCommand::UserRevokeRole { user, role } => {
            entry.add_target("user", user);
            entry.add_target("role", role);
        }
        AuthCommand::RoleAdd { role }
        | AuthCommand::RoleGet { role }
        | AuthCommand::RoleDelete { role }
        | AuthCommand::RoleData { role } => entry.add_target("role", role),
        AuthCommand::RoleGrantPermission { role, permission } => {
            entry.add_target("role", role);
            entry.add_range(&permission.keys);
        }
        AuthCommand::RoleRevokePermission { role, keys } => {
            entry.add_target("role", role);
            entry.add_range(keys);
        }
        AuthCommand::RoleGrantData { role, permission: DataPermission { range, .. } }
        | AuthCommand::RoleRevokeData { role, range } => {
            entry.add_target("role", role);
            entry.namespace = Some(range.namespace.clone());
            entry.add_range(&range.keys());
        }
    });
}

/// A kind that no version of the API knows permits nothing that we could name.
fn parse_permission(wire: Option<authpb::Permission>) -> Result<Permission, Code> {
    let authpb::Permission { perm_type, key, range_end } = wire.ok_or(Code::PermissionNotGiven)?;
    let access =
        u8::try_from(perm_type).ok().and_then(Access::from_number).ok_or(Code::PermissionNotGiven)?;
    Ok(Permission { keys: KeyRange::from_wire(key, range_end), access })
}

fn render_permission(permission: Permission) -> authpb::Permission {
    let range_end = permission.keys.wire_end();
    authpb::Permission { perm_type: permission.access as i32, key: permission.keys.start, range_end }
}
