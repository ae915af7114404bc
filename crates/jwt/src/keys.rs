//! The keys of one signing method: the public keys that verify tokens, and the private key that signs them here. Key
//! files go in once, at the start, and all their errors are reported then. A file of public keys may hold several, so
//! that tokens of the old key stay valid while a new key replaces it.

use crate::method::{KeyKind, SigningMethod};
use crate::{der, pem};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{self as sig, KeyPair, UnparsedPublicKey};

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("neither a public nor a private key is given")]
    NoKey,
    #[error("{0} needs the secret that both sides share, as a private key")]
    NoSecret(&'static str),
    #[error("there is no public key for {0} in the file of public keys")]
    BadPublic(&'static str),
    #[error(
        "there is no private key for {0} in the file of the private key, in a form that can be read \
         (not encrypted, on curves with its public half, RSA with 2048 bits or more)"
    )]
    BadPrivate(&'static str),
    #[error("the private key does not match the public key")]
    Mismatch,
    #[error("there is no private key to sign with")]
    VerifyOnly,
    #[error("the system provides no random numbers")]
    NoRandomness,
}

pub struct JwtKeys {
    method: SigningMethod,
    material: KeyMaterial,
}

enum KeyMaterial {
    Shared(hmac::Key),
    Halves { public: Vec<Vec<u8>>, private: Option<PrivateKey> },
}

enum PrivateKey {
    Rsa(sig::RsaKeyPair),
    Curve(sig::EcdsaKeyPair),
    Edwards(sig::Ed25519KeyPair),
}

/// Never shows the keys.
impl std::fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.method.name())
    }
}

impl JwtKeys {
    /// Loads the contents of key files. Without a private one, tokens can be read and none given out.
    pub fn load(
        method: SigningMethod,
        public: Option<&[u8]>,
        private: Option<&[u8]>,
    ) -> Result<JwtKeys, Error> {
        let name = method.name();
        if let KeyKind::Shared(algorithm) = method.kind() {
            let secret = private.filter(|secret| !secret.is_empty()).ok_or(Error::NoSecret(name))?;
            return Ok(JwtKeys { method, material: KeyMaterial::Shared(hmac::Key::new(algorithm, secret)) });
        }
        let mut halves = match public {
            Some(file) => public_keys(file, method.kind()).ok_or(Error::BadPublic(name))?,
            None => Vec::new(),
        };
        let private = match private {
            Some(file) => Some(private_key(file, method.kind()).ok_or(Error::BadPrivate(name))?),
            None => None,
        };
        match &private {
            Some(private) if halves.is_empty() => halves.push(private.public()),
            Some(private) if !halves.contains(&private.public()) => return Err(Error::Mismatch),
            None if halves.is_empty() => return Err(Error::NoKey),
            _ => {}
        }
        Ok(JwtKeys { method, material: KeyMaterial::Halves { public: halves, private } })
    }

    /// A new private key for `EdDSA`, as bytes that `of_private` reads.
    pub fn generate() -> Result<Vec<u8>, Error> {
        let made = sig::Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Ok(made.map_err(|_| Error::NoRandomness)?.as_ref().to_vec())
    }

    /// The keys of a private key that `generate` has made.
    pub fn of_private(pkcs8: &[u8]) -> Result<JwtKeys, Error> {
        let method = SigningMethod::EdDsa;
        let pair = sig::Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|_| Error::BadPrivate(method.name()))?;
        let private = PrivateKey::Edwards(pair);
        let public = vec![private.public()];
        Ok(JwtKeys { method, material: KeyMaterial::Halves { public, private: Some(private) } })
    }

    /// The keys of one public key, as `public_keys` gives it; tokens can be read and none given out.
    pub fn of_public(method: SigningMethod, public: &[u8]) -> Result<JwtKeys, Error> {
        if public.is_empty() || matches!(method.kind(), KeyKind::Shared(_)) {
            return Err(Error::BadPublic(method.name()));
        }
        Ok(JwtKeys { method, material: KeyMaterial::Halves { public: vec![public.to_vec()], private: None } })
    }

    /// The public keys that any reader of tokens may have; none for a shared secret.
    pub fn public_keys(&self) -> &[Vec<u8>] {
        match &self.material {
            KeyMaterial::Shared(_) => &[],
            KeyMaterial::Halves { public, .. } => public,
        }
    }

    pub fn method(&self) -> SigningMethod {
        self.method
    }

    pub fn can_sign(&self) -> bool {
        !matches!(&self.material, KeyMaterial::Halves { private: None, .. })
    }

    pub(crate) fn signature_of(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.material {
            KeyMaterial::Shared(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            KeyMaterial::Halves { private, .. } => {
                private.as_ref().ok_or(Error::VerifyOnly)?.sign(self.method, message)
            }
        }
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Shared(key) => hmac::verify(key, message, signature).is_ok(),
            KeyMaterial::Halves { public, .. } => {
                public.iter().any(|key| verify(self.method, key, message, signature))
            }
        }
    }
}

