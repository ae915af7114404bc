//! Commands about users, roles and permissions, and their bytes inside a command of the log. Passwords come in as
//! hashes that the proposer made, and the random part of a token as the proposer drew it: nothing here depends on the
//! member that applies it.

use super::data::{DataPermission, DataRange};
use super::permission::{Permission, decode_keys, encode_keys};
use base::codec::{Reader, put_bytes, put_varint};
use base::{FormatLevel, KeyRange};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthCommand {
    Enable,
    Disable,
    Status,
    /// A token for a user whose password fitted at this auth revision; `secret` is its unguessable part.
    Authenticate {
        user: String,
        revision: u64,
        secret: String,
    },
    /// Without a hash, a user that cannot log in with a password.
    UserAdd {
        user: String,
        password: Option<Bytes>,
    },
    UserDelete {
        user: String,
    },
    UserChangePassword {
        user: String,
        password: Bytes,
    },
    UserGrantRole {
        user: String,
        role: String,
    },
    UserRevokeRole {
        user: String,
        role: String,
    },
    UserGet {
        user: String,
    },
    UserList,
    RoleAdd {
        role: String,
    },
    RoleDelete {
        role: String,
    },
    RoleGrantPermission {
        role: String,
        permission: Permission,
    },
    RoleRevokePermission {
        role: String,
        keys: KeyRange,
    },
    RoleGet {
        role: String,
    },
    RoleList,
    RoleGrantData {
        role: String,
        permission: DataPermission,
    },
    RoleRevokeData {
        role: String,
        range: DataRange,
    },
    /// Asks for what a role permits on data.
    RoleData {
        role: String,
    },
}

const ENABLE: u8 = 0;
const DISABLE: u8 = 1;
const STATUS: u8 = 2;
const AUTHENTICATE: u8 = 3;
const USER_ADD: u8 = 4;
const USER_DELETE: u8 = 5;
const USER_CHANGE_PASSWORD: u8 = 6;
const USER_GRANT_ROLE: u8 = 7;
const USER_REVOKE_ROLE: u8 = 8;
const USER_GET: u8 = 9;
const USER_LIST: u8 = 10;
const ROLE_ADD: u8 = 11;
const ROLE_DELETE: u8 = 12;
const ROLE_GRANT_PERMISSION: u8 = 13;
const ROLE_REVOKE_PERMISSION: u8 = 14;
const ROLE_GET: u8 = 15;
const ROLE_LIST: u8 = 16;
const ROLE_GRANT_DATA: u8 = 17;
const ROLE_REVOKE_DATA: u8 = 18;
const ROLE_DATA: u8 = 19;

impl AuthCommand {
    /// Below this level it is refused: members of an older release cannot read it, or not what it leaves.
    pub(crate) fn level_needed(&self) -> FormatLevel {
        match self {
            AuthCommand::RoleGrantData { .. }
            | AuthCommand::RoleRevokeData { .. }
            | AuthCommand::RoleData { .. } => FormatLevel(1),
            _ => FormatLevel::OLDEST,
        }
    }

