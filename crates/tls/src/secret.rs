//! A secret that several nodes share, and the authority that each of them derives from it.
//! A text of at least 32 bytes goes in. Nodes with the same secret derive the same authority, byte by byte, and each
//! issues its own certificates with it, so that no certificate is ever carried from one node to another. A certificate
//! of the authority proves that its holder has the secret.

use crate::Error;
use crate::issue::{Algorithm, CertificateFields, Role, Validity};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, sign::CertifiedKey};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Shorter ones can be guessed.
pub const SECRET_BYTES_MIN: usize = 32;
const SECRET_BYTES_MAX: usize = 4_096;
const SALT: &[u8] = b"althing shared secret 1";
const SEED_BYTES: usize = 32;
const SERIAL_BYTES: usize = 16;

/// What the nodes of a cluster, or of two regions, share.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Blanks and line ends around it do not count.
    pub fn parse(text: &str) -> Option<Secret> {
        let text = text.trim();
        let is_valid = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&text.len())
            && !text.contains(|letter: char| letter.is_control());
        is_valid.then(|| Secret(text.into()))
    }

    pub fn read(path: &Path) -> Result<Secret, Error> {
        let text = crate::files::read(path)?;
        let secret = std::str::from_utf8(&text).ok().and_then(Secret::parse);
        let reason = || format!("a secret is one line of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes");
        secret.ok_or_else(|| Error::Unusable { file: path.to_owned(), reason: reason() })
    }

    /// A new one; nothing if the system gives no random numbers.
    pub fn generate() -> Option<Secret> {
        Some(Secret(hex(&random::<SEED_BYTES>()?).into()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Never shows the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random bytes of the system.
pub fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

/// A hash under which a secret can be kept.
pub fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, &parts.concat()).as_ref());
    bytes
}

/// Identifies an authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(hash(&[certificate]))
    }

    /// Enough of it for a name.
    pub(crate) fn short(&self) -> String {
        hex(&self.0[..8])
    }
}

/// Signs the certificates of those who share a secret.
pub struct Authority {
    key: Ed25519KeyPair,
    certificate: CertificateDer<'static>,
    subject: String,
}

impl Authority {
    /// For one purpose: the same secret gives another authority for another purpose.
    pub fn derive(secret: &Secret, purpose: &str) -> Authority {
        let mut seed = [0; SEED_BYTES];
        let info = [purpose.as_bytes()];
        Salt::new(HKDF_SHA256, SALT)
            .extract(secret.text().as_bytes())
            .expand(&info, HKDF_SHA256)
            .and_then(|key| key.fill(&mut seed))
            .expect("as much is asked for as the hash gives");
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes");
        let subject = format!("althing {purpose}");
        let statement = CertificateFields {
            serial: &[1],
            issuer: &subject,
            subject: &subject,
            role: Role::Authority,
            validity: Validity::Always,
            hosts: &[],
            public_key: key.public_key().as_ref(),
            key_algorithm: Algorithm::Ed25519,
            signed_by: Algorithm::Ed25519,
        };
        let certificate = statement.sign(|body| Some(key.sign(body).as_ref().to_vec()));
        let certificate = CertificateDer::from(certificate.expect("Ed25519 signs anything"));
        Authority { key, certificate, subject }
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    pub(crate) fn roots(&self) -> Result<RootCertStore, Error> {
        roots_of(&self.certificate)
    }

    /// A certificate for these names with a new key, which lies in memory alone. It has no end: a node that has the secret can
    /// issue another at any time, and a node whose clock is wrong must still be able to speak with its peers.
    pub(crate) fn issue(&self, names: &[String]) -> Result<IssuedCertificate, Error> {
        let made = || {
            let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok()?;
            let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).ok()?;
            let serial = random::<SERIAL_BYTES>()?;
            let statement = CertificateFields {
                serial: &serial,
                issuer: &self.subject,
                subject: names.first().map_or("", String::as_str),
                role: Role::End,
                validity: Validity::Always,
                hosts: names,
                public_key: pair.public_key().as_ref(),
                key_algorithm: Algorithm::Ed25519,
                signed_by: Algorithm::Ed25519,
            };
            let certificate = statement.sign(|body| Some(self.key.sign(body).as_ref().to_vec()))?;
            let chain = vec![CertificateDer::from(certificate), self.certificate.clone()];
            Some(IssuedCertificate { chain, key: key.as_ref().to_vec() })
        };
        made().ok_or(Error::NoRandomness)
    }
}

pub(crate) fn roots_of(certificate: &CertificateDer<'static>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let added = roots.add(certificate.clone());
    added.map_err(|reason| Error::Made { reason: reason.to_string() })?;
    Ok(roots)
}

/// A certificate with the one that signed it behind it, and its key.
pub(crate) struct IssuedCertificate {
    pub chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl IssuedCertificate {
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    pub fn certified(&self) -> Result<Arc<CertifiedKey>, Error> {
        let made = CertifiedKey::from_der(self.chain.clone(), self.key(), &crate::provider());
        made.map(Arc::new).map_err(|reason| Error::Made { reason: reason.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::parse(text).unwrap()
    }

    #[test]
    fn a_secret_is_long_enough_and_one_line() {
        let long = "x".repeat(SECRET_BYTES_MIN);
        assert_eq!(secret(&format!(" {long}\n")).text(), long);
        for other in ["", "short", &long[1..], &format!("{long}\nmore"), &"x".repeat(SECRET_BYTES_MAX + 1)] {
            assert_eq!(Secret::parse(other), None, "{other}");
        }
        let made = Secret::generate().unwrap();
        assert_ne!(Some(&made), Secret::generate().as_ref());
        assert_eq!(Secret::parse(made.text()), Some(made.clone()));
        assert_eq!(format!("{made:?}"), "Secret");
    }

    #[test]
    fn one_secret_gives_one_authority_for_each_purpose() {
        let (one, other) = (secret(&"a".repeat(32)), secret(&"b".repeat(32)));
        let fingerprint = |secret: &Secret, purpose| Authority::derive(secret, purpose).fingerprint();
        assert_eq!(fingerprint(&one, "peers"), fingerprint(&one, "peers"));
        assert_ne!(fingerprint(&one, "peers"), fingerprint(&one, "region"));
        assert_ne!(fingerprint(&one, "peers"), fingerprint(&other, "peers"));
    }
}