fn verify(method: SigningMethod, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let verify = |algorithm: &'static dyn sig::VerificationAlgorithm| {
        UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
    };
    match method.kind() {
        KeyKind::Rsa { verify: algorithm, .. } => verify(algorithm),
        KeyKind::Curve { verify: algorithm, .. } => verify(algorithm),
        KeyKind::Edwards => verify(&sig::ED25519),
        KeyKind::Shared(_) => false,
    }
}

impl PrivateKey {
    fn public(&self) -> Vec<u8> {
        match self {
            PrivateKey::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            PrivateKey::Curve(pair) => pair.public_key().as_ref().to_vec(),
            PrivateKey::Edwards(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    fn sign(&self, method: SigningMethod, message: &[u8]) -> Result<Vec<u8>, Error> {
        let random = SystemRandom::new();
        match (self, method.kind()) {
            (PrivateKey::Rsa(pair), KeyKind::Rsa { sign, .. }) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(sign, &random, message, &mut signature).map_err(|_| Error::NoRandomness)?;
                Ok(signature)
            }
            (PrivateKey::Curve(pair), _) => {
                let signature = pair.sign(&random, message).map_err(|_| Error::NoRandomness)?;
                Ok(signature.as_ref().to_vec())
            }
            (PrivateKey::Edwards(pair), _) => Ok(pair.sign(message).as_ref().to_vec()),
            (PrivateKey::Rsa(_), _) => unreachable!("a key is loaded for the method that it signs with"),
        }
    }
}

/// All keys of the file. A key for another method makes the file invalid.
fn public_keys(file: &[u8], kind: KeyKind) -> Option<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    for block in pem::blocks(std::str::from_utf8(file).ok()?)? {
        keys.push(match block.label.as_str() {
            "PUBLIC KEY" => der::public_key(&block.bytes, kind)?,
            "CERTIFICATE" => der::public_key(der::key_of_certificate(&block.bytes)?, kind)?,
            "RSA PUBLIC KEY" if matches!(kind, KeyKind::Rsa { .. }) && der::is_rsa(&block.bytes) => {
                block.bytes
            }
            "EC PARAMETERS" => continue,
            _ => return None,
        });
    }
    (!keys.is_empty()).then_some(keys)
}

/// The first key of the file.
fn private_key(file: &[u8], kind: KeyKind) -> Option<PrivateKey> {
    let blocks = pem::blocks(std::str::from_utf8(file).ok()?)?;
    let block = blocks.into_iter().find(|block| block.label.ends_with("PRIVATE KEY"))?;
    let random = SystemRandom::new();
    let bytes = &block.bytes[..];
    match (block.label.as_str(), kind) {
        ("PRIVATE KEY", KeyKind::Rsa { .. }) => sig::RsaKeyPair::from_pkcs8(bytes).ok().map(PrivateKey::Rsa),
        ("RSA PRIVATE KEY", KeyKind::Rsa { .. }) => {
            sig::RsaKeyPair::from_der(bytes).ok().map(PrivateKey::Rsa)
        }
        ("PRIVATE KEY", KeyKind::Curve { sign, .. }) => {
            sig::EcdsaKeyPair::from_pkcs8(sign, bytes, &random).ok().map(PrivateKey::Curve)
        }
        ("EC PRIVATE KEY", KeyKind::Curve { sign, oid, .. }) => {
            let (private, public) = der::curve_pair(bytes, oid)?;
            let pair = sig::EcdsaKeyPair::from_private_key_and_public_key(sign, private, public, &random);
            pair.ok().map(PrivateKey::Curve)
        }
        ("PRIVATE KEY", KeyKind::Edwards) => {
            sig::Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes).ok().map(PrivateKey::Edwards)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
