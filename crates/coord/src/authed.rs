//! A client's command with its caller: permissions are checked where the command is applied, and not before. A client
//! command without a caller is anonymous: it runs while auth is off.

use crate::auth::Caller;
use crate::command::{AUTHED, Command, FORMAT};
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::AUTH_NAME_BYTES_MAX;
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthedCommand {
    /// Always a user.
    pub caller: Caller,
    command: Box<Command>,
}

impl AuthedCommand {
    pub fn command(&self) -> &Command {
        &self.command
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Caller::User { name, revision } = &self.caller else { unreachable!("only users' are wrapped") };
        encode_caller(name, *revision, out);
        // Nothing follows it.
        self.command.encode(out);
    }

    /// The bytes of the inner command.
    pub(crate) fn inner(bytes: &Bytes) -> Option<Bytes> {
        let mut reader = Reader::new(bytes.slice(2..));
        reader.bytes()?;
        reader.varint()?;
        reader.take(reader.remaining())
    }

    /// The inner command has no caller of its own.
    pub(crate) fn decode(reader: &mut Reader) -> Option<AuthedCommand> {
        let name = reader.bytes().filter(|name| name.len() <= AUTH_NAME_BYTES_MAX)?;
        let name = std::str::from_utf8(&name).ok()?.into();
        let revision = reader.varint()?;
        let command = Command::decode_unauthed(reader.take(reader.remaining())?)?;
        Some(AuthedCommand { caller: Caller::User { name, revision }, command: Box::new(command) })
    }
}

fn encode_caller(name: &str, revision: u64, out: &mut Vec<u8>) {
    put_bytes(out, name.as_bytes());
    put_varint(out, revision);
}

impl Command {
    /// The bytes of the command as it is proposed for this caller. Only client commands carry their user; anonymous
    /// commands and those of members are encoded as they are.
    pub fn encode_for(&self, caller: &Caller, out: &mut Vec<u8>) {
        if let Caller::User { name, revision } = caller
            && self.needs_permission()
        {
            out.extend([FORMAT, AUTHED]);
            encode_caller(name, *revision, out);
        }
        self.encode(out);
    }

    /// Whether it needs a permission of its caller.
    pub fn needs_permission(&self) -> bool {
        match self {
            Command::Put(_) | Command::Delete(_) | Command::Txn(_) | Command::Fenced(_) => true,
            Command::Idempotent(_) | Command::Auth(_) | Command::LeaseGrant(_) => true,
            Command::LeaseRevoke(revoke) => revoke.guard.is_none(),
            Command::LockAcquire(_) | Command::LockRelease(_) | Command::FenceCheck(_) => true,
            _ => false,
        }
    }

    /// The caller and the inner command.
    pub fn caller_and_command(&self) -> (&Caller, &Command) {
        match self {
            Command::Authed(authed) => (&authed.caller, &authed.command),
            command => (&Caller::Anonymous, command),
        }
    }
}
