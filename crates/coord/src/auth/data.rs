//! Permissions on the keys of the data plane: a namespace, a prefix of its keys, and what may be done with them.
//! The state machine keeps them with its roles and checks none of them itself: nodes of the data plane do, by the policy
//! that is derived from this state (`policy.rs`).

use super::{Auth, AuthReply};
use base::codec::{Reader, put_bytes};
use base::limits::{AUTH_PERMISSIONS_MAX, MESH_NAME_BYTES_MAX};
use base::{Code, KeyRange};
use bytes::Bytes;
use std::sync::Arc;

/// Stands for every namespace.
pub const EVERY_NAMESPACE: &str = "*";
const NAMESPACE_BYTES_MAX: usize = 64;

/// What may be done with data. Numbered as in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DataAccess {
    Read = 0,
    Write = 1,
    ReadWrite = 2,
    /// Reads and writes, and changes the namespace itself.
    Admin = 3,
}

/// Keys of one namespace, or of every one, that begin with a prefix; an empty prefix stands for all keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataRange {
    pub namespace: String,
    pub prefix: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPermission {
    pub range: DataRange,
    pub access: DataAccess,
}

impl DataAccess {
    pub fn from_number(number: u8) -> Option<DataAccess> {
        match number {
            0 => Some(DataAccess::Read),
            1 => Some(DataAccess::Write),
            2 => Some(DataAccess::ReadWrite),
            3 => Some(DataAccess::Admin),
            _ => None,
        }
    }

    pub fn reads(self) -> bool {
        self != DataAccess::Write
    }

    pub fn writes(self) -> bool {
        self != DataAccess::Read
    }

    pub fn administers(self) -> bool {
        self == DataAccess::Admin
    }
}

impl DataRange {
    /// Names of namespaces are checked where namespaces are created; a permission may come first.
    pub fn validate(&self) -> Result<(), Code> {
        let named = (1..=NAMESPACE_BYTES_MAX).contains(&self.namespace.len());
        if named && self.prefix.len() <= MESH_NAME_BYTES_MAX { Ok(()) } else { Err(Code::PermissionNotGiven) }
    }

    pub fn keys(&self) -> KeyRange {
        KeyRange::from_wire(self.prefix.clone(), base::key_range::prefix_end(&self.prefix))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.namespace.as_bytes());
        put_bytes(out, &self.prefix);
    }

    pub(super) fn decode(reader: &mut Reader) -> Option<DataRange> {
        let namespace = String::from_utf8(reader.bytes()?.into()).ok()?;
        let range = DataRange { namespace, prefix: reader.bytes()? };
        range.validate().is_ok().then_some(range)
    }
}

impl DataPermission {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.access as u8);
        self.range.encode(out);
    }

    pub(super) fn decode(reader: &mut Reader) -> Option<DataPermission> {
        let access = DataAccess::from_number(reader.u8()?)?;
        Some(DataPermission { range: DataRange::decode(reader)?, access })
    }
}

impl Auth {
    pub(super) fn grant_data(&mut self, name: &str, permission: &DataPermission) -> Result<AuthReply, Code> {
        permission.range.validate()?;
        let role = self.roles.get_mut(name).ok_or(Code::RoleNotFound)?;
        let is_new = !role.data.contains_key(&permission.range);
        if is_new && role.data.len() >= AUTH_PERMISSIONS_MAX {
            return Err(Code::AuthFull);
        }
        Arc::make_mut(role).data.insert(permission.range.clone(), permission.access);
        self.role_changed(name)
    }

    pub(super) fn revoke_data(&mut self, name: &str, range: &DataRange) -> Result<AuthReply, Code> {
        let role = self.roles.get_mut(name).ok_or(Code::RoleNotFound)?;
        Arc::make_mut(role).data.remove(range).ok_or(Code::PermissionNotGranted)?;
        self.role_changed(name)
    }

    /// The role `root` shows what it may do, whatever was granted to it.
    pub(super) fn data_permissions_of(&self, name: &str) -> Result<AuthReply, Code> {
        let role = self.roles.get(name).ok_or(Code::RoleNotFound)?;
        let granted = || role.data.iter().map(|(range, access)| (range.clone(), *access));
        let of_root = DataRange { namespace: EVERY_NAMESPACE.to_owned(), prefix: Bytes::new() };
        let list: Vec<(DataRange, DataAccess)> = match name {
            super::ROOT => vec![(of_root, DataAccess::Admin)],
            _ => granted().collect(),
        };
        let list = list.into_iter().map(|(range, access)| DataPermission { range, access });
        Ok(AuthReply::DataPermissions(list.collect()))
    }
}
