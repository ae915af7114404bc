//! Byte codecs: little-endian fixed integers, LEB128 varints, length-prefixed bytes.
//! Writing cannot fail; reading returns `None` on anything malformed and never panics or over-allocates,
//! so that bytes from a disk or a peer can be handed to it as they are.

use bytes::{Buf, BufMut, Bytes};

pub fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Bytes that `put_varint` will write.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Small numbers of either sign in few bytes.
pub fn put_signed(out: &mut impl BufMut, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// Reads what `put_signed` wrote from the front of a slice, and leaves the rest.
pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
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

    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn bytes(&mut self) -> Option<Bytes> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    pub fn take(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.rest.len()).then(|| self.rest.split_to(len))
    }

    /// Everything that is left.
    pub fn rest(self) -> Bytes {
        self.rest
    }

    /// A count of items that each take at least one byte: more than the bytes left is a lie.
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
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
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
        assert_eq!(Reader::new(Bytes::from_static(&[5, 1, 2])).bytes(), None, "length beyond the end");
        assert_eq!(Reader::new(Bytes::from_static(&[200, 1, 2])).count(), None, "count beyond the end");
        assert_eq!(Reader::new(Bytes::from_static(&[2])).bool(), None);
    }
}
