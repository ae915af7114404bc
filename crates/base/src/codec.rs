//! Byte codecs: little-endian fixed integers, LEB128 varints, length-prefixed bytes.
//! Writing cannot fail; reading returns `None` on anything malformed and never panics or over-allocates,
//! so that bytes from a disk or a peer can be handed to it as they are.

use crate::checksum::crc32;
use bytes::{Buf, Bytes};

/// The longest encoding of a 64-bit number.
const VARINT_BYTES_MAX: usize = 10;

/// Most numbers are small: those of one byte are written at once. Others are written as long as they can be and cut to
/// what they are, which takes no loop over the vector and no copy of a length that is not known beforehand.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        return out.push(value as u8);
    }
    let (bytes, len) = long_varint(value);
    let end = out.len() + len;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

fn long_varint(mut value: u64) -> ([u8; VARINT_BYTES_MAX], usize) {
    let (mut bytes, mut len) = ([0; VARINT_BYTES_MAX], 0);
    while value >= 0x80 {
        bytes[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    bytes[len] = value as u8;
    (bytes, len + 1)
}

/// The number at the front of a slice, and how many bytes it takes.
#[inline]
fn front_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        [first, ..] if first < 0x80 => Some((u64::from(first), 1)),
        [first, second, ..] if second < 0x80 => Some((u64::from(first & 0x7f) | u64::from(second) << 7, 2)),
        _ => front_long_varint(bytes),
    }
}

fn front_long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (idx, byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if idx == VARINT_BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * idx);
        if byte & 0x80 == 0 {
            return Some((value, idx + 1));
        }
    }
    None
}

fn to_signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that `put_varint` will write.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Small numbers of either sign in few bytes.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub fn put_optional(out: &mut Vec<u8>, bytes: Option<&Bytes>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

/// Appends the CRC-32 of everything before.
pub fn put_checksum(out: &mut Vec<u8>) {
    let sum = crc32(&[out]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// What stands before the checksum that `put_checksum` wrote. None if it does not match.
pub fn checked_body(mut bytes: Bytes) -> Option<Bytes> {
    let body = bytes.split_to(bytes.len().checked_sub(4)?);
    (bytes == crc32(&[&body]).to_le_bytes()[..]).then_some(body)
}

/// Reads what `put_signed` wrote from the front of a slice, and leaves the rest.
pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let (value, len) = front_varint(bytes)?;
    *bytes = &bytes[len..];
    Some(to_signed(value))
}

/// Reads what the `put_` functions wrote. Values come out as slices of the input, without copying.
#[derive(Clone, Debug)]
pub struct Reader {
    rest: Bytes,
}

impl Reader {
    pub fn new(bytes: Bytes) -> Reader {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn u8(&mut self) -> Option<u8> {
        (!self.rest.is_empty()).then(|| self.rest.get_u8())
    }

    pub fn u32(&mut self) -> Option<u32> {
        (self.rest.len() >= 4).then(|| self.rest.get_u32_le())
    }

    pub fn u64(&mut self) -> Option<u64> {
        (self.rest.len() >= 8).then(|| self.rest.get_u64_le())
    }

    pub fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let (value, len) = front_varint(&self.rest)?;
        self.rest.advance(len);
        Some(value)
    }

    pub fn signed(&mut self) -> Option<i64> {
        self.varint().map(to_signed)
    }

    pub fn bytes(&mut self) -> Option<Bytes> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    pub fn optional(&mut self) -> Option<Option<Bytes>> {
        if self.bool()? { self.bytes().map(Some) } else { Some(None) }
    }

    pub fn take(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.rest.len()).then(|| self.rest.split_to(len))
    }

    /// Everything that is left.
    pub fn rest(self) -> Bytes {
        self.rest
    }

    /// A count of items that each take at least one byte: a count above the bytes left is invalid.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_a_round_trip_at_their_borders() {
        let borders = (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits]);
        for value in borders.chain([u64::MAX - 1, u64::MAX]) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_signed(&mut out, value as i64);
            let mut signed = &out[varint_len(value)..];
            assert_eq!(take_signed(&mut signed), Some(value as i64));
            assert!(signed.is_empty());
            assert_eq!(varint_len(value), {
                let mut v = Vec::new();
                put_varint(&mut v, value);
                v.len()
            });
            let mut reader = Reader::new(Bytes::from(out));
            assert_eq!(reader.varint(), Some(value));
            assert_eq!(reader.signed(), Some(value as i64));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn malformed_input_is_none_and_never_a_panic() {
        assert_eq!(Reader::new(Bytes::from_static(&[0xff; 11])).varint(), None, "over-long varint");
        assert_eq!(Reader::new(Bytes::from_static(&[0xff; 3])).varint(), None, "cut varint");
        assert_eq!(Reader::new(Bytes::from_static(&[0xff])).varint(), None, "cut behind the first byte");
        let mut too_large = [0xff; 10];
        too_large[9] = 2;
        assert_eq!(Reader::new(Bytes::copy_from_slice(&too_large)).varint(), None, "more than 64 bits");
        assert_eq!(Reader::new(Bytes::from_static(&[5, 1, 2])).bytes(), None, "length beyond the end");
        assert_eq!(Reader::new(Bytes::from_static(&[200, 1, 2])).count(), None, "count beyond the end");
        assert_eq!(Reader::new(Bytes::from_static(&[2])).bool(), None);
    }
}
