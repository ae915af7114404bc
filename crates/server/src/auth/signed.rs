//! Tokens that are signed instead of remembered: no entry of the log makes one, and every member that has the key can
//! read it. A token goes in and a handle that acts as its user comes out, with the auth revision that the token was
//! signed at. So a change of users, roles or permissions ends every signed token.

use crate::auth::fair_queue::LoginSource;
use crate::auth::{AuthHandle, HandleCaller};
use crate::handle::Handle;
use crate::mutant::Mutant;
use base::Code;
use base::mutant::planted;
use coord::Caller;
use jwt::{Claims, JwtKeys};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug)]
pub struct SignedTokens {
    pub keys: Arc<JwtKeys>,
    /// How long one lives, used or not.
    pub ttl: Duration,
}

impl AuthHandle<'_> {
    pub(super) async fn admit_signed(self, signed: &SignedTokens, token: &str) -> Result<Handle, Code> {
        let claims = signed.keys.read(token, wall_now());
        // The member that signed it knew an auth revision that this member may not have applied yet.
        let is_news = |claims: &Claims| !self.is_on() || claims.revision > self.auth_revision();
        if claims.as_ref().is_some_and(is_news) {
            self.catch_up().await?;
        }
        if !self.is_on() {
            return Ok(self.handle.with_caller(HandleCaller::default()));
        }
        // A token of a future revision was signed by another cluster, or by this one before it lost writes.
        let revision = self.auth_revision();
        let claims = claims.filter(|claims| claims.revision <= revision).ok_or(Code::InvalidAuthToken)?;
        let caller = Caller::User { name: claims.user.into(), revision: claims.revision };
        Ok(self.handle.with_caller(HandleCaller { caller, token: Some(token.into()) }))
    }

    /// The caller has compared the password with the hash at this revision. If that changes meanwhile, the
    /// token is of an old revision already.
    pub(super) async fn sign_token(
        self,
        signed: &SignedTokens,
        user: String,
        revision: u64,
    ) -> Result<String, Code> {
        let (keys, ends) = (signed.keys.clone(), since_1970() + signed.ttl);
        let source = LoginSource::authenticated(&user);
        // Some methods take milliseconds.
        let sign = move || keys.sign(&Claims { user, revision, ends });
        let token = self.auth_state().hashing.run(source, self.handle.request_timeout(), sign).await?;
        token.map_err(|error| match error {
            jwt::Error::VerifyOnly => Code::VerifyOnly,
            error => {
                tracing::error!(%error, "cannot sign a token");
                Code::Timeout
            }
        })
    }

    fn auth_revision(self) -> u64 {
        self.auth_state().current().revision()
    }
}

/// The time by which tokens expire.
pub(super) fn wall_now() -> Duration {
    if planted(Mutant::ExpiredTokenTaken) { Duration::ZERO } else { since_1970() }
}

/// Tokens expire by the wall clock, the only clock that the signer and the reader share.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
