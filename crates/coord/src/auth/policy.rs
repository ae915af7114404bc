//! The policy by which nodes of the data plane check permissions: users with the epochs of their tokens, their roles,
//! the permissions of roles on data, and the public keys that tokens are signed with. It is derived from the state of
//! auth and holds no password. Members derive it themselves; nodes without the coordination store are sent its bytes
//! (docs/formats/policy.md).

use super::data::DataPermission;
use super::{Auth, ROOT};
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name under which the policy goes to nodes that keep data alone.
pub const POLICY: &str = "policy";
const FORMAT: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub enabled: bool,
    pub revision: u64,
    pub users: BTreeMap<Arc<str>, PolicyUser>,
    pub roles: BTreeMap<Arc<str>, Vec<DataPermission>>,
    /// Newest first.
    pub keys: Vec<TokenKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyUser {
    /// Tokens that were signed at an older auth revision are not valid.
    pub epoch: u64,
    pub roles: BTreeSet<Arc<str>>,
}

/// A public key, and the method that it is for by the name that tokens give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    pub method: String,
    pub public: Bytes,
}

impl Auth {
    /// A user whose epoch is not known, because an older version wrote it, counts as changed just now.
    pub fn policy(&self) -> Policy {
        let user = |(name, user): (&Arc<str>, &super::User)| {
            let epoch = user.epoch.unwrap_or(self.revision);
            (name.clone(), PolicyUser { epoch, roles: user.roles.clone() })
        };
        let role = |(name, role): (&Arc<str>, &Arc<super::Role>)| {
            let data = role.data.iter();
            let list = data.map(|(range, access)| DataPermission { range: range.clone(), access: *access });
            (name.clone(), list.collect())
        };
        Policy {
            enabled: self.enabled,
            revision: self.revision,
            users: self.users.iter().map(user).collect(),
            roles: self.roles.iter().map(role).collect(),
            keys: Vec::new(),
        }
    }
}

impl Policy {
    pub fn is_root(&self, user: &str) -> bool {
        self.users.get(user).is_some_and(|user| user.roles.contains(ROOT))
    }

    /// What the roles of a user permit, one after the other.
    pub fn permissions_of(&self, user: &str) -> impl Iterator<Item = &DataPermission> {
        let roles = self.users.get(user).into_iter().flat_map(|user| &user.roles);
        roles.filter_map(|role| self.roles.get(role)).flatten()
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT, u8::from(self.enabled)];
        put_varint(&mut out, self.revision);
        put_varint(&mut out, self.users.len() as u64);
        for (name, user) in &self.users {
            put_bytes(&mut out, name.as_bytes());
            put_varint(&mut out, user.epoch);
            put_varint(&mut out, user.roles.len() as u64);
            user.roles.iter().for_each(|role| put_bytes(&mut out, role.as_bytes()));
        }
        put_varint(&mut out, self.roles.len() as u64);
        for (name, permissions) in &self.roles {
            put_bytes(&mut out, name.as_bytes());
            put_varint(&mut out, permissions.len() as u64);
            permissions.iter().for_each(|permission| permission.encode(&mut out));
        }
        put_varint(&mut out, self.keys.len() as u64);
        for TokenKey { method, public } in &self.keys {
            put_bytes(&mut out, method.as_bytes());
            put_bytes(&mut out, public);
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Policy> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return None;
        }
        let mut policy = Policy { enabled: reader.bool()?, revision: reader.varint()?, ..Policy::default() };
        for _ in 0..reader.count()? {
            let (name, epoch) = (text(&mut reader)?, reader.varint()?);
            let n_roles = reader.count()?;
            let roles = (0..n_roles).map(|_| text(&mut reader)).collect::<Option<BTreeSet<_>>>()?;
            policy.users.insert(name, PolicyUser { epoch, roles });
        }
        for _ in 0..reader.count()? {
            let (name, n_permissions) = (text(&mut reader)?, reader.count()?);
            let permissions = (0..n_permissions).map(|_| DataPermission::decode(&mut reader));
            policy.roles.insert(name, permissions.collect::<Option<_>>()?);
        }
        for _ in 0..reader.count()? {
            let method = text(&mut reader)?.to_string();
            policy.keys.push(TokenKey { method, public: reader.bytes()? });
        }
        reader.is_empty().then_some(policy)
    }
}

