//! The ways to sign, by the names that RFC 7518 gives them, and what the library calls each. ES512 is known to etcd
//! and not to us: our library does not support its curve.

use ring::hmac;
use ring::signature as sig;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningMethod {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// What a method needs of its keys.
#[derive(Clone, Copy)]
pub(crate) enum KeyKind {
    /// One secret on both sides.
    Shared(hmac::Algorithm),
    Rsa {
        sign: &'static dyn sig::RsaEncoding,
        verify: &'static sig::RsaParameters,
    },
    Curve {
        sign: &'static sig::EcdsaSigningAlgorithm,
        verify: &'static sig::EcdsaVerificationAlgorithm,
        /// The object identifier of the curve, as it stands in key files.
        oid: &'static [u8],
    },
    Edwards,
}

const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

impl SigningMethod {
    pub const ALL: [SigningMethod; 12] = [
        SigningMethod::Hs256,
        SigningMethod::Hs384,
        SigningMethod::Hs512,
        SigningMethod::Rs256,
        SigningMethod::Rs384,
        SigningMethod::Rs512,
        SigningMethod::Ps256,
        SigningMethod::Ps384,
        SigningMethod::Ps512,
        SigningMethod::Es256,
        SigningMethod::Es384,
        SigningMethod::EdDsa,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            SigningMethod::Hs256 => "HS256",
            SigningMethod::Hs384 => "HS384",
            SigningMethod::Hs512 => "HS512",
            SigningMethod::Rs256 => "RS256",
            SigningMethod::Rs384 => "RS384",
            SigningMethod::Rs512 => "RS512",
            SigningMethod::Ps256 => "PS256",
            SigningMethod::Ps384 => "PS384",
            SigningMethod::Ps512 => "PS512",
            SigningMethod::Es256 => "ES256",
            SigningMethod::Es384 => "ES384",
            SigningMethod::EdDsa => "EdDSA",
        }
    }

    pub(crate) fn kind(self) -> KeyKind {
        let rsa = |sign, verify| KeyKind::Rsa { sign, verify };
        match self {
            SigningMethod::Hs256 => KeyKind::Shared(hmac::HMAC_SHA256),
            SigningMethod::Hs384 => KeyKind::Shared(hmac::HMAC_SHA384),
            SigningMethod::Hs512 => KeyKind::Shared(hmac::HMAC_SHA512),
            SigningMethod::Rs256 => rsa(&sig::RSA_PKCS1_SHA256, &sig::RSA_PKCS1_2048_8192_SHA256),
            SigningMethod::Rs384 => rsa(&sig::RSA_PKCS1_SHA384, &sig::RSA_PKCS1_2048_8192_SHA384),
            SigningMethod::Rs512 => rsa(&sig::RSA_PKCS1_SHA512, &sig::RSA_PKCS1_2048_8192_SHA512),
            SigningMethod::Ps256 => rsa(&sig::RSA_PSS_SHA256, &sig::RSA_PSS_2048_8192_SHA256),
            SigningMethod::Ps384 => rsa(&sig::RSA_PSS_SHA384, &sig::RSA_PSS_2048_8192_SHA384),
            SigningMethod::Ps512 => rsa(&sig::RSA_PSS_SHA512, &sig::RSA_PSS_2048_8192_SHA512),
            SigningMethod::Es256 => KeyKind::Curve {
                sign: &sig::ECDSA_P256_SHA256_FIXED_SIGNING,
                verify: &sig::ECDSA_P256_SHA256_FIXED,
                oid: P256,
            },
            SigningMethod::Es384 => KeyKind::Curve {
                sign: &sig::ECDSA_P384_SHA384_FIXED_SIGNING,
                verify: &sig::ECDSA_P384_SHA384_FIXED,
                oid: P384,
            },
            SigningMethod::EdDsa => KeyKind::Edwards,
        }
    }
}

/// As etcd parses it: case-sensitive.
impl FromStr for SigningMethod {
    type Err = ();

    fn from_str(name: &str) -> Result<SigningMethod, ()> {
        SigningMethod::ALL.into_iter().find(|method| method.name() == name).ok_or(())
    }
}
