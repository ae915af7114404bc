//! An admitted caller, cached by its connection: a token is looked up once, and again when
//! something about auth has changed, when its last use must be recorded, or when it has expired.
//! A token goes in with a call and the handle that acts as its user comes out, without waiting. What the user may do
//! is decided where the request is applied, as always.

use super::{AuthHandle, HandleCaller, certificate_token, index_of, signed};
use crate::handle::Handle;
use base::Instant;
use bytes::Bytes;
use coord::Caller;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the use of a token is recorded in its table; etcd's is as coarse.
const USE_RECORDED_EVERY: Duration = Duration::from_secs(1);
/// How long a signed token is trusted without comparing its expiry with the wall clock.
const SIGNED_TRUSTED_FOR: Duration = Duration::from_secs(60);

pub struct Admission {
    handle: Handle,
    token: Bytes,
    /// The member's auth revision at that time.
    revision: u64,
    /// After this the token is looked up again.
    until: Instant,
}

impl Admission {
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Whether admitting the token would still give this handle. Revoked tokens end with a new revision.
    pub fn holds(&self, token: &[u8]) -> bool {
        self.token == token
            && self.revision == self.handle.auth().auth_state().revision.load(Ordering::Acquire)
            && self.handle.shared.core.clock.now() < self.until
    }
}

impl AuthHandle<'_> {
    /// Admits a caller by what this member knows. `None` while auth is off, and if admitting it takes waiting or ends in a
    /// refusal: `admit` does both.
    pub fn admit_at_once(self, token: &[u8]) -> Option<Admission> {
        let text = std::str::from_utf8(token).ok()?;
        let name = certificate_token::name_in(text);
        let auth_state = self.auth_state();
        // In this order: a token that is found ended no earlier than this revision.
        let revision = Some(auth_state.revision.load(Ordering::Acquire)).filter(|revision| *revision != 0)?;
        let now = self.handle.core().clock.now();
        let (caller, until) = match &auth_state.signed {
            Some(signed) if name.is_none() => {
                let wall = signed::wall_now();
                let claims = signed.keys.read(text, wall).filter(|claims| claims.revision <= revision)?;
                let left = claims.ends.saturating_sub(wall).min(SIGNED_TRUSTED_FOR);
                let caller = Caller::User { name: claims.user.into(), revision: claims.revision };
                (caller, now.after(left))
            }
            _ => {
                if name.is_none()
                    && index_of(text).is_some_and(|index| index > self.handle.status().applied.0)
                {
                    return None;
                }
                let name = name.or_else(|| auth_state.user_of(now, text))?;
                (Caller::User { name, revision }, now.after(USE_RECORDED_EVERY.min(auth_state.token_ttl / 2)))
            }
        };
        let asking = HandleCaller { caller, token: Some(text.into()) };
        let token = Bytes::copy_from_slice(token);
        Some(Admission { handle: self.handle.with_caller(asking), token, revision, until })
    }
}
