//! Follows applied auth commands on this member: which tokens are valid, and which watches have lost their
//! permission. A watch is judged when it is created and whenever anything about auth has changed, by what its user
//! may read then.

use super::{Apply, ApplyOutput};
use crate::auth_tokens::TokenEvent;
use base::Code;
use coord::reply::{Body, Reply};
use coord::watch::{self, Refusal};
use coord::{Auth, AuthCommand, AuthReply, Caller, Command, LeaseAccess};

impl Apply {
    /// Users, roles and permissions, as far as this member has applied.
    pub fn auth(&self) -> &Auth {
        self.state.auth()
    }

    /// Whether the caller may do this with leases, as far as this member has applied.
    pub fn check_leases(&self, caller: &Caller, need: LeaseAccess) -> Result<(), Code> {
        self.state.check_leases(caller, need)
    }

    /// Called after a command was applied.
    pub(super) fn after_auth(&mut self, command: &Command, reply: &Reply, out: &mut ApplyOutput) {
        let Command::Auth(command) = command else { return };
        match (command, &reply.body) {
            (AuthCommand::Authenticate { user, .. }, Body::Auth(AuthReply::Token(token))) => {
                let (token, user) = (token.as_str().into(), user.as_str().into());
                out.tokens.push(TokenEvent::Given { token, user });
            }
            (AuthCommand::UserDelete { user } | AuthCommand::UserChangePassword { user, .. }, _) => {
                out.tokens.push(TokenEvent::Revoked { user: user.as_str().into() });
            }
            (AuthCommand::Disable, _) => out.tokens.push(TokenEvent::AllRevoked),
            _ => {}
        }
        if command.is_change() {
            self.auth_changed(out);
        }
    }

    /// Users, roles or permissions have changed.
    pub(super) fn auth_changed(&mut self, out: &mut ApplyOutput) {
        out.auth_changed = true;
        let auth = self.state.auth();
        self.hub.cancel_denied(&mut out.watch, |caller, keys| {
            // The watch was admitted, and has been checked at every change since.
            let now = match caller {
                Caller::User { name, .. } => Caller::User { name: name.clone(), revision: auth.revision() },
                caller => caller.clone(),
            };
            auth.rights(&now).and_then(|rights| rights.read(keys))
        });
    }

    /// The request as the hub gets it: a caller that may not read the keys may not watch them.
    pub(super) fn admit_watch(&self, input: watch::Input) -> watch::Input {
        let watch::Input::Create(create) = input else { return input };
        let rights = self.state.auth().rights(&create.caller);
        match rights.and_then(|rights| rights.read(&create.keys)) {
            Ok(()) => watch::Input::Create(create),
            Err(code) => watch::Input::Refuse { stream: create.stream, refusal: Refusal::Denied(code) },
        }
    }
}
