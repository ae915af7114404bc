//! The keys that the cluster signs tokens with for its data plane, unless it was given keys of its own: a document of the
//! coordination store, made by the leader when there are users and renewed every month. Its private halves stay with the
//! members; the policy carries the public ones (docs/formats/policy.md).

use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use jwt::JwtKeys;
use std::time::Duration;

pub(crate) const DOCUMENT: &str = "token-keys";
const FORMAT: u8 = 1;
/// How long a key signs; the previous key is still accepted meanwhile.
const RENEW_AFTER: Duration = Duration::from_secs(30 * 86_400);
const KEYS_MAX: usize = 2;

/// Newest first.
#[derive(Debug, Default)]
pub(crate) struct TokenKeys {
    keys: Vec<TokenKey>,
}

#[derive(Debug)]
struct TokenKey {
    made_ms: u64,
    private: Bytes,
}

impl TokenKeys {
    /// None if it cannot be read.
    pub fn decode(bytes: Bytes) -> Option<TokenKeys> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return None;
        }
        let count = reader.count()?;
        let key =
            |reader: &mut Reader| Some(TokenKey { made_ms: reader.varint()?, private: reader.bytes()? });
        let keys = (0..count).map(|_| key(&mut reader)).collect::<Option<Vec<_>>>()?;
        reader.is_empty().then_some(TokenKeys { keys })
    }

    fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.keys.len() as u64);
        for TokenKey { made_ms, private } in &self.keys {
            put_varint(&mut out, *made_ms);
            put_bytes(&mut out, private);
        }
        out.into()
    }

    pub fn load(&self) -> Vec<JwtKeys> {
        self.keys.iter().filter_map(|key| JwtKeys::of_private(&key.private).ok()).collect()
    }

    /// The document that must follow this one, when it is time for another key.
    pub fn renewed(&self, now_ms: u64) -> Option<Bytes> {
        let is_young = |key: &TokenKey| now_ms.saturating_sub(key.made_ms) < RENEW_AFTER.as_millis() as u64;
        if self.keys.first().is_some_and(is_young) {
            return None;
        }
        let made =
            JwtKeys::generate().inspect_err(|error| tracing::error!(%error, "cannot generate a token key"));
        let newest = TokenKey { made_ms: now_ms, private: made.ok()?.into() };
        let before = self.keys.iter().take(KEYS_MAX - 1);
        let before = before.map(|key| TokenKey { made_ms: key.made_ms, private: key.private.clone() });
        Some(TokenKeys { keys: std::iter::once(newest).chain(before).collect() }.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_a_month_and_the_one_before_stays() {
        let month = RENEW_AFTER.as_millis() as u64;
        let first = TokenKeys::default().renewed(1_000).unwrap();
        let keys = TokenKeys::decode(first).unwrap();
        assert_eq!((keys.load().len(), keys.renewed(999 + month)), (1, None));
        let second = TokenKeys::decode(keys.renewed(1_000 + month).unwrap()).unwrap();
        assert_eq!(second.load().len(), 2);
        assert_eq!(second.keys[1].private, keys.keys[0].private);
        let third = TokenKeys::decode(second.renewed(1_000 + 2 * month).unwrap()).unwrap();
        assert_eq!(third.load().len(), KEYS_MAX);
        assert_eq!(third.keys[1].private, second.keys[0].private);
        let bytes = third.encode();
        (0..bytes.len()).for_each(|cut| assert!(TokenKeys::decode(bytes.slice(..cut)).is_none()));
    }
}