    /// Whether the command may change permissions; the others only read, or make a token.
    pub fn is_change(&self) -> bool {
        use AuthCommand::{Authenticate, RoleData, RoleGet, RoleList, Status, UserGet, UserList};
        let is_question =
            matches!(self, RoleData { .. } | RoleGet { .. } | RoleList | Status | UserGet { .. } | UserList);
        !is_question && !matches!(self, Authenticate { .. })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut texts = |kind: u8, texts: &[&str]| {
            out.push(kind);
            texts.iter().for_each(|text| put_bytes(out, text.as_bytes()));
        };
        match self {
            AuthCommand::Enable => texts(ENABLE, &[]),
            AuthCommand::Disable => texts(DISABLE, &[]),
            AuthCommand::Status => texts(STATUS, &[]),
            AuthCommand::Authenticate { user, revision, secret } => {
                texts(AUTHENTICATE, &[user, secret]);
                put_varint(out, *revision);
            }
            AuthCommand::UserAdd { user, password } => {
                texts(USER_ADD, &[user]);
                out.push(u8::from(password.is_some()));
                put_bytes(out, password.as_deref().unwrap_or_default());
            }
            AuthCommand::UserDelete { user } => texts(USER_DELETE, &[user]),
            AuthCommand::UserChangePassword { user, password } => {
                texts(USER_CHANGE_PASSWORD, &[user]);
                put_bytes(out, password);
            }
            AuthCommand::UserGrantRole { user, role } => texts(USER_GRANT_ROLE, &[user, role]),
            AuthCommand::UserRevokeRole { user, role } => texts(USER_REVOKE_ROLE, &[user, role]),
            AuthCommand::UserGet { user } => texts(USER_GET, &[user]),
            AuthCommand::UserList => texts(USER_LIST, &[]),
            AuthCommand::RoleAdd { role } => texts(ROLE_ADD, &[role]),
            AuthCommand::RoleDelete { role } => texts(ROLE_DELETE, &[role]),
            AuthCommand::RoleGrantPermission { role, permission } => {
                texts(ROLE_GRANT_PERMISSION, &[role]);
                permission.encode(out);
            }
            AuthCommand::RoleRevokePermission { role, keys } => {
                texts(ROLE_REVOKE_PERMISSION, &[role]);
                encode_keys(keys, out);
            }
            AuthCommand::RoleGet { role } => texts(ROLE_GET, &[role]),
            AuthCommand::RoleList => texts(ROLE_LIST, &[]),
            AuthCommand::RoleGrantData { role, permission } => {
                texts(ROLE_GRANT_DATA, &[role]);
                permission.encode(out);
            }
            AuthCommand::RoleRevokeData { role, range } => {
                texts(ROLE_REVOKE_DATA, &[role]);
                range.encode(out);
            }
            AuthCommand::RoleData { role } => texts(ROLE_DATA, &[role]),
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<AuthCommand> {
        Some(match reader.u8()? {
            ENABLE => AuthCommand::Enable,
            DISABLE => AuthCommand::Disable,
            STATUS => AuthCommand::Status,
            AUTHENTICATE => {
                let (user, secret) = (text(reader)?, text(reader)?);
                AuthCommand::Authenticate { user, revision: reader.varint()?, secret }
            }
            USER_ADD => {
                let user = text(reader)?;
                let has_password = reader.bool()?;
                AuthCommand::UserAdd { user, password: Some(reader.bytes()?).filter(|_| has_password) }
            }
            USER_DELETE => AuthCommand::UserDelete { user: text(reader)? },
            USER_CHANGE_PASSWORD => {
                AuthCommand::UserChangePassword { user: text(reader)?, password: reader.bytes()? }
            }
            USER_GRANT_ROLE => AuthCommand::UserGrantRole { user: text(reader)?, role: text(reader)? },
            USER_REVOKE_ROLE => AuthCommand::UserRevokeRole { user: text(reader)?, role: text(reader)? },
            USER_GET => AuthCommand::UserGet { user: text(reader)? },
            USER_LIST => AuthCommand::UserList,
            ROLE_ADD => AuthCommand::RoleAdd { role: text(reader)? },
            ROLE_DELETE => AuthCommand::RoleDelete { role: text(reader)? },
            ROLE_GRANT_PERMISSION => AuthCommand::RoleGrantPermission {
                role: text(reader)?,
                permission: Permission::decode(reader)?,
            },
            ROLE_REVOKE_PERMISSION => {
                AuthCommand::RoleRevokePermission { role: text(reader)?, keys: decode_keys(reader)? }
            }
            ROLE_GET => AuthCommand::RoleGet { role: text(reader)? },
            ROLE_LIST => AuthCommand::RoleList,
            ROLE_GRANT_DATA => AuthCommand::RoleGrantData {
                role: text(reader)?,
                permission: DataPermission::decode(reader)?,
            },
            ROLE_REVOKE_DATA => {
                AuthCommand::RoleRevokeData { role: text(reader)?, range: DataRange::decode(reader)? }
            }
            ROLE_DATA => AuthCommand::RoleData { role: text(reader)? },
            _ => return None,
        })
    }
}

fn text(reader: &mut Reader) -> Option<String> {
    String::from_utf8(reader.bytes()?.into()).ok()
}
