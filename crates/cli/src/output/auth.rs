//! Users, roles and permissions as etcdctl prints them, simple or as JSON.

use super::{Printer, json};
use crate::client::Format;
use base::key_range::prefix_end;
use proto::althing::auth::v1::DataPermission;
use proto::althing::auth::v1::data_permission::Access;
use proto::authpb::Permission;
use proto::authpb::permission::Type;
use proto::etcdserverpb::{AuthRoleGetResponse, AuthStatusResponse, AuthUserGetResponse, ResponseHeader};

impl Printer {
    /// A sentence about what was done, because the response has none.
    pub fn done(&self, header: Option<ResponseHeader>, told: &str) -> Vec<u8> {
        match self.format {
            Format::Json => json::line(&json::names(header, "", &[])).into_bytes(),
            _ => format!("{told}\n").into_bytes(),
        }
    }

    pub fn auth_status(&self, status: &AuthStatusResponse) -> Vec<u8> {
        let AuthStatusResponse { header, enabled, auth_revision } = status;
        match self.format {
            Format::Json => json::line(&json::auth_status(*header, *enabled, *auth_revision)),
            _ => format!("Authentication Status: {enabled}\nAuthRevision: {auth_revision}\n"),
        }
        .into_bytes()
    }

    pub fn names(&self, header: Option<ResponseHeader>, field: &str, names: &[String]) -> Vec<u8> {
        match self.format {
            Format::Json => json::line(&json::names(header, field, names)),
            _ => names.iter().map(|name| format!("{name}\n")).collect(),
        }
        .into_bytes()
    }

    pub fn user(&self, name: &str, user: &AuthUserGetResponse) -> Vec<u8> {
        match self.format {
            Format::Json => json::line(&json::names(user.header, "roles", &user.roles)),
            _ => {
                let roles: String = user.roles.iter().map(|role| format!(" {role}")).collect();
                format!("User: {name}\nRoles:{roles}\n")
            }
        }
        .into_bytes()
    }

    /// Permissions on data are printed where there are some, so that other roles are printed as by etcdctl.
    pub fn role(&self, name: &str, role: &AuthRoleGetResponse, data: &[DataPermission]) -> Vec<u8> {
        if self.format == Format::Json {
            return json::line(&json::permissions(role.header, &role.perm, data)).into_bytes();
        }
        let permitting = |one: Type| {
            let fits = |held: &&Permission| held.perm_type() == one || held.perm_type() == Type::Readwrite;
            role.perm.iter().filter(fits).map(describe).collect::<String>()
        };
        let (read, write) = (permitting(Type::Read), permitting(Type::Write));
        let mut text = format!("Role {name}\nKV Read:\n{read}KV Write:\n{write}");
        if !data.is_empty() {
            text.push_str("Data:\n");
            data.iter().for_each(|permission| text.push_str(&describe_data(permission)));
        }
        text.into_bytes()
    }
}

fn describe_data(permission: &DataPermission) -> String {
    let access = match permission.access() {
        Access::Read => "read",
        Access::Write => "write",
        Access::Readwrite => "readwrite",
        Access::Admin => "admin",
    };
    format!("\t{access} {}/{}\n", permission.namespace, String::from_utf8_lossy(&permission.prefix))
}

fn describe(permission: &Permission) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (key, end) = (text(&permission.key), text(&permission.range_end));
    let range = match &permission.range_end[..] {
        [] => return format!("\t{key}\n"),
        [0] => format!("\t[{key}, <open ended>"),
        _ => format!("\t[{key}, {end})"),
    };
    let is_prefix = !key.is_empty() && prefix_end(&permission.key) == permission.range_end;
    if is_prefix { format!("{range} (prefix {key})\n") } else { format!("{range}\n") }
}
