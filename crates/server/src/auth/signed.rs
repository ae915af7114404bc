//! Tokens that are signed instead of remembered: no entry of the log makes one, and every member that has the key can
//! read it. A token goes in and a handle that asks as its user comes out, with the auth revision that the token was
//! signed at. So a change of users, roles or permissions ends every signed token, whoever holds it.

use crate::auth::Asking;
use crate::handle::Handle;
use base::Code;
use coord::Caller;
use jwt::{Claims, Keys};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug)]
pub struct SignedTokens {
    pub keys: Arc<Keys>,
    /// How long one lives, used or not.
    pub ttl: Duration,
}

impl Handle {
    pub(super) async fn admit_signed(&self, signed: &SignedTokens, token: &str) -> Result<Handle, Code> {
        let claims = signed.keys.read(token, since_1970());
        // Whoever signed it knew something about auth that this member may not have applied yet.
        let is_news = |claims: &Claims| !self.is_auth_on() || claims.revision > self.auth_revision();
        if claims.as_ref().is_some_and(is_news) {
            self.catch_up().await?;
        }
        if !self.is_auth_on() {
            return Ok(self.asking_as(Asking::default()));
        }
        // One of a revision that is still to come was signed by a cluster that was another one, or lost its last days.
        let revision = self.auth_revision();
        let claims = claims.filter(|claims| claims.revision <= revision).ok_or(Code::InvalidAuthToken)?;
        let caller = Caller::User { name: claims.user.into(), revision: claims.revision };
        Ok(self.asking_as(Asking { caller, token: Some(token.into()) }))
    }

    /// Whoever calls this has compared the password with what it was at this revision. If that changes meanwhile, the
    /// token is of an old revision already.
    pub(super) async fn sign_token(
        &self,
        signed: &SignedTokens,
        user: String,
        revision: u64,
    ) -> Result<String, Code> {
        let (keys, ends) = (signed.keys.clone(), since_1970() + signed.ttl);
        // Some methods take milliseconds.
        let sign = move || keys.sign(&Claims { user, revision }, ends);
        let token = self.desk().hashing.run(self.shared.request_timeout, sign).await?;
        token.map_err(|error| match error {
            jwt::Error::VerifyOnly => Code::VerifyOnly,
            error => {
                tracing::error!(%error, "a token could not be signed");
                Code::Timeout
            }
        })
    }

    fn auth_revision(&self) -> u64 {
        self.desk().current().revision()
    }
}

/// Tokens end by the clock on the wall: whoever signs one and whoever reads it have no other in common.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