fn text(reader: &mut Reader) -> Option<Arc<str>> {
    Some(std::str::from_utf8(&reader.bytes()?).ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::AuthCommand;
    use crate::auth::data::{DataAccess, DataRange};
    use base::{Code, FormatLevel, Index};

    fn run(auth: &mut Auth, command: AuthCommand) {
        auth.run(Index(1), &command, FormatLevel::NEWEST).unwrap();
    }

    fn permission(namespace: &str, prefix: &'static str, access: DataAccess) -> DataPermission {
        let range = DataRange { namespace: namespace.into(), prefix: Bytes::from_static(prefix.as_bytes()) };
        DataPermission { range, access }
    }

    fn shop() -> Auth {
        let mut auth = Auth::default();
        let password = Some(Bytes::from_static(b"hash"));
        run(&mut auth, AuthCommand::UserAdd { user: "ann".into(), password });
        run(&mut auth, AuthCommand::RoleAdd { role: "clerk".into() });
        for permission in
            [permission("shop", "orders/", DataAccess::ReadWrite), permission("*", "", DataAccess::Read)]
        {
            run(&mut auth, AuthCommand::RoleGrantData { role: "clerk".into(), permission });
        }
        run(&mut auth, AuthCommand::UserGrantRole { user: "ann".into(), role: "clerk".into() });
        auth
    }

    #[test]
    fn a_policy_survives_a_round_trip_and_cut_bytes_are_refused() {
        let mut policy = shop().policy();
        policy.keys.push(TokenKey { method: "EdDSA".into(), public: Bytes::from_static(b"key") });
        assert_eq!(policy.permissions_of("ann").count(), 2);
        let bytes = policy.encode();
        assert_eq!(Policy::decode(bytes.clone()), Some(policy));
        for cut in 0..bytes.len() {
            assert_eq!(Policy::decode(bytes.slice(..cut)), None, "{cut}");
        }
    }

    #[test]
    fn a_new_password_and_a_new_user_of_the_same_name_raise_the_epoch() {
        let mut auth = shop();
        let epoch = |auth: &Auth| auth.policy().users["ann"].epoch;
        let added = epoch(&auth);
        assert!(added < auth.revision(), "roles do not raise it");
        let password = Bytes::from_static(b"other");
        run(&mut auth, AuthCommand::UserChangePassword { user: "ann".into(), password });
        let changed = epoch(&auth);
        assert!(changed > added && changed == auth.revision());
        run(&mut auth, AuthCommand::UserDelete { user: "ann".into() });
        assert!(!auth.policy().users.contains_key("ann"));
        run(&mut auth, AuthCommand::UserAdd { user: "ann".into(), password: None });
        assert!(epoch(&auth) > changed);
    }

    #[test]
    fn what_is_revoked_or_malformed_is_not_granted() {
        let mut auth = shop();
        let range = permission("shop", "orders/", DataAccess::Read).range;
        let revoke = AuthCommand::RoleRevokeData { role: "clerk".into(), range };
        run(&mut auth, revoke.clone());
        assert_eq!(auth.run(Index(1), &revoke, FormatLevel::NEWEST), Err(Code::PermissionNotGranted));
        assert_eq!(auth.policy().permissions_of("ann").count(), 1);
        let unnamed = permission("", "a", DataAccess::Read);
        let grant = AuthCommand::RoleGrantData { role: "clerk".into(), permission: unnamed };
        assert_eq!(auth.run(Index(1), &grant, FormatLevel::NEWEST), Err(Code::PermissionNotGiven));
    }
}
