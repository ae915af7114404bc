//! A certificate that a port makes for itself and signs itself, as etcd's `--auto-tls` and `--peer-auto-tls`: it is made
//! once and kept as PEM files. Traffic is encrypted with it; who the other side is, it does not prove.

use crate::files::{chain, key};
use crate::issue::{Algorithm, CertificateFields, Role, Validity};
use crate::secret::random;
use crate::{Error, ServerFiles, certificate, provider};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::sign::CertifiedKey;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const NAME: &str = "althing";
const YEAR_SECONDS: u64 = 365 * 24 * 3_600;
/// So that a clock that is a little behind takes it.
const SLACK_SECONDS: u64 = 24 * 3_600;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PEM_LINE: usize = 64;

/// Where it is kept, and what it is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSigned {
    pub dir: PathBuf,
    /// Host names and addresses that it names.
    pub hosts: Vec<String>,
    /// How long a new one is valid.
    pub years: u64,
}

impl SelfSigned {
    /// The files, made if there are none; one that has ended is replaced.
    pub fn files(&self) -> Result<ServerFiles, Error> {
        let (cert, key_file) = (self.dir.join("cert.pem"), self.dir.join("key.pem"));
        let is_good = || {
            let chain = chain(&cert).ok()?;
            key(&key_file).ok()?;
            certificate::expiry(chain.first()?).filter(|expiry| *expiry > now())
        };
        if is_good().is_none() {
            self.make(&cert, &key_file)?;
        }
        Ok(ServerFiles { cert, key: key_file, ca: None, crl: None })
    }

    pub(crate) fn certified(&self) -> Result<Arc<CertifiedKey>, Error> {
        let files = self.files()?;
        let made = CertifiedKey::from_der(chain(&files.cert)?, key(&files.key)?, &provider());
        made.map(Arc::new).map_err(|reason| crate::files::unusable(&files.cert, reason))
    }

    fn make(&self, cert: &Path, key_file: &Path) -> Result<(), Error> {
        let (certificate, key) = self.sign().ok_or(Error::NoRandomness)?;
        let written = |file: &Path| {
            let file = file.to_owned();
            move |reason| Error::Write { file, reason }
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(written(&self.dir))?;
        write(key_file, &pem("PRIVATE KEY", &key)).map_err(written(key_file))?;
        write(cert, &pem("CERTIFICATE", &certificate)).map_err(written(cert))
    }

    fn sign(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let random_numbers = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random_numbers).ok()?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random_numbers).ok()?;
        let from = now().saturating_sub(SLACK_SECONDS);
        let statement = CertificateFields {
            serial: &random::<16>()?,
            issuer: NAME,
            subject: NAME,
            role: Role::End,
            validity: Validity::Between(from, now() + self.years.max(1) * YEAR_SECONDS),
            hosts: &self.hosts,
            public_key: pair.public_key().as_ref(),
            key_algorithm: Algorithm::EcdsaP256,
            signed_by: Algorithm::EcdsaP256,
        };
        let sign = |body: &[u8]| pair.sign(&random_numbers, body).ok().map(|made| made.as_ref().to_vec());
        Some((statement.sign(sign)?, document.as_ref().to_vec()))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// For its owner alone, and whole or not there.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let fresh = path.with_extension("fresh");
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64(der);
    let lines: Vec<&str> = (0..text.len().div_ceil(PEM_LINE))
        .map(|nth| &text[nth * PEM_LINE..text.len().min((nth + 1) * PEM_LINE)])
        .collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let number =
            part.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        let letters = (0..4).map(|nth| char::from(BASE64[(number >> (18 - 6 * nth)) as usize & 63]));
        out.extend(letters.enumerate().map(|(nth, letter)| if nth > part.len() { '=' } else { letter }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_others_write() {
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn a_certificate_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("fixtures/peer");
        let made = SelfSigned { dir, hosts: vec!["localhost".into(), "127.0.0.1".into()], years: 1 };
        let first = made.certified().unwrap();
        let second = made.certified().unwrap();
        assert_eq!(first.cert, second.cert);
        assert!(certificate::expiry(&first.cert[0]).unwrap() > now() + YEAR_SECONDS - 60);
    }
}
