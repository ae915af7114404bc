//! A token's text: three parts in base64, header, claims and signature (RFC 7515, RFC 7519).
//! Claims go in with the key and a token comes out; a token goes in with the time and its claims come out, or nothing.
//! What a token says of itself is believed when its signature fits, and its method must be that of the keys before that.

use crate::keys::{Error, JwtKeys};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longer tokens are refused: names and signatures are bounded.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Numbers above are not told apart in JSON.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub user: String,
    /// The auth revision when it was signed; it is worth nothing when that has changed.
    pub revision: u64,
    /// When it ends, counted from 1970, in whole seconds.
    pub ends: Duration,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    crit: Option<IgnoredAny>,
}

#[derive(Serialize)]
struct WrittenClaims<'a> {
    exp: u64,
    revision: u64,
    username: &'a str,
}

/// Times are numbers of seconds, which may have a fraction.
#[derive(Deserialize)]
struct ReadClaims {
    username: String,
    revision: f64,
    /// A token without an expiry could never be revoked.
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    aud: Option<IgnoredAny>,
}

impl JwtKeys {
    /// The token, as etcd writes it.
    pub fn sign(&self, claims: &Claims) -> Result<String, Error> {
        let written =
            WrittenClaims { exp: claims.ends.as_secs(), revision: claims.revision, username: &claims.user };
        let written = serde_json::to_vec(&written).expect("names and numbers can be written");
        let header = format!(r#"{{"alg":"{}","typ":"JWT"}}"#, self.method().name());
        let mut token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(written));
        let signature = self.signature_of(token.as_bytes())?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature));
        Ok(token)
    }

    /// The claims of a token that one of these keys has signed, if it is valid at this time.
    pub fn read(&self, token: &str, now: Duration) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        // The maker of a token must not choose how it is checked; unknown critical headers are refused.
        if header.alg != self.method().name() || header.crit.is_some() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !self.verifies(signed.as_bytes(), &signature) {
            return None;
        }
        let claims: ReadClaims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        claims.at(now.as_secs_f64())
    }
}

impl ReadClaims {
    fn at(self, now: f64) -> Option<Claims> {
        let ended = now >= self.exp;
        let not_begun = [self.nbf, self.iat].into_iter().flatten().any(|begin| now < begin);
        // A token with an audience is for another service: we have no audience name.
        if ended || not_begun || self.aud.is_some() {
            return None;
        }
        let whole = self.revision.fract() == 0.0 && (0.0..WHOLE_MAX).contains(&self.revision);
        let ends = Duration::from_secs(self.exp as u64);
        whole.then_some(Claims { user: self.username, revision: self.revision as u64, ends })
    }
}

#[cfg(test)]
mod tests;
