//! `althing role`: permissions on keys, under a name that users are granted.

use super::{Error, Options, RangeForm, With, bytes_of, print, range_of};
use crate::output::Printer;
use clap::{Args, Subcommand, ValueEnum};
use proto::althing::auth::v1::data_permission::Access as OnData;
use proto::althing::auth::v1::{
    DataPermission, RoleGetDataRequest, RoleGrantDataRequest, RoleRevokeDataRequest,
};
use proto::authpb::Permission;
use proto::authpb::permission::Type;
use proto::etcdserverpb::{
    AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGetRequest, AuthRoleGrantPermissionRequest,
    AuthRoleListRequest, AuthRoleRevokePermissionRequest,
};
use std::ffi::OsString;

const GRANT_EXAMPLE: &str = "\
Example:
  althing role grant-permission clerk readwrite /orders/ --prefix
  althing role grant-permission clerk read a c           from a up to c
  althing role grant-permission clerk read x --from-key  everything from x on
  althing role grant-permission clerk readwrite --data shop/orders/   keys of namespace shop that begin with orders/
  althing role grant-permission clerk admin --data shop  all of namespace shop, and its settings";
const REVOKE_EXAMPLE: &str = "\
Example:
  althing role revoke-permission clerk /orders/ --prefix
  althing role revoke-permission clerk --data shop/orders/";

#[derive(Subcommand)]
pub enum Role {
    /// Adds a role, which permits nothing yet
    Add(With<NameArg>),
    /// Deletes a role, and revokes it from all users
    Delete(With<NameArg>),
    /// Prints the permissions of a role
    Get(With<NameArg>),
    /// Lists all roles
    List(Options),
    /// Grants a permission on a key or a range of keys, or on data of a namespace
    #[command(after_help = GRANT_EXAMPLE)]
    GrantPermission(With<Grant>),
    /// Revokes the permission on exactly these keys
    #[command(after_help = REVOKE_EXAMPLE)]
    RevokePermission(With<Revoke>),
}

#[derive(Args)]
pub struct NameArg {
    #[arg(value_name = "ROLE")]
    name: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Access {
    Read,
    Write,
    Readwrite,
    /// Reads, writes and settings of a namespace; with --data only
    Admin,
}

impl Access {
    fn on_data(self) -> OnData {
        match self {
            Access::Read => OnData::Read,
            Access::Write => OnData::Write,
            Access::Readwrite => OnData::Readwrite,
            Access::Admin => OnData::Admin,
        }
    }
}

#[derive(Args)]
pub struct Grant {
    #[arg(value_name = "ROLE")]
    name: String,
    #[arg(value_enum)]
    access: Access,
    #[command(flatten)]
    keys: Keys,
}

#[derive(Args)]
pub struct Revoke {
    #[arg(value_name = "ROLE")]
    name: String,
    #[command(flatten)]
    keys: Keys,
}

#[derive(Args)]
struct Keys {
    #[arg(required_unless_present = "data", conflicts_with = "data")]
    key: Option<OsString>,
    /// Up to, and without, this key
    range_end: Option<OsString>,
    /// All keys that begin so
    #[arg(long)]
    prefix: bool,
    /// All keys from this one on
    #[arg(long)]
    from_key: bool,
    /// Keys of the data plane: a namespace (`*` for all), and a prefix behind a slash
    #[arg(long, value_name = "NAMESPACE[/PREFIX]", conflicts_with_all = ["range_end", "prefix", "from_key"])]
    data: Option<String>,
}

impl Keys {
    fn range(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let key = self.key.as_ref().ok_or_else(|| Error::Usage("a key is missing".to_owned()))?;
        range_of(key, self.range_end.as_ref(), RangeForm::of(self.prefix, self.from_key)?)
    }

    /// As etcdctl names them.
    fn describe(&self, end: &[u8]) -> String {
        let key = self.key.as_ref().map(bytes_of).unwrap_or_default();
        let key = String::from_utf8_lossy(&key).into_owned();
        match end {
            [] => format!("Permission of key {key}"),
            [0] => format!("Permission of range [{key}, <open ended>"),
            end => format!("Permission of range [{key}, {})", String::from_utf8_lossy(end)),
        }
    }

