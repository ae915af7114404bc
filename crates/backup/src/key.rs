//! The key of encrypted backups: two keys are derived from what the file holds, one that seals objects and one that names them.
//! Names are keyed, because the plain digest of an object would tell a stranger who sees the bucket whether it holds a known content.

use crate::error::Error;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::path::Path;

const KEY_BYTES: usize = 32;

pub struct BackupKey {
    seal: LessSafeKey,
    name: hmac::Key,
}

impl BackupKey {
    /// From a file of 64 hexadecimal digits, or of 32 bytes.
    pub fn read(path: &Path) -> Result<BackupKey, Error> {
        let bytes = std::fs::read(path).map_err(Error::file(path))?;
        let key = parse(&bytes).ok_or_else(|| Error::BadKey { path: path.display().to_string() })?;
        Ok(BackupKey::new(&key))
    }

    pub fn new(key: &[u8; KEY_BYTES]) -> BackupKey {
        let master = hmac::Key::new(hmac::HMAC_SHA256, key);
        let derived = |purpose: &[u8]| hmac::sign(&master, purpose);
        let seal = UnboundKey::new(&AES_256_GCM, derived(b"althing backup objects 1").as_ref())
            .expect("a digest has the length of the key");
        let name = hmac::Key::new(hmac::HMAC_SHA256, derived(b"althing backup names 1").as_ref());
        BackupKey { seal: LessSafeKey::new(seal), name }
    }

    /// The digest under which content is named.
    pub(crate) fn digest(&self, content: &[u8]) -> [u8; 32] {
        hmac::sign(&self.name, content).as_ref().try_into().expect("the digest has 32 bytes")
    }

    /// A random nonce, then the sealed bytes; `head` is bound to them.
    pub(crate) fn seal(&self, head: &[u8], mut bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Target("the system gives no randomness".to_owned());
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        let sealed = Nonce::assume_unique_for_key(nonce);
        self.seal.seal_in_place_append_tag(sealed, Aad::from(head), &mut bytes).map_err(failed)?;
        Ok([&nonce[..], &bytes].concat())
    }

    /// None if another key sealed it, or nothing did.
    pub(crate) fn open(&self, head: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = sealed.to_vec();
        let length = self.seal.open_in_place(nonce, Aad::from(head), &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

fn parse(bytes: &[u8]) -> Option<[u8; KEY_BYTES]> {
    if let Ok(key) = bytes.try_into() {
        return Some(key);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_digits_or_bytes_and_nothing_else() {
        assert_eq!(parse(&[7; 32]), Some([7; 32]));
        assert_eq!(parse(format!("{}\n", "0a".repeat(32)).as_bytes()), Some([10; 32]));
        for bad in [&b""[..], b"short", &[b'a'; 63], &[b'g'; 64], &[0; 33]] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_and_head_alone() {
        let (key, other) = (BackupKey::new(&[1; 32]), BackupKey::new(&[2; 32]));
        let sealed = key.seal(b"head", b"content".to_vec()).unwrap();
        assert_eq!(key.open(b"head", &sealed).unwrap(), b"content");
        assert_eq!(key.open(b"tail", &sealed), None);
        assert_eq!(other.open(b"head", &sealed), None);
        assert_eq!(key.open(b"head", &sealed[..5]), None);
        assert_ne!(key.digest(b"content"), other.digest(b"content"));
    }
}
