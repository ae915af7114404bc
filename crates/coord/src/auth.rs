//! Users, roles and permissions, replicated like the keys but not stored as keys. Commands change or list them, and
//! every change raises the auth revision; `rights` returns what a caller may do now. A request that was admitted
//! under an older auth revision has none, so a revocation applies to everything that comes later in the log. Rows in
//! docs/formats/rows.md.

mod command;
mod data;
mod etcd;
mod grants;
mod intervals;
mod permission;
mod policy;
mod required;
mod rows;
#[cfg(test)]
mod tests;

pub use command::AuthCommand;
pub use data::{DataAccess, DataPermission, DataRange, EVERY_NAMESPACE};
pub use intervals::Intervals;
pub use permission::{Access, Permission};
pub use policy::{POLICY, Policy, PolicyUser, TokenKey};
pub(crate) use required::check_command;
pub use required::{LeaseAccess, check_leases, check_request};

use crate::mutant::Mutant;
use base::limits::{AUTH_NAME_BYTES_MAX, AUTH_NAMES_MAX, AUTH_PERMISSIONS_MAX};
use base::mutant::planted;
use base::{Code, FormatLevel, Index, KeyRange};
use bytes::Bytes;
use grants::Grants;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The user that must exist before auth is enabled, and the role that may do everything.
pub const ROOT: &str = "root";

/// The caller of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// A client without a user.
    #[default]
    Anonymous,
    /// A client that a token stands for, admitted when the auth revision was this.
    User { name: Arc<str>, revision: u64 },
    /// The member itself, which needs no permission.
    Member,
}

/// The reply to a command about auth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthReply {
    Done,
    Status { enabled: bool, revision: u64 },
    Token(String),
    Users(Vec<String>),
    Roles(Vec<String>),
    Permissions(Vec<Permission>),
    DataPermissions(Vec<DataPermission>),
}

