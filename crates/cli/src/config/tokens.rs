//! What `auth-token` says, in etcd's words: `simple`, or `jwt` with a method, key files and how long a token lives.
//! The text goes in and options come out; loading them reads the key files and finds whatever is wrong with them before
//! the member starts.

use crate::client::duration;
use jwt::{JwtKeys, SigningMethod};
use server::SignedTokens;
use std::sync::Arc;
use std::time::Duration;

/// etcd's.
const TTL_DEFAULT: Duration = Duration::from_secs(300);
/// A key file is a few kilobytes.
const KEY_FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum TokenOptions {
    Simple,
    Signed { method: SigningMethod, public: Option<String>, private: Option<String>, ttl: Duration },
}

impl TokenOptions {
    /// Every option at most once, and the method always.
    pub fn parse(text: &str) -> Option<TokenOptions> {
        let mut words = text.split(',');
        match words.next()? {
            "simple" => return words.next().is_none().then_some(TokenOptions::Simple),
            "jwt" => {}
            _ => return None,
        }
        let (mut method, mut public, mut private, mut ttl) = (None, None, None, None);
        for word in words {
            let (name, value) = word.split_once('=').filter(|(_, value)| !value.is_empty())?;
            let before = match name {
                "sign-method" => method.replace(value),
                "pub-key" => public.replace(value),
                "priv-key" => private.replace(value),
                "ttl" => ttl.replace(value),
                _ => return None,
            };
            if before.is_some() {
                return None;
            }
        }
        let ttl = match ttl {
            Some(ttl) => duration::parse(ttl).ok().filter(|ttl| !ttl.is_zero())?,
            None => TTL_DEFAULT,
        };
        let owned = |path: Option<&str>| path.map(str::to_owned);
        let method = method?.parse().ok()?;
        Some(TokenOptions::Signed { method, public: owned(public), private: owned(private), ttl })
    }

    /// The keys of signed tokens; nothing if tokens are simple.
    pub fn load(&self) -> Result<Option<SignedTokens>, String> {
        let TokenOptions::Signed { method, public, private, ttl } = self else { return Ok(None) };
        let (public, private) = (read(public.as_deref())?, read(private.as_deref())?);
        let keys = JwtKeys::load(*method, public.as_deref(), private.as_deref());
        let keys = Arc::new(keys.map_err(|error| error.to_string())?);
        Ok(Some(SignedTokens { keys, ttl: *ttl }))
    }
}

fn read(path: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = path else { return Ok(None) };
    let size = std::fs::metadata(path).map_err(|error| format!("cannot read {path}: {error}"))?.len();
    if size > KEY_FILE_BYTES_MAX {
        return Err(format!("{path} is too large to be a key"));
    }
    std::fs::read(path).map(Some).map_err(|error| format!("cannot read {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_etcd_writes_them() {
        assert_eq!(TokenOptions::parse("simple"), Some(TokenOptions::Simple));
        let text = "jwt,pub-key=/a/b.pub,priv-key=c,sign-method=PS384,ttl=10m";
        let expected = TokenOptions::Signed {
            method: SigningMethod::Ps384,
            public: Some("/a/b.pub".to_owned()),
            private: Some("c".to_owned()),
            ttl: Duration::from_secs(600),
        };
        assert_eq!(TokenOptions::parse(text), Some(expected));
        let Some(TokenOptions::Signed { ttl, .. }) = TokenOptions::parse("jwt,sign-method=HS256,priv-key=x")
        else {
            panic!("these are options")
        };
        assert_eq!(ttl, TTL_DEFAULT);
    }

    #[test]
    fn what_is_missing_unknown_or_said_twice_is_refused() {
        for text in [
            "",
            "bearer",
            "simple,ttl=5m",
            "jwt",
            "jwt,pub-key=x",
            "jwt,sign-method=none,priv-key=x",
            "jwt,sign-method=rs256,priv-key=x",
            "jwt,sign-method=ES512,priv-key=x",
            "jwt,sign-method=RS256,sign-method=HS256",
            "jwt,sign-method=RS256,priv-key=",
            "jwt,sign-method=RS256,priv-key",
            "jwt,sign-method=RS256,colour=red",
            "jwt,sign-method=RS256,ttl=soon",
            "jwt,sign-method=RS256,ttl=0s",
        ] {
            assert_eq!(TokenOptions::parse(text), None, "{text}");
        }
        let load = |text: &str| TokenOptions::parse(text).unwrap().load().unwrap_err();
        assert_eq!(load("jwt,sign-method=RS256"), "neither a public nor a private key is given");
        assert!(
            load("jwt,sign-method=RS256,priv-key=/no/such/file").starts_with("cannot read /no/such/file")
        );
    }
}
