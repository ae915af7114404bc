//! Passwords that were compared with their hash not long ago, so that the same login again needs no hashing: it is quick,
//! and a flood of wrong passwords does not keep it out.
//! A hash and a password go in, and whether they matched comes out. Neither is stored, but a digest under a key
//! that is drawn at the start. A user with a new password has a new hash, so old entries do not match.

use base::Instant;
use ring::hmac;
use std::collections::BTreeMap;
use std::time::Duration;

const VERIFIED_FOR: Duration = Duration::from_secs(600);
const VERIFIED_MAX: usize = 4_096;

type Digest = [u8; KEY_BYTES];

pub(super) const KEY_BYTES: usize = 32;

pub(super) struct VerifiedPasswords {
    /// Without random numbers of the kernel nothing is kept.
    key: Option<hmac::Key>,
    ends: BTreeMap<Digest, Instant>,
}

impl VerifiedPasswords {
    pub fn new(key: Option<[u8; KEY_BYTES]>) -> VerifiedPasswords {
        VerifiedPasswords {
            key: key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, &key)),
            ends: BTreeMap::new(),
        }
    }

    pub fn contains(&self, now: Instant, hash: &[u8], password: &str) -> bool {
        let digest = self.digest_of(hash, password);
        digest.and_then(|digest| self.ends.get(&digest)).is_some_and(|ends| now < *ends)
    }

    pub fn insert(&mut self, now: Instant, hash: &[u8], password: &str) {
        let Some(digest) = self.digest_of(hash, password) else { return };
        if self.ends.len() >= VERIFIED_MAX {
            self.ends.retain(|_, ends| now < *ends);
        }
        if self.ends.len() >= VERIFIED_MAX
            && let Some(first) = self.ends.iter().min_by_key(|(_, ends)| **ends).map(|(digest, _)| *digest)
        {
            self.ends.remove(&first);
        }
        self.ends.insert(digest, now.after(VERIFIED_FOR));
    }

    fn digest_of(&self, hash: &[u8], password: &str) -> Option<Digest> {
        let mut digest = hmac::Context::with_key(self.key.as_ref()?);
        digest.update(&(hash.len() as u64).to_be_bytes());
        digest.update(hash);
        digest.update(password.as_bytes());
        digest.sign().as_ref().try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fitted_fits_for_a_while_and_nothing_else_does() {
        let mut verified = VerifiedPasswords::new(Some([7; KEY_BYTES]));
        let now = Instant(0);
        verified.insert(now, b"hash", "secret");
        assert!(verified.contains(now, b"hash", "secret"));
        for (hash, password) in [("hash", "secre"), ("hash", ""), ("other", "secret"), ("hashs", "ecret")] {
            assert!(!verified.contains(now, hash.as_bytes(), password), "{hash} {password}");
        }
        assert!(!verified.contains(now.after(VERIFIED_FOR), b"hash", "secret"));
        let mut unkeyed = VerifiedPasswords::new(None);
        unkeyed.insert(now, b"hash", "secret");
        assert!(!unkeyed.contains(now, b"hash", "secret"));
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut verified = VerifiedPasswords::new(Some([7; KEY_BYTES]));
        for nth in 0..VERIFIED_MAX as u64 + 10 {
            verified.insert(Instant(nth), b"hash", &nth.to_string());
        }
        assert_eq!(verified.ends.len(), VERIFIED_MAX);
        assert!(!verified.contains(Instant(0), b"hash", "0"));
        assert!(verified.contains(Instant(0), b"hash", &(VERIFIED_MAX + 9).to_string()));
    }
}
