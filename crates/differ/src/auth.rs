//! Requests about users, roles and permissions, and how they are sent to a server.
//! Names and ranges are few, so that they collide. What COMPAT.md names as a deviation is not drawn.

use crate::compare::{Essence, essence};
use crate::dice::Dice;
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
pub enum AuthAsk {
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
    ask: AuthAsk,
) -> Essence {
    macro_rules! ask {
        ($call:ident $request:expr) => {
            essence(inner(client.$call(with(token, $request)).await))
        };
    }
    match ask {
        AuthAsk::Enable => ask!(auth_enable AuthEnableRequest {}),
        AuthAsk::Disable => ask!(auth_disable AuthDisableRequest {}),
        AuthAsk::Status => ask!(auth_status AuthStatusRequest {}),
        AuthAsk::Authenticate(request) => ask!(authenticate request),
        AuthAsk::UserAdd(request) => ask!(user_add request),
        AuthAsk::UserGet(request) => ask!(user_get request),
        AuthAsk::UserList => ask!(user_list AuthUserListRequest {}),
        AuthAsk::UserDelete(request) => ask!(user_delete request),
        AuthAsk::UserChangePassword(request) => ask!(user_change_password request),
        AuthAsk::UserGrantRole(request) => ask!(user_grant_role request),
        AuthAsk::UserRevokeRole(request) => ask!(user_revoke_role request),
        AuthAsk::RoleAdd(request) => ask!(role_add request),
        AuthAsk::RoleGet(request) => ask!(role_get request),
        AuthAsk::RoleList => ask!(role_list AuthRoleListRequest {}),
        AuthAsk::RoleDelete(request) => ask!(role_delete request),
        AuthAsk::RoleGrantPermission(request) => ask!(role_grant_permission request),
        AuthAsk::RoleRevokePermission(request) => ask!(role_revoke_permission request),
    }
}

pub fn grant_role(user: &str, role: &str) -> AuthAsk {
    AuthAsk::UserGrantRole(AuthUserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() })
}

pub fn add_user(name: String, password: &str, no_password: bool) -> AuthAsk {
    // Clients of today send the password beside its hash, which the server makes.
    let options = Some(UserAddOptions { no_password });
    let password = password.to_owned();
    AuthAsk::UserAdd(AuthUserAddRequest { name, password, options })
}

impl Dice {
    pub fn auth(&mut self) -> AuthAsk {
        let (user, role) = (self.user(), self.role());
        match self.below(40) {
            0 => AuthAsk::Disable,
            1..=2 => AuthAsk::Enable,
            3 => AuthAsk::UserList,
            4 => AuthAsk::RoleList,
            5..=6 => AuthAsk::UserGet(AuthUserGetRequest { name: user }),
            // etcd 3.5 shows what was granted to the role root, newer ones and we what it may do (deviation 39).
            7..=8 if role != ROOT => AuthAsk::RoleGet(AuthRoleGetRequest { role }),
            7..=8 => AuthAsk::RoleList,
            9..=13 => {
                let (password, without) = (self.password(), self.one_in(8));
                add_user(user, password, without)
            }
            14..=15 => AuthAsk::UserDelete(AuthUserDeleteRequest { name: user }),
            16 => {
                let password = self.password().to_owned();
                AuthAsk::UserChangePassword(AuthUserChangePasswordRequest { name: user, password })
            }
            17..=23 => AuthAsk::UserGrantRole(AuthUserGrantRoleRequest { user, role }),
            24..=26 => AuthAsk::UserRevokeRole(AuthUserRevokeRoleRequest { name: user, role }),
            27..=29 => AuthAsk::RoleAdd(AuthRoleAddRequest { name: role }),
            30 => AuthAsk::RoleDelete(AuthRoleDeleteRequest { role }),
            31..=36 => {
                let perm = (!self.one_in(20)).then(|| self.permission());
                AuthAsk::RoleGrantPermission(AuthRoleGrantPermissionRequest { name: role, perm })
            }
            _ => {
                let Permission { key, range_end, .. } = self.permission();
                AuthAsk::RoleRevokePermission(AuthRoleRevokePermissionRequest { role, key, range_end })
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
            1 => "nobody".to_owned(),
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
