//! The rows of users and roles in `Table::Auth`, and how they are read back. The first byte of a key tells what the
//! row is, the rest is a name. The combined grants of a user are not stored: they are computed again.

use super::data::DataPermission;
use super::permission::Permission;
use super::{Auth, Role, User};
use crate::mutant::Mutant;
use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::{Reader, put_bytes, put_varint};
use base::mutant::planted;
use base::{ReadView, Table};
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

/// The format of users with an epoch and of roles with permissions on data; others are written as version 0.1.0 reads them.
const FORMAT_OF_DATA: u8 = 2;
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

    pub(crate) fn load(view: &dyn ReadView) -> Result<Auth, CorruptRow> {
        let mut auth = Auth::default();
        let mut outcome = Ok(());
        view.scan(Table::Auth, Unbounded, Unbounded, &mut |key, value| {
            if auth.load_row(key, Bytes::copy_from_slice(value)).is_none() {
                outcome = Err(CorruptRow::malformed(Table::Auth, key));
            }
            outcome.is_ok()
        });
        outcome?;
        for name in auth.users.keys().cloned().collect::<Vec<_>>() {
            auth.regrant(&name);
        }
        Ok(auth)
    }

    fn load_row(&mut self, key: &[u8], value: Bytes) -> Option<()> {
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
    /// In the first format unless it needs fields of the second.
    fn encode(&self) -> Vec<u8> {
        let format = if self.epoch.is_some() { FORMAT_OF_DATA } else { FORMAT };
        let mut value = vec![format, u8::from(self.password.is_some())];
        put_bytes(&mut value, self.password.as_deref().unwrap_or_default());
        put_varint(&mut value, self.roles.len() as u64);
        self.roles.iter().for_each(|role| put_bytes(&mut value, role.as_bytes()));
        self.epoch.into_iter().for_each(|epoch| put_varint(&mut value, epoch));
        value
    }

    fn decode(value: Bytes) -> Option<User> {
        let (has_epoch, mut reader) = of_either_format(value)?;
        let has_password = reader.bool()?;
        let mut user = User { password: Some(reader.bytes()?).filter(|_| has_password), ..User::default() };
        for _ in 0..reader.count()? {
            user.roles.insert(std::str::from_utf8(&reader.bytes()?).ok()?.into());
        }
        user.epoch = if has_epoch { Some(reader.varint()?) } else { None };
        reader.is_empty().then_some(user)
    }
}

impl Role {
    fn encode(&self) -> Vec<u8> {
        let has_data = !self.data.is_empty() && !planted(Mutant::DataPermissionsNotWritten);
        let mut value = vec![if has_data { FORMAT_OF_DATA } else { FORMAT }];
        put_varint(&mut value, self.permissions.len() as u64);
        for (keys, access) in &self.permissions {
            Permission { keys: keys.clone(), access: *access }.encode(&mut value);
        }
        if has_data {
            put_varint(&mut value, self.data.len() as u64);
        }
        for (range, access) in self.data.iter().filter(|_| has_data) {
            DataPermission { range: range.clone(), access: *access }.encode(&mut value);
        }
        value
    }

    fn decode(value: Bytes) -> Option<Role> {
        let (has_data, mut reader) = of_either_format(value)?;
        let mut role = Role::default();
        for _ in 0..reader.count()? {
            let Permission { keys, access } = Permission::decode(&mut reader)?;
            role.permissions.insert(keys, access);
        }
        let n_data = if has_data { reader.count()? } else { 0 };
        for _ in 0..n_data {
            let DataPermission { range, access } = DataPermission::decode(&mut reader)?;
            role.data.insert(range, access);
        }
        reader.is_empty().then_some(role)
    }
}

/// Whether it is the second format.
fn of_either_format(value: Bytes) -> Option<(bool, Reader)> {
    let mut reader = Reader::new(value);
    match reader.u8()? {
        FORMAT => Some((false, reader)),
        FORMAT_OF_DATA => Some((true, reader)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::data::{DataAccess, DataRange};

    #[test]
    fn rows_of_both_formats_are_read() {
        let old = User { password: Some(Bytes::from_static(b"h")), ..User::default() };
        let new = User { epoch: Some(7), ..old.clone() };
        assert_eq!((old.encode()[0], new.encode()[0]), (FORMAT, FORMAT_OF_DATA));
        let read = |user: &User| User::decode(user.encode().into());
        assert_eq!((read(&old), read(&new)), (Some(old.clone()), Some(new.clone())));
        let old = Role::default();
        let mut new = old.clone();
        let range = DataRange { namespace: "shop".into(), prefix: Bytes::from_static(b"orders/") };
        new.data.insert(range, DataAccess::Admin);
        assert_eq!((old.encode()[0], new.encode()[0]), (FORMAT, FORMAT_OF_DATA));
        let read = |role: &Role| Role::decode(role.encode().into());
        assert_eq!((read(&old), read(&new)), (Some(old.clone()), Some(new.clone())));
        assert_eq!(Role::decode(Bytes::from_static(&[3, 0])), None);
    }
}
