//! Users and roles as etcd's buckets hold them.

use super::permission::{Access, Permission};
use super::rows::RowId;
use super::{Auth, Role, User};
use crate::etcd::EtcdRow;
use crate::etcd::message::{Field, Message, read};
use base::KeyRange;
use bytes::Bytes;
use std::sync::Arc;

impl Auth {
    pub(crate) fn etcd_users(&self) -> Vec<EtcdRow> {
        self.users.iter().map(|(name, user)| (name.as_bytes().to_vec(), encode_user(name, user))).collect()
    }

    pub(crate) fn etcd_roles(&self) -> Vec<EtcdRow> {
        self.roles.iter().map(|(name, role)| (name.as_bytes().to_vec(), encode_role(name, role))).collect()
    }

    pub(crate) fn take_etcd_head(&mut self, is_enabled: bool, is_revision: bool, value: &[u8]) -> Option<()> {
        if is_enabled {
            self.enabled = value == [1];
        }
        if is_revision {
            self.revision = u64::from_be_bytes(value.try_into().ok()?).max(1);
        }
        self.changed.insert(RowId::Head);
        Some(())
    }

    pub(crate) fn take_etcd_user(&mut self, value: Bytes) -> Option<()> {
        let (mut name, mut user) = (None, User::default());
        read(value, &mut |field, content| {
            match (field, content) {
                (1, Field::Bytes(bytes)) => name = Some(text(&bytes)?),
                (2, Field::Bytes(bytes)) => user.password = Some(bytes).filter(|hash| !hash.is_empty()),
                (3, Field::Bytes(bytes)) => drop(user.roles.insert(text(&bytes)?)),
                _ => {}
            }
            Some(())
        })?;
        let name = name?;
        self.changed.insert(RowId::User(name.clone()));
        self.users.insert(name, user);
        Some(())
    }

    pub(crate) fn take_etcd_role(&mut self, value: Bytes) -> Option<()> {
        let (mut name, mut role) = (None, Role::default());
        read(value, &mut |field, content| {
            match (field, content) {
                (1, Field::Bytes(bytes)) => name = Some(text(&bytes)?),
                (2, Field::Bytes(bytes)) => {
                    let Permission { keys, access } = decode_permission(bytes)?;
                    role.permissions.insert(keys, access);
                }
                _ => {}
            }
            Some(())
        })?;
        let name = name?;
        self.changed.insert(RowId::Role(name.clone()));
        self.roles.insert(name, Arc::new(role));
        Some(())
    }
}

fn text(bytes: &[u8]) -> Option<Arc<str>> {
    std::str::from_utf8(bytes).ok().map(Into::into)
}

fn encode_user(name: &str, user: &User) -> Vec<u8> {
    let mut message = Message::default().bytes(1, name.as_bytes());
    message = message.bytes(2, user.password.as_deref().unwrap_or_default());
    for role in &user.roles {
        message = message.element(3, role.as_bytes());
    }
    let options = Message::default().number(1, u64::from(user.password.is_none()));
    message.element(4, &options.0).0
}

fn encode_role(name: &str, role: &Role) -> Vec<u8> {
    let mut message = Message::default().bytes(1, name.as_bytes());
    for (keys, access) in &role.permissions {
        let permission = Message::default().number(1, *access as u64).bytes(2, &keys.start);
        message = message.element(2, &permission.bytes(3, &keys.wire_end()).0);
    }
    message.0
}

fn decode_permission(value: Bytes) -> Option<Permission> {
    let (mut access, mut key, mut end) = (Access::Read, Bytes::new(), Bytes::new());
    read(value, &mut |field, content| {
        match (field, content) {
            (1, Field::Number(number)) => access = Access::from_number(u8::try_from(number).ok()?)?,
            (2, Field::Bytes(bytes)) => key = bytes,
            (3, Field::Bytes(bytes)) => end = bytes,
            _ => {}
        }
        Some(())
    })?;
    Some(Permission { keys: KeyRange::from_wire(key, end), access })
}