    /// The namespace and the prefix of `--data`.
    fn data(&self) -> Option<(String, Vec<u8>)> {
        let data = self.data.as_deref()?;
        let (namespace, prefix) = data.split_once('/').unwrap_or((data, ""));
        Some((namespace.to_owned(), prefix.as_bytes().to_vec()))
    }
}

impl Role {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Role::Add(With { verb, options }) => {
                let done = options.client()?.role_add(AuthRoleAddRequest { name: verb.name.clone() }).await?;
                print(&Printer::new(options).done(done.header, &format!("Role {} created", verb.name)))
            }
            Role::Delete(With { verb, options }) => {
                let request = AuthRoleDeleteRequest { role: verb.name.clone() };
                let done = options.client()?.role_delete(request).await?;
                print(&Printer::new(options).done(done.header, &format!("Role {} deleted", verb.name)))
            }
            Role::Get(With { verb, options }) => {
                let client = options.client()?;
                let role = client.role_get(AuthRoleGetRequest { role: verb.name.clone() }).await?;
                let data = match client.role_get_data(RoleGetDataRequest { role: verb.name.clone() }).await {
                    Ok(data) => data.permissions,
                    // etcd has no data plane.
                    Err(error) if error.is_unimplemented() => Vec::new(),
                    Err(error) => return Err(error.into()),
                };
                print(&Printer::new(options).role(&verb.name, &role, &data))
            }
            Role::List(options) => {
                let list = options.client()?.role_list(AuthRoleListRequest {}).await?;
                print(&Printer::new(options).names(list.header, "roles", &list.roles))
            }
            Role::GrantPermission(With { verb, options }) => {
                if let Some((namespace, prefix)) = verb.keys.data() {
                    let access = verb.access.on_data() as i32;
                    let permission = Some(DataPermission { access, namespace, prefix: prefix.into() });
                    let request = RoleGrantDataRequest { role: verb.name.clone(), permission };
                    let done = options.client()?.role_grant_data(request).await?;
                    return print(
                        &Printer::new(options).done(done.header, &format!("Role {} updated", verb.name)),
                    );
                }
                let (key, range_end) = verb.keys.range()?;
                let perm_type = match verb.access {
                    Access::Read => Type::Read,
                    Access::Write => Type::Write,
                    Access::Readwrite => Type::Readwrite,
                    Access::Admin => {
                        let problem = "admin is a permission on data: use --data NAMESPACE";
                        return Err(Error::Usage(problem.to_owned()));
                    }
                } as i32;
                let perm = Some(Permission { perm_type, key: key.into(), range_end: range_end.into() });
                let request = AuthRoleGrantPermissionRequest { name: verb.name.clone(), perm };
                let done = options.client()?.role_grant_permission(request).await?;
                print(&Printer::new(options).done(done.header, &format!("Role {} updated", verb.name)))
            }
            Role::RevokePermission(With { verb, options }) => {
                if let Some((namespace, prefix)) = verb.keys.data() {
                    let told = format!(
                        "Permission of data {namespace}/{} is revoked from role {}",
                        String::from_utf8_lossy(&prefix),
                        verb.name
                    );
                    let (role, prefix) = (verb.name.clone(), prefix.into());
                    let request = RoleRevokeDataRequest { role, namespace, prefix };
                    let done = options.client()?.role_revoke_data(request).await?;
                    return print(&Printer::new(options).done(done.header, &told));
                }
                let (key, range_end) = verb.keys.range()?;
                let told = format!("{} is revoked from role {}", verb.keys.describe(&range_end), verb.name);
                let (role, key, range_end) = (verb.name.clone(), key.into(), range_end.into());
                let request = AuthRoleRevokePermissionRequest { role, key, range_end };
                let done = options.client()?.role_revoke_permission(request).await?;
                print(&Printer::new(options).done(done.header, &told))
            }
        }
    }
}
