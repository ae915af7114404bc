//! Reads from a verified certificate what the TLS library does not expose: the common name of its subject, and its
//! expiry. DER goes in; a text or a time comes out, or `None` for malformed input. No length is trusted.

use base::date::UtcTime;

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which the first certificates did not have.
const VERSION: u8 = 0xa0;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The last of several common names, as Go reads them. An empty one is none.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let mut subject = Fields::of(certificate)?.subject;
    let mut found = None;
    while !subject.is_empty() {
        let mut names = take(&mut subject, SET)?;
        while !names.is_empty() {
            let mut name = take(&mut names, SEQUENCE)?;
            if take(&mut name, OBJECT)? == COMMON_NAME {
                found = text(name);
            }
        }
    }
    found.filter(|name| !name.is_empty())
}

/// The last second at which it is valid, since 1970.
pub fn expiry(certificate: &[u8]) -> Option<u64> {
    let mut validity = Fields::of(certificate)?.validity;
    next(&mut validity)?;
    let (tag, time) = next(&mut validity)?;
    let digits = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = digits.split_at(2);
            let year: u64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at(4);
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let pair = |nth: usize| rest[2 * nth..2 * nth + 2].parse::<u64>().ok();
    let [month, day, hour, minute, second] = [pair(0)?, pair(1)?, pair(2)?, pair(3)?, pair(4)?];
    UtcTime { year, month, day, hour, minute, second }.seconds()
}

/// The parts of a certificate that are looked at.
struct Fields<'a> {
    validity: &'a [u8],
    subject: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(mut certificate: &'a [u8]) -> Option<Fields<'a>> {
        let mut whole = take(&mut certificate, SEQUENCE)?;
        let mut body = take(&mut whole, SEQUENCE)?;
        if body.first() == Some(&VERSION) {
            next(&mut body)?;
        }
        take(&mut body, INTEGER)?;
        // The algorithm of the signature, and the issuer.
        take(&mut body, SEQUENCE)?;
        take(&mut body, SEQUENCE)?;
        let validity = take(&mut body, SEQUENCE)?;
        Some(Fields { validity, subject: take(&mut body, SEQUENCE)? })
    }
}

fn text(mut value: &[u8]) -> Option<String> {
    match next(&mut value)? {
        (UTF8_STRING | PRINTABLE_STRING | IA5_STRING, text) => String::from_utf8(text.to_vec()).ok(),
        _ => None,
    }
}

fn take<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, content) = next(bytes)?;
    (found == tag).then_some(content)
}

/// The next value: its tag and its content. Lengths of more than four bytes are no certificate's.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, digit| (len << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some((tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::chain;
    use std::path::Path;

    fn der(name: &str) -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pem").join(name);
        chain(&path).unwrap()[0].to_vec()
    }

    #[test]
    fn a_certificate_tells_whose_it_is_and_until_when() {
        assert_eq!(common_name(&der("alice.pem")).as_deref(), Some("alice"));
        assert_eq!(common_name(&der("nameless.pem")), None);
        // 2120-01-01T00:00:00Z
        assert_eq!(expiry(&der("alice.pem")), Some(4_733_510_400));
    }

    #[test]
    fn a_damaged_certificate_tells_something_or_nothing_and_never_panics() {
        let whole = der("alice.pem");
        for cut in 0..whole.len() {
            let (_, _) = (common_name(&whole[..cut]), expiry(&whole[..cut]));
        }
        for position in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[position] ^= 1 << bit;
                let (_, _) = (common_name(&damaged), expiry(&damaged));
            }
        }
        assert_eq!(common_name(&[]), None);
        assert_eq!(expiry(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
