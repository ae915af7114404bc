//! Certificates that are made here: names, a validity and a public key go in, signed DER comes out.
//! They are X.509 v3, good for both ends of a connection, and name hosts and addresses as subject alternative names.

use crate::der::{
    BOOLEAN, GENERALIZED_TIME, OBJECT, OCTET_STRING, SET, UTC_TIME, UTF8_STRING, bit_string, element,
    integer, sequence, tagged,
};
use base::date::UtcTime;
use std::net::IpAddr;

const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// 1.2.840.10045.4.3.2, ECDSA with SHA-256
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// 1.2.840.10045.2.1, and the curve P-256
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALT_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
/// Tags of the kinds of alternative names.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// Bits of the key usage: digital signature, and the signing of certificates.
const SIGNS: u8 = 0x80;
const SIGNS_CERTIFICATES: u8 = 0x04;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Ed25519,
    EcdsaP256,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It signs other certificates.
    Authority,
    /// It stands at an end of a connection.
    End,
}

/// When a certificate is valid.
pub(crate) enum Validity {
    /// From 2020 on, as RFC 5280 says it of what has no end. No clock is needed to make or to check it.
    Always,
    /// In seconds since 1970.
    Between(u64, u64),
}

/// What a certificate says, without its signature.
pub(crate) struct CertificateFields<'a> {
    pub serial: &'a [u8],
    pub issuer: &'a str,
    pub subject: &'a str,
    pub role: Role,
    pub validity: Validity,
    pub hosts: &'a [String],
    pub public_key: &'a [u8],
    pub key_algorithm: Algorithm,
    /// The algorithm of the issuer's signature.
    pub signed_by: Algorithm,
}

impl CertificateFields<'_> {
    pub fn sign(&self, sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let body = self.body();
        let signature = sign(&body)?;
        Some(sequence(&[body, signature_algorithm(self.signed_by), bit_string(&signature)]))
    }

    fn body(&self) -> Vec<u8> {
        let version = tagged(0, &integer(&[2]));
        let key = sequence(&[key_algorithm(self.key_algorithm), bit_string(self.public_key)]);
        sequence(&[
            version,
            integer(self.serial),
            signature_algorithm(self.signed_by),
            name(self.issuer),
            self.validity.encode(),
            name(self.subject),
            key,
            tagged(3, &self.extensions()),
        ])
    }

    fn extensions(&self) -> Vec<u8> {
        let mut extensions = Vec::new();
        match self.role {
            Role::Authority => {
                let authority = sequence(&[element(BOOLEAN, &[0xff])]);
                extensions.push(extension(BASIC_CONSTRAINTS, true, &authority));
                extensions.push(extension(KEY_USAGE, true, &usage(SIGNS_CERTIFICATES)));
            }
            Role::End => {
                extensions.push(extension(KEY_USAGE, true, &usage(SIGNS)));
                let uses = sequence(&[element(OBJECT, SERVER_AUTH), element(OBJECT, CLIENT_AUTH)]);
                extensions.push(extension(EXTENDED_KEY_USAGE, false, &uses));
            }
        }
        if !self.hosts.is_empty() {
            let names: Vec<Vec<u8>> = self.hosts.iter().map(|host| alt_name(host)).collect();
            extensions.push(extension(ALT_NAMES, false, &sequence(&names)));
        }
        sequence(&extensions)
    }
}

impl Validity {
    fn encode(&self) -> Vec<u8> {
        match self {
            Validity::Always => sequence(&[
                element(UTC_TIME, b"200101000000Z"),
                element(GENERALIZED_TIME, b"99991231235959Z"),
            ]),
            Validity::Between(from, until) => sequence(&[time(*from), time(*until)]),
        }
    }
}

/// Through 2049 in the short form, as RFC 5280 wants it.
fn time(seconds: u64) -> Vec<u8> {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::of(seconds);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    match year {
        ..2050 => element(UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes()),
        _ => element(GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes()),
    }
}

fn name(common_name: &str) -> Vec<u8> {
    let attribute = sequence(&[element(OBJECT, COMMON_NAME), element(UTF8_STRING, common_name.as_bytes())]);
    sequence(&[element(SET, &attribute)])
}

fn alt_name(host: &str) -> Vec<u8> {
    match host.parse() {
        Ok(IpAddr::V4(address)) => element(IP_ADDRESS, &address.octets()),
        Ok(IpAddr::V6(address)) => element(IP_ADDRESS, &address.octets()),
        Err(_) => element(DNS_NAME, host.as_bytes()),
    }
}

fn extension(object: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let critical = if critical { element(BOOLEAN, &[0xff]) } else { Vec::new() };
    sequence(&[element(OBJECT, object), critical, element(OCTET_STRING, content)])
}

/// One bit of the key usage; those behind it are left out.
fn usage(bit: u8) -> Vec<u8> {
    element(crate::der::BIT_STRING, &[bit.trailing_zeros() as u8, bit])
}

fn signature_algorithm(algorithm: Algorithm) -> Vec<u8> {
    match algorithm {
        Algorithm::Ed25519 => sequence(&[element(OBJECT, ED25519)]),
        Algorithm::EcdsaP256 => sequence(&[element(OBJECT, ECDSA_SHA256)]),
    }
}

fn key_algorithm(algorithm: Algorithm) -> Vec<u8> {
    match algorithm {
        Algorithm::Ed25519 => sequence(&[element(OBJECT, ED25519)]),
        Algorithm::EcdsaP256 => sequence(&[element(OBJECT, EC_KEY), element(OBJECT, P256)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{common_name, expiry};

    #[test]
    fn a_certificate_reads_back() {
        for (until, validity) in
            [(4_733_510_400, Validity::Between(0, 4_733_510_400)), (1, Validity::Between(0, 1))]
        {
            let statement = CertificateFields {
                serial: &[0x90, 1],
                issuer: "issuer",
                subject: "subject",
                role: Role::End,
                validity,
                hosts: &["a.example".to_owned(), "127.0.0.1".to_owned()],
                public_key: &[7; 32],
                key_algorithm: Algorithm::Ed25519,
                signed_by: Algorithm::Ed25519,
            };
            let der = statement.sign(|_| Some(vec![1; 64])).unwrap();
            assert_eq!(common_name(&der).as_deref(), Some("subject"));
            assert_eq!(expiry(&der), Some(until));
        }
    }
}
