//! A client's command together with who asked for it: what it may do is decided where it is applied, and not before.
//! A command without a caller that a client can have given is nobody's: it is carried out as long as auth is off.

use crate::auth::Caller;
use crate::command::Command;
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::AUTH_NAME_BYTES_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authed {
    /// Always a user.
    pub caller: Caller,
    command: Box<Command>,
}

impl Authed {
    /// The command as it is proposed for this caller. Nobody's goes as it is, and so does a member's own.
    pub fn wrap(caller: &Caller, command: Command) -> Command {
        match caller {
            Caller::Nobody | Caller::Member => command,
            Caller::User { .. } => {
                Command::Authed(Authed { caller: caller.clone(), command: Box::new(command) })
            }
        }
    }

    pub fn command(&self) -> &Command {
        &self.command
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Caller::User { name, revision } = &self.caller else { unreachable!("only users' are wrapped") };
        put_bytes(out, name.as_bytes());
        put_varint(out, *revision);
        // Nothing follows it.
        self.command.encode(out);
    }

    /// The command within is none of its kind: there is one caller.
    pub(crate) fn decode(reader: &mut Reader) -> Option<Authed> {
        let name = reader.bytes().filter(|name| name.len() <= AUTH_NAME_BYTES_MAX)?;
        let name = std::str::from_utf8(&name).ok()?.into();
        let revision = reader.varint()?;
        let command = Command::decode_unauthed(reader.take(reader.remaining())?)?;
        Some(Authed { caller: Caller::User { name, revision }, command: Box::new(command) })
    }
}

impl Command {
    /// Who asked for it, and for what.
    pub fn asked(&self) -> (&Caller, &Command) {
        match self {
            Command::Authed(authed) => (&authed.caller, &authed.command),
            command => (&Caller::Nobody, command),
        }
    }
}
