//! The ways to sign, by the names that RFC 7518 gives them, and what the library calls each. ES512 is known to etcd
//! and not to us: our library does not support its curve.

use ring::hmac;
use ring::signature as sig;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
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
pub(crate) enum Kind {
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

impl Method {
    pub const ALL: [Method; 12] = [
        Method::Hs256,
        Method::Hs384,
        Method::Hs512,
        Method::Rs256,
        Method::Rs384,
        Method::Rs512,
        Method::Ps256,
        Method::Ps384,
        Method::Ps512,
        Method::Es256,
        Method::Es384,
        Method::EdDsa,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Method::Hs256 => "HS256",
            Method::Hs384 => "HS384",
            Method::Hs512 => "HS512",
            Method::Rs256 => "RS256",
            Method::Rs384 => "RS384",
            Method::Rs512 => "RS512",
            Method::Ps256 => "PS256",
            Method::Ps384 => "PS384",
            Method::Ps512 => "PS512",
            Method::Es256 => "ES256",
            Method::Es384 => "ES384",
            Method::EdDsa => "EdDSA",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        let rsa = |sign, verify| Kind::Rsa { sign, verify };
        match self {
            Method::Hs256 => Kind::Shared(hmac::HMAC_SHA256),
            Method::Hs384 => Kind::Shared(hmac::HMAC_SHA384),
            Method::Hs512 => Kind::Shared(hmac::HMAC_SHA512),
            Method::Rs256 => rsa(&sig::RSA_PKCS1_SHA256, &sig::RSA_PKCS1_2048_8192_SHA256),
            Method::Rs384 => rsa(&sig::RSA_PKCS1_SHA384, &sig::RSA_PKCS1_2048_8192_SHA384),
            Method::Rs512 => rsa(&sig::RSA_PKCS1_SHA512, &sig::RSA_PKCS1_2048_8192_SHA512),
            Method::Ps256 => rsa(&sig::RSA_PSS_SHA256, &sig::RSA_PSS_2048_8192_SHA256),
            Method::Ps384 => rsa(&sig::RSA_PSS_SHA384, &sig::RSA_PSS_2048_8192_SHA384),
            Method::Ps512 => rsa(&sig::RSA_PSS_SHA512, &sig::RSA_PSS_2048_8192_SHA512),
            Method::Es256 => Kind::Curve {
                sign: &sig::ECDSA_P256_SHA256_FIXED_SIGNING,
                verify: &sig::ECDSA_P256_SHA256_FIXED,
                oid: P256,
            },
            Method::Es384 => Kind::Curve {
                sign: &sig::ECDSA_P384_SHA384_FIXED_SIGNING,
                verify: &sig::ECDSA_P384_SHA384_FIXED,
                oid: P384,
            },
            Method::EdDsa => Kind::Edwards,
        }
    }
}

/// As etcd parses it: case-sensitive.
impl FromStr for Method {
    type Err = ();

    fn from_str(name: &str) -> Result<Method, ()> {
        Method::ALL.into_iter().find(|method| method.name() == name).ok_or(())
    }
}