#[derive(Clone, Debug)]
pub struct Auth {
    enabled: bool,
    revision: u64,
    users: BTreeMap<Arc<str>, User>,
    roles: BTreeMap<Arc<str>, Arc<Role>>,
    /// The combined permissions of each user's roles; derived from the two above whenever they change. Copies share
    /// what is the same.
    grants: BTreeMap<Arc<str>, Grants>,
    /// Not written yet.
    changed: BTreeSet<rows::RowId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct User {
    /// A bcrypt hash; a user without one cannot log in with a password.
    password: Option<Bytes>,
    roles: BTreeSet<Arc<str>>,
    /// The auth revision at which it was added or given its password; unknown in a row of an older version.
    epoch: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Role {
    permissions: BTreeMap<KeyRange, Access>,
    data: BTreeMap<DataRange, DataAccess>,
}

/// What a caller may do, at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Rights<'a> {
    /// `None` for everything.
    grants: Option<&'a Grants>,
}

impl Default for Auth {
    /// As in etcd, the first auth revision is one.
    fn default() -> Auth {
        Auth {
            enabled: false,
            revision: 1,
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
            grants: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl Auth {
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The hash that a password of the user must fit.
    pub fn password_of(&self, user: &str) -> Result<&Bytes, Code> {
        if !self.enabled {
            return Err(Code::AuthNotEnabled);
        }
        let user = self.users.get(user).ok_or(Code::AuthFailed)?;
        user.password.as_ref().ok_or(Code::NoPasswordUser)
    }

    pub fn rights(&self, caller: &Caller) -> Result<Rights<'_>, Code> {
        let everything = Rights { grants: None };
        if !self.enabled {
            return Ok(everything);
        }
        let (name, revision) = match caller {
            Caller::Member => return Ok(everything),
            Caller::Anonymous => return Err(Code::UserEmpty),
            Caller::User { name, revision } => (name, *revision),
        };
        if revision < self.revision && !planted(Mutant::AuthRevisionUnchecked) {
            return Err(Code::AuthOldRevision);
        }
        let user = self.users.get(name).ok_or(Code::PermissionDenied)?;
        if user.roles.contains(ROOT) {
            return Ok(everything);
        }
        let grants = self.grants.get(name).expect("what a user may do is worked out when it is added");
        Ok(Rights { grants: Some(grants) })
    }

    fn has_role(&self, user: &str, role: &str) -> bool {
        self.users.get(user).is_some_and(|user| user.roles.contains(role))
    }

    /// `at` is the place of the command in the log: part of a token, so that none is given twice.
    pub(crate) fn run(
        &mut self,
        at: Index,
        command: &AuthCommand,
        level: FormatLevel,
    ) -> Result<AuthReply, Code> {
        if command.level_needed() > level {
            return Err(Code::FormatLevelTooLow);
        }
        match command {
            AuthCommand::Enable => self.enable(),
            AuthCommand::Disable => self.disable(),
            AuthCommand::Status => Ok(AuthReply::Status { enabled: self.enabled, revision: self.revision }),
            AuthCommand::Authenticate { user, revision, secret } => {
                self.authenticate(at, user, *revision, secret)
            }
            AuthCommand::UserAdd { user, password } => self.add_user(user, password.clone(), level),
            AuthCommand::UserDelete { user } => self.delete_user(user),
            AuthCommand::UserChangePassword { user, password } => self.change_password(user, password, level),
            AuthCommand::UserGrantRole { user, role } => self.grant_role(user, role),
            AuthCommand::UserRevokeRole { user, role } => self.revoke_role(user, role),
            AuthCommand::UserGet { user } => {
                let user = self.users.get(user.as_str()).ok_or(Code::UserNotFound)?;
                Ok(AuthReply::Roles(user.roles.iter().map(|role| role.to_string()).collect()))
            }
            AuthCommand::UserList => Ok(AuthReply::Users(self.users.keys().map(|n| n.to_string()).collect())),
            AuthCommand::RoleAdd { role } => self.add_role(role),
            AuthCommand::RoleDelete { role } => self.delete_role(role),
            AuthCommand::RoleGrantPermission { role, permission } => self.grant_permission(role, permission),
            AuthCommand::RoleRevokePermission { role, keys } => self.revoke_permission(role, keys),
            AuthCommand::RoleGet { role } => self.permissions_of(role),
            AuthCommand::RoleGrantData { role, permission } => self.grant_data(role, permission),
            AuthCommand::RoleRevokeData { role, range } => self.revoke_data(role, range),
            AuthCommand::RoleData { role } => self.data_permissions_of(role),
            AuthCommand::RoleList => Ok(AuthReply::Roles(self.roles.keys().map(|n| n.to_string()).collect())),
        }
    }

    fn enable(&mut self) -> Result<AuthReply, Code> {
        let root = self.users.get(ROOT).ok_or(Code::RootUserMissing)?;
        if !root.roles.contains(ROOT) {
            return Err(Code::RootRoleMissing);
        }
        self.enabled = true;
        self.changed.insert(rows::RowId::Head);
        Ok(AuthReply::Done)
    }

    fn disable(&mut self) -> Result<AuthReply, Code> {
        if self.enabled {
            self.enabled = false;
            self.raise_revision();
        }
        Ok(AuthReply::Done)
    }

    /// The proposer compared the password with the hash at this revision.
    fn authenticate(&self, at: Index, user: &str, revision: u64, secret: &str) -> Result<AuthReply, Code> {
        self.password_of(user).map_err(|code| match code {
            Code::NoPasswordUser => Code::AuthFailed,
            code => code,
        })?;
        if revision < self.revision {
            return Err(Code::AuthOldRevision);
        }
        Ok(AuthReply::Token(format!("{secret}.{}", at.0)))
    }

    fn add_user(
        &mut self,
        name: &str,
        password: Option<Bytes>,
        level: FormatLevel,
    ) -> Result<AuthReply, Code> {
        if name.is_empty() {
            return Err(Code::UserEmpty);
        }
        if self.users.contains_key(name) {
            return Err(Code::UserExists);
        }
        check_count(name, self.users.len())?;
        let epoch = self.next_epoch(level);
        self.users.insert(name.into(), User { password, roles: BTreeSet::new(), epoch });
        self.user_changed(name)
    }

    /// The oldest formats have no place for it.
    fn next_epoch(&self, level: FormatLevel) -> Option<u64> {
        (level > FormatLevel::OLDEST).then_some(self.revision + 1)
    }

    fn delete_user(&mut self, name: &str) -> Result<AuthReply, Code> {
        if self.enabled && name == ROOT {
            return Err(Code::InvalidAuthManagement);
        }
        self.users.remove(name).ok_or(Code::UserNotFound)?;
        self.user_changed(name)
    }

    /// A user without a password stays without one.
    fn change_password(
        &mut self,
        name: &str,
        password: &Bytes,
        level: FormatLevel,
    ) -> Result<AuthReply, Code> {
        let epoch = self.next_epoch(level);
        let user = self.users.get_mut(name).ok_or(Code::UserNotFound)?;
        if user.password.is_some() {
            user.password = Some(password.clone());
        }
        if !planted(Mutant::EpochNotRaised) {
            user.epoch = epoch;
        }
        self.user_changed(name)
    }

    /// The role `root` need not have been added.
    fn grant_role(&mut self, name: &str, role: &str) -> Result<AuthReply, Code> {
        let user = self.users.get_mut(name).ok_or(Code::UserNotFound)?;
        if role != ROOT && !self.roles.contains_key(role) {
            return Err(Code::RoleNotFound);
        }
        if !user.roles.insert(role.into()) {
            return Ok(AuthReply::Done);
        }
        if let (Some(role), Some(grants)) = (self.roles.get(role), self.grants.get_mut(name)) {
            grants.add(role);
        }
        self.mark_user(name)
    }

    fn revoke_role(&mut self, name: &str, role: &str) -> Result<AuthReply, Code> {
        if self.enabled && name == ROOT && role == ROOT {
            return Err(Code::InvalidAuthManagement);
        }
        let user = self.users.get_mut(name).ok_or(Code::UserNotFound)?;
        if user.roles.remove(role) { self.user_changed(name) } else { Err(Code::RoleNotGranted) }
    }

    fn add_role(&mut self, name: &str) -> Result<AuthReply, Code> {
        if name.is_empty() {
            return Err(Code::RoleEmpty);
        }
        if self.roles.contains_key(name) {
            return Err(Code::RoleExists);
        }
        check_count(name, self.roles.len())?;
        self.roles.insert(name.into(), Arc::default());
        self.role_changed(name)
    }

    /// No user has the role any more, so that a role added later under its name starts without users.
    fn delete_role(&mut self, name: &str) -> Result<AuthReply, Code> {
        if self.enabled && name == ROOT {
            return Err(Code::InvalidAuthManagement);
        }
        self.roles.remove(name).ok_or(Code::RoleNotFound)?;
        if !planted(Mutant::DeletedRoleStays) {
            let lose =
                |(holder, user): (&Arc<str>, &mut User)| user.roles.remove(name).then(|| holder.clone());
            let holders: Vec<Arc<str>> = self.users.iter_mut().filter_map(lose).collect();
            for holder in holders {
                self.regrant(&holder);
                self.changed.insert(rows::RowId::User(holder));
            }
        }
        self.role_changed(name)
    }

    fn grant_permission(&mut self, name: &str, permission: &Permission) -> Result<AuthReply, Code> {
        let role = self.roles.get_mut(name).ok_or(Code::RoleNotFound)?;
        let is_new = !role.permissions.contains_key(&permission.keys);
        if is_new && role.permissions.len() >= AUTH_PERMISSIONS_MAX {
            return Err(Code::AuthFull);
        }
        let Permission { keys, access } = permission;
        let old = Arc::make_mut(role).permissions.insert(keys.clone(), *access);
        self.permission_changed(name, keys, old, Some(*access))
    }

    fn revoke_permission(&mut self, name: &str, keys: &KeyRange) -> Result<AuthReply, Code> {
        let role = self.roles.get_mut(name).ok_or(Code::RoleNotFound)?;
        if !role.permissions.contains_key(keys) {
            return Err(Code::PermissionNotGranted);
        }
        let old = Arc::make_mut(role).permissions.remove(keys);
        self.permission_changed(name, keys, old, None)
    }

    /// The role `root` shows what it may do, whatever was granted to it.
    fn permissions_of(&self, name: &str) -> Result<AuthReply, Code> {
        let role = self.roles.get(name).ok_or(Code::RoleNotFound)?;
        let granted = role.permissions.iter();
        Ok(AuthReply::Permissions(match name {
            ROOT => vec![Permission::of_root()],
            _ => granted.map(|(keys, access)| Permission { keys: keys.clone(), access: *access }).collect(),
        }))
    }

    fn user_changed(&mut self, name: &str) -> Result<AuthReply, Code> {
        self.regrant(name);
        self.mark_user(name)
    }

    /// What the user may do is worked out already.
    fn mark_user(&mut self, name: &str) -> Result<AuthReply, Code> {
        self.changed.insert(rows::RowId::User(name.into()));
        self.raise_revision();
        Ok(AuthReply::Done)
    }

    /// Only the grants on these keys are computed again: users may have millions of others.
    fn permission_changed(
        &mut self,
        name: &str,
        keys: &KeyRange,
        old: Option<Access>,
        new: Option<Access>,
    ) -> Result<AuthReply, Code> {
        for (holder, user) in self.users.iter().filter(|(_, user)| user.roles.contains(name)) {
            let roles: Vec<&Role> =
                user.roles.iter().filter_map(|role| self.roles.get(role).map(|role| &**role)).collect();
            if let Some(grants) = self.grants.get_mut(holder) {
                grants.change(&roles, keys, old, new);
            }
        }
        self.role_changed(name)
    }

    fn role_changed(&mut self, name: &str) -> Result<AuthReply, Code> {
        self.changed.insert(rows::RowId::Role(name.into()));
        self.raise_revision();
        Ok(AuthReply::Done)
    }

    fn raise_revision(&mut self) {
        self.revision += 1;
        self.changed.insert(rows::RowId::Head);
    }

    /// Computes the grants of a user again.
    fn regrant(&mut self, name: &str) {
        let Some((name, user)) = self.users.get_key_value(name) else {
            self.grants.remove(name);
            return;
        };
        let grants =
            Grants::of(user.roles.iter().filter_map(|role| self.roles.get(role).map(|role| &**role)));
        self.grants.insert(name.clone(), grants);
    }
}

/// Names are part of every row and of every answer that lists them.
fn check_count(name: &str, count: usize) -> Result<(), Code> {
    if name.len() <= AUTH_NAME_BYTES_MAX && count < AUTH_NAMES_MAX { Ok(()) } else { Err(Code::AuthFull) }
}

impl Rights<'_> {
    pub fn read(&self, keys: &KeyRange) -> Result<(), Code> {
        self.check(|grants| grants.read.contain(keys))
    }

    pub fn write(&self, keys: &KeyRange) -> Result<(), Code> {
        self.check(|grants| grants.write.contain(keys))
    }

    /// Everything, as the role `root` may.
    pub fn root(&self) -> Result<(), Code> {
        self.check(|_| false)
    }

    fn check(&self, holds: impl FnOnce(&Grants) -> bool) -> Result<(), Code> {
        if self.grants.is_none_or(holds) { Ok(()) } else { Err(Code::PermissionDenied) }
    }
}
