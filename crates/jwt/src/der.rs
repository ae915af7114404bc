//! As much of DER as key files need: public keys (also within certificates), and private keys on curves as OpenSSL
//! writes them by default. Bytes go in and the parts that the signing library takes come out; malformed input is
//! `None`.

use crate::method::KeyKind;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// In a certificate the version, in a private key the curve.
const FIRST_OPTION: u8 = 0xa0;
/// In a private key, its public half.
const SECOND_OPTION: u8 = 0xa1;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const CURVE: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// The least length of an RSA key: what is shorter can be broken, and the library does not verify with it.
const RSA_BYTES_MIN: usize = 256;

/// Elements one after the other.
#[derive(Clone, Copy)]
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Two bytes of length are 64 KiB, more than any key.
            0x81 | 0x82 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    fn within(&mut self, tag: u8) -> Option<Elements<'a>> {
        self.take(tag).map(Elements)
    }

    /// The element if it is next; another element is not consumed.
    fn option(&mut self, tag: u8) -> Option<Elements<'a>> {
        let mut ahead = *self;
        let found = ahead.within(tag)?;
        *self = ahead;
        Some(found)
    }
}

/// Bits that are whole bytes.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[0])
}

/// The key in a SubjectPublicKeyInfo, if it is one for this kind of method.
pub(crate) fn public_key(info: &[u8], kind: KeyKind) -> Option<Vec<u8>> {
    let mut info = Elements(info).within(SEQUENCE)?;
    let mut algorithm = info.within(SEQUENCE)?;
    let name = algorithm.take(OBJECT)?;
    let key = bits(info.take(BIT_STRING)?)?;
    let fits = match kind {
        KeyKind::Rsa { .. } => name == RSA && is_rsa(key),
        KeyKind::Curve { oid, .. } => name == CURVE && algorithm.take(OBJECT)? == oid,
        KeyKind::Edwards => name == ED25519 && key.len() == 32,
        KeyKind::Shared(_) => false,
    };
    fits.then(|| key.to_vec())
}

/// Whether it is an RSAPublicKey of a size that can be trusted.
pub(crate) fn is_rsa(key: &[u8]) -> bool {
    let modulus = Elements(key).within(SEQUENCE).and_then(|mut key| key.take(INTEGER));
    modulus.is_some_and(|modulus| modulus.strip_prefix(&[0]).unwrap_or(modulus).len() >= RSA_BYTES_MIN)
}

/// The SubjectPublicKeyInfo of a certificate, of which nothing else matters here.
pub(crate) fn key_of_certificate(certificate: &[u8]) -> Option<&[u8]> {
    let mut to_be_signed = Elements(certificate).within(SEQUENCE)?.within(SEQUENCE)?;
    to_be_signed.option(FIRST_OPTION);
    to_be_signed.take(INTEGER)?;
    // The method of its signature, the issuer, the validity, the subject.
    for _ in 0..4 {
        to_be_signed.take(SEQUENCE)?;
    }
    let (before, key) = (to_be_signed.0, to_be_signed.take(SEQUENCE)?);
    let header = before.len() - to_be_signed.0.len() - key.len();
    before.get(..header + key.len())
}

/// The two halves of an ECPrivateKey (RFC 5915) on this curve.
pub(crate) fn curve_pair<'a>(key: &'a [u8], curve: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut key = Elements(key).within(SEQUENCE)?;
    key.take(INTEGER)?;
    let private = key.take(OCTET_STRING)?;
    if let Some(mut named) = key.option(FIRST_OPTION)
        && named.take(OBJECT)? != curve
    {
        return None;
    }
    let public = bits(key.within(SECOND_OPTION)?.take(BIT_STRING)?)?;
    Some((private, public))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningMethod;

    #[test]
    fn whatever_is_cut_short_is_nothing() {
        let block = |text: &str| crate::pem::blocks(text).unwrap().remove(0).bytes;
        let public = block(include_str!("../keys/es256.pub.pem"));
        let certificate = block(include_str!("../keys/rs256.crt.pem"));
        let kind = SigningMethod::Es256.kind();
        assert!(public_key(&public, kind).is_some());
        assert!(public_key(key_of_certificate(&certificate).unwrap(), SigningMethod::Rs256.kind()).is_some());
        for end in 0..public.len() {
            assert_eq!(public_key(&public[..end], kind), None);
        }
        for end in 0..certificate.len() {
            assert_eq!(key_of_certificate(&certificate[..end]), None);
        }
        assert_eq!(public_key(&public, SigningMethod::Es384.kind()), None, "another curve");
        assert_eq!(public_key(&public, SigningMethod::Rs256.kind()), None, "another algorithm");
    }
}
