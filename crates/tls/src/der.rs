//! Writes DER: as much of it as certificates need. Contents go in, elements come out.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    match content.len() {
        0..=0x7f => out.push(content.len() as u8),
        _ => {
            let zeros = length.iter().take_while(|byte| **byte == 0).count();
            out.push(0x80 | (length.len() - zeros) as u8);
            out.extend_from_slice(&length[zeros..]);
        }
    }
    out.extend_from_slice(content);
    out
}

pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// An integer that is not negative.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut content = bytes[zeros..].to_vec();
    if content.first().is_none_or(|first| *first >= 0x80) {
        content.insert(0, 0);
    }
    element(INTEGER, &content)
}

/// A string of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// A part with a number of its own, made of other elements.
pub(crate) fn tagged(number: u8, content: &[u8]) -> Vec<u8> {
    element(0xa0 | number, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        assert_eq!(element(OCTET_STRING, &[7; 3]), [4, 3, 7, 7, 7]);
        assert_eq!(element(OCTET_STRING, &[7; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(element(OCTET_STRING, &[7; 0x1234])[..4], [4, 0x82, 0x12, 0x34]);
    }

    #[test]
    fn integers_are_not_negative_and_have_no_leading_zeros() {
        assert_eq!(integer(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0]), [2, 1, 0]);
    }
}
