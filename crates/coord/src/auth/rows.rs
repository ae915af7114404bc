//! The rows of users and roles in `Table::Auth`, and how they are read back.
//! The first byte of a key tells what the row is, the rest is a name. What the roles of a user come to is not stored:
//! it is worked out again.

use super::permission::Permission;
use super::{Auth, Role, User};
use crate::rows::{Corrupt, Emit, FORMAT, formatted};
use base::codec::{put_bytes, put_varint};
use base::{Table, View};
use bytes::Bytes;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

/// Names a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowId {
    /// Whether auth is enabled, and the auth revision.
    Head,
    User(Arc<str>),
    Role(Arc<str>),
}

const HEAD: u8 = b'h';
const ROLE: u8 = b'r';
const USER: u8 = b'u';

impl RowId {
    fn key(&self) -> Vec<u8> {
        let (kind, name) = match self {
            RowId::Head => (HEAD, ""),
            RowId::User(name) => (USER, &**name),
            RowId::Role(name) => (ROLE, &**name),
        };
        [&[kind], name.as_bytes()].concat()
    }

    fn parse(key: &[u8]) -> Option<RowId> {
        let (kind, name) = key.split_first()?;
        let name = std::str::from_utf8(name).ok()?;
        match *kind {
            HEAD => name.is_empty().then_some(RowId::Head),
            ROLE => Some(RowId::Role(name.into())),
            USER => Some(RowId::User(name.into())),
            _ => None,
        }
    }
}

impl Auth {
    pub(crate) fn take_rows(&mut self, emit: &mut Emit<'_>) {
        for row in std::mem::take(&mut self.changed) {
            let value = match &row {
                RowId::Head => Some(self.head()),
                RowId::User(name) => self.users.get(name).map(User::encode),
                RowId::Role(name) => self.roles.get(name).map(|role| role.encode()),
            };
            emit(Table::Auth, &row.key(), value.as_deref());
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut value = vec![FORMAT, u8::from(self.enabled)];
        put_varint(&mut value, self.revision);
        value
    }

    pub(crate) fn load(view: &dyn View) -> Result<Auth, Corrupt> {
        let mut auth = Auth::default();
        let mut outcome = Ok(());
        view.scan(Table::Auth, Unbounded, Unbounded, &mut |key, value| {
            if auth.take_up(key, Bytes::copy_from_slice(value)).is_none() {
                outcome = Err(Corrupt::malformed(Table::Auth, key));
            }
            outcome.is_ok()
        });
        outcome?;
        for name in auth.users.keys().cloned().collect::<Vec<_>>() {
            auth.regrant(&name);
        }
        Ok(auth)
    }

    fn take_up(&mut self, key: &[u8], value: Bytes) -> Option<()> {
        match RowId::parse(key)? {
            RowId::Head => {
                let mut reader = formatted(value)?;
                self.enabled = reader.bool()?;
                self.revision = reader.varint().filter(|revision| *revision > 0)?;
                reader.is_empty().then_some(())
            }
            RowId::User(name) => User::decode(value).map(|user| drop(self.users.insert(name, user))),
            RowId::Role(name) => Role::decode(value).map(|role| drop(self.roles.insert(name, role.into()))),
        }
    }
}

impl User {
    fn encode(&self) -> Vec<u8> {
        let mut value = vec![FORMAT, u8::from(self.password.is_some())];
        put_bytes(&mut value, self.password.as_deref().unwrap_or_default());
        put_varint(&mut value, self.roles.len() as u64);
        self.roles.iter().for_each(|role| put_bytes(&mut value, role.as_bytes()));
        value
    }

    fn decode(value: Bytes) -> Option<User> {
        let mut reader = formatted(value)?;
        let has_password = reader.bool()?;
        let mut user = User { password: Some(reader.bytes()?).filter(|_| has_password), ..User::default() };
        for _ in 0..reader.count()? {
            user.roles.insert(std::str::from_utf8(&reader.bytes()?).ok()?.into());
        }
        reader.is_empty().then_some(user)
    }
}

impl Role {
    fn encode(&self) -> Vec<u8> {
        let mut value = vec![FORMAT];
        put_varint(&mut value, self.permissions.len() as u64);
        for (keys, access) in &self.permissions {
            Permission { keys: keys.clone(), access: *access }.encode(&mut value);
        }
        value
    }

    fn decode(value: Bytes) -> Option<Role> {
        let mut reader = formatted(value)?;
        let mut role = Role::default();
        for _ in 0..reader.count()? {
            let Permission { keys, access } = Permission::decode(&mut reader)?;
            role.permissions.insert(keys, access);
        }
        reader.is_empty().then_some(role)
    }
}
