//! Requests about users, roles and permissions, and how they are sent to a server.
//! Names and ranges are few, so that they collide. What COMPAT.md names as a deviation is not drawn.

use crate::compare::{ComparableAnswer, essence};
use crate::generator::RequestGenerator;
use crate::side::{inner, with};
use bytes::Bytes;
use proto::authpb::permission::Type;
use proto::authpb::{Permission, UserAddOptions};
use proto::etcdserverpb::auth_client::AuthClient;
use proto::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGetRequest,
    AuthRoleGrantPermissionRequest, AuthRoleListRequest, AuthRoleRevokePermissionRequest, AuthStatusRequest,
    AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGetRequest,
    AuthUserGrantRoleRequest, AuthUserListRequest, AuthUserRevokeRoleRequest, AuthenticateRequest,
};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

pub const ROOT: &str = "root";
/// Users that can log in, at one time or another; `root` always can.
pub const USERS: [&str; 4] = [ROOT, "ann", "ben", "cay"];
const ROLES: [&str; 3] = ["r0", "r1", "r2"];
/// Of ranges that begin alike etcd may list one twice (deviation 39), so none do.
const RANGES: [(&str, &str); 5] = [("k0", ""), ("k1", "k3"), ("k2", ""), ("k3", "\0"), ("\0", "k2")];

#[derive(Clone, Debug)]
pub enum AuthCall {
    Enable,
    Disable,
    Status,
    Authenticate(AuthenticateRequest),
    UserAdd(AuthUserAddRequest),
    UserGet(AuthUserGetRequest),
    UserList,
    UserDelete(AuthUserDeleteRequest),
    UserChangePassword(AuthUserChangePasswordRequest),
    UserGrantRole(AuthUserGrantRoleRequest),
    UserRevokeRole(AuthUserRevokeRoleRequest),
    RoleAdd(AuthRoleAddRequest),
    RoleGet(AuthRoleGetRequest),
    RoleList,
    RoleDelete(AuthRoleDeleteRequest),
    RoleGrantPermission(AuthRoleGrantPermissionRequest),
    RoleRevokePermission(AuthRoleRevokePermissionRequest),
}

pub async fn answer(
    client: &mut AuthClient<Channel>,
    token: &Option<MetadataValue<Ascii>>,
    ask: AuthCall,
) -> ComparableAnswer {
    macro_rules! ask {
        ($call:ident $request:expr) => {
            essence(inner(client.$call(with(token, $request)).await))
        };
    }
    match ask {
        AuthCall::Enable => ask!(auth_enable AuthEnableRequest {}),
        AuthCall::Disable => ask!(auth_disable AuthDisableRequest {}),
        AuthCall::Status => ask!(auth_status AuthStatusRequest {}),
        AuthCall::Authenticate(request) => ask!(authenticate request),
        AuthCall::UserAdd(request) => ask!(user_add request),
        AuthCall::UserGet(request) => ask!(user_get request),
        AuthCall::UserList => ask!(user_list AuthUserListRequest {}),
        AuthCall::UserDelete(request) => ask!(user_delete request),
        AuthCall::UserChangePassword(request) => ask!(user_change_password request),
        AuthCall::UserGrantRole(request) => ask!(user_grant_role request),
        AuthCall::UserRevokeRole(request) => ask!(user_revoke_role request),
        AuthCall::RoleAdd(request) => ask!(role_add request),
        AuthCall::RoleGet(request) => ask!(role_get request),
        AuthCall::RoleList => ask!(role_list AuthRoleListRequest {}),
        AuthCall::RoleDelete(request) => ask!(role_delete request),
        AuthCall::RoleGrantPermission(request) => ask!(role_grant_permission request),
        AuthCall::RoleRevokePermission(request) => ask!(role_revoke_permission request),
    }
}

pub fn grant_role(user: &str, role: &str) -> AuthCall {
    AuthCall::UserGrantRole(AuthUserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() })
}

pub fn add_user(name: String, password: &str, no_password: bool) -> AuthCall {
    // Clients of today send the password beside its hash, which the server makes.
    let options = Some(UserAddOptions { no_password });
    let password = password.to_owned();
    AuthCall::UserAdd(AuthUserAddRequest { name, password, options })
}

impl RequestGenerator {
    pub fn auth(&mut self) -> AuthCall {
        let (user, role) = (self.user(), self.role());
        match self.below(40) {
            0 => AuthCall::Disable,
            1..=2 => AuthCall::Enable,
            3 => AuthCall::UserList,
            4 => AuthCall::RoleList,
            5..=6 => AuthCall::UserGet(AuthUserGetRequest { name: user }),
            // etcd 3.5 shows what was granted to the role root, newer ones and we what it may do (deviation 39).
            7..=8 if role != ROOT => AuthCall::RoleGet(AuthRoleGetRequest { role }),
            7..=8 => AuthCall::RoleList,
            9..=13 => {
                let (password, without) = (self.password(), self.one_in(8));
                add_user(user, password, without)
            }
            14..=15 => AuthCall::UserDelete(AuthUserDeleteRequest { name: user }),
            16 => {
                let password = self.password().to_owned();
                AuthCall::UserChangePassword(AuthUserChangePasswordRequest { name: user, password })
            }
            17..=23 => AuthCall::UserGrantRole(AuthUserGrantRoleRequest { user, role }),
            24..=26 => AuthCall::UserRevokeRole(AuthUserRevokeRoleRequest { name: user, role }),
            27..=29 => AuthCall::RoleAdd(AuthRoleAddRequest { name: role }),
            30 => AuthCall::RoleDelete(AuthRoleDeleteRequest { role }),
            31..=36 => {
                let perm = (!self.one_in(20)).then(|| self.permission());
                AuthCall::RoleGrantPermission(AuthRoleGrantPermissionRequest { name: role, perm })
            }
            _ => {
                let Permission { key, range_end, .. } = self.permission();
                AuthCall::RoleRevokePermission(AuthRoleRevokePermissionRequest { role, key, range_end })
            }
        }
    }

    pub fn login(&mut self) -> AuthenticateRequest {
        let name = self.user();
        let password = if name == ROOT && !self.one_in(10) { ROOT } else { self.password() };
        AuthenticateRequest { name, password: password.to_owned() }
    }

    fn user(&mut self) -> String {
        match self.below(30) {
            0 => String::new(),
            1 => "unknown".to_owned(),
            n => USERS[n as usize % USERS.len()].to_owned(),
        }
    }

    fn role(&mut self) -> String {
        match self.below(30) {
            0 => String::new(),
            1 => "none".to_owned(),
            2..=3 => ROOT.to_owned(),
            n => ROLES[n as usize % ROLES.len()].to_owned(),
        }
    }

    fn password(&mut self) -> &'static str {
        if self.one_in(10) { "wrong" } else { "right" }
    }

    fn permission(&mut self) -> Permission {
        let (key, end) = RANGES[self.below(RANGES.len() as u64) as usize];
        let perm_type = [Type::Read, Type::Write, Type::Readwrite][self.below(3) as usize];
        Permission {
            perm_type: perm_type as i32,
            key: Bytes::from_static(key.as_bytes()),
            range_end: Bytes::from_static(end.as_bytes()),
        }
    }
}
