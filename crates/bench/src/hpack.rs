//! Header fields out of HTTP/2's compressed blocks (RFC 7541): as much of them as a gRPC client looks at.
//! Blocks go in, in the order in which they came; the outcome of the call comes out, if the block tells it.
//! The table of fields is kept exactly as the sender keeps it, or everything after would be misread.

use std::collections::VecDeque;

/// What this side allows; the protocol's default, so that nothing need be agreed upon.
const TABLE_BYTES: usize = 4_096;
/// What a field costs in the table beside its bytes.
const FIELD_BYTES: usize = 32;
/// Fields that both sides know from the start; `grpc-status` is not among them.
const STATIC_FIELDS: usize = 61;

/// The bytes do not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What the fields of one block say about the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `grpc-status`, when it was there.
    pub status: Option<u32>,
    /// `grpc-message`, as it was sent.
    pub message: Option<String>,
}

#[derive(Clone, Debug)]
struct Field {
    name: Name,
    value: Vec<u8>,
    bytes: usize,
}

/// The names that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Status,
    Message,
    Other,
}

impl Name {
    fn of(bytes: &[u8]) -> Name {
        match bytes {
            b"grpc-status" => Name::Status,
            b"grpc-message" => Name::Message,
            _ => Name::Other,
        }
    }
}

#[derive(Debug)]
pub struct Decoder {
    /// The newest first.
    fields: VecDeque<Field>,
    bytes: usize,
    limit: usize,
    /// Where strings are decoded, kept from one to the next.
    text: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { fields: VecDeque::new(), bytes: 0, limit: TABLE_BYTES, text: Vec::new() }
    }
}

impl Decoder {
    pub fn decode(&mut self, block: &[u8]) -> Result<Outcome, Malformed> {
        let mut rest = block;
        let mut outcome = Outcome::default();
        while let Some(first) = rest.first().copied() {
            match first {
                0x80.. => {
                    let idx = integer(&mut rest, 7)?;
                    self.note_indexed(idx, &mut outcome)?;
                }
                0x40.. => self.take_literal(&mut rest, 6, true, &mut outcome)?,
                0x20.. => {
                    let limit = integer(&mut rest, 5)?;
                    self.limit = if limit <= TABLE_BYTES { limit } else { return Err(Malformed) };
                    self.evict();
                }
                _ => self.take_literal(&mut rest, 4, false, &mut outcome)?,
            }
        }
        Ok(outcome)
    }

    fn note_indexed(&self, idx: usize, outcome: &mut Outcome) -> Result<(), Malformed> {
        match idx.checked_sub(STATIC_FIELDS + 1) {
            Some(dynamic) => {
                let field = self.fields.get(dynamic).ok_or(Malformed)?;
                outcome.note(field.name, &field.value);
            }
            None if idx == 0 => return Err(Malformed),
            None => {}
        }
        Ok(())
    }

    fn take_literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        indexed: bool,
        outcome: &mut Outcome,
    ) -> Result<(), Malformed> {
        let idx = integer(rest, prefix)?;
        let (name, name_bytes) = match idx.checked_sub(STATIC_FIELDS + 1) {
            Some(dynamic) => {
                let field = self.fields.get(dynamic).ok_or(Malformed)?;
                (field.name, field.bytes - field.value.len() - FIELD_BYTES)
            }
            None if idx == 0 => {
                self.text.clear();
                string(rest, &mut self.text)?;
                (Name::of(&self.text), self.text.len())
            }
            None => (Name::Other, STATIC_NAME_BYTES[idx - 1]),
        };
        self.text.clear();
        string(rest, &mut self.text)?;
        outcome.note(name, &self.text);
        if indexed {
            let bytes = name_bytes + self.text.len() + FIELD_BYTES;
            self.fields.push_front(Field { name, value: self.text.clone(), bytes });
            self.bytes += bytes;
            self.evict();
        }
        Ok(())
    }

    fn evict(&mut self) {
        while self.bytes > self.limit {
            let oldest = self.fields.pop_back().expect("bytes are counted only for fields that are there");
            self.bytes -= oldest.bytes;
        }
    }
}

impl Outcome {
    fn note(&mut self, name: Name, value: &[u8]) {
        let text = || String::from_utf8_lossy(value);
        match name {
            Name::Status => self.status = text().parse().ok(),
            Name::Message => self.message = Some(text().into_owned()),
            Name::Other => {}
        }
    }
}

/// An integer whose first `prefix` bits lie in the first byte.
fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, Malformed> {
    let mask = (1usize << prefix) - 1;
    let (first, behind) = rest.split_first().ok_or(Malformed)?;
    *rest = behind;
    let mut number = usize::from(*first) & mask;
    if number < mask {
        return Ok(number);
    }
    for shift in [0, 7, 14, 21] {
        let (byte, behind) = rest.split_first().ok_or(Malformed)?;
        *rest = behind;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed)
}

/// A string, plain or in Huffman's code.
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let coded = rest.first().ok_or(Malformed)? & 0x80 != 0;
    let len = integer(rest, 7)?;
    let (text, behind) = rest.split_at_checked(len).ok_or(Malformed)?;
    *rest = behind;
    match coded {
        true => huffman(text, out),
        false => {
            out.extend_from_slice(text);
            Ok(())
        }
    }
}

/// The code is canonical: shorter codes come first, equal lengths in the order of their bytes, so the lengths say
/// everything.
fn huffman(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (mut code, mut len) = (0u32, 0usize);
    for bit in text.iter().flat_map(|byte| (0..8).rev().map(move |shift| u32::from(byte >> shift & 1))) {
        code = code << 1 | bit;
        len += 1;
        let row = CODES.lengths.get(len).ok_or(Malformed)?;
        if let Some(nth) = code.checked_sub(row.first)
            && nth < row.count
        {
            out.push(CODES.symbols[(row.offset + nth) as usize]);
            (code, len) = (0, 0);
        }
    }
    // The last byte is filled up with ones.
    match len < 8 && code == (1 << len) - 1 {
        true => Ok(()),
        false => Err(Malformed),
    }
}

#[derive(Clone, Copy)]
struct OfLength {
    /// The smallest code of this length.
    first: u32,
    count: u32,
    /// Where its symbols begin.
    offset: u32,
}

struct Codes {
    lengths: [OfLength; LENGTH_MAX + 1],
    symbols: [u8; 256],
}

const LENGTH_MAX: usize = 30;
static CODES: Codes = codes();

const fn codes() -> Codes {
    let mut lengths = [OfLength { first: 0, count: 0, offset: 0 }; LENGTH_MAX + 1];
    let mut symbols = [0; 256];
    let (mut len, mut code, mut placed) = (1, 0, 0);
    while len <= LENGTH_MAX {
        code <<= 1;
        lengths[len] = OfLength { first: code, count: 0, offset: placed };
        let mut symbol = 0;
        while symbol < 256 {
            if CODE_LENGTHS[symbol] as usize == len {
                symbols[placed as usize] = symbol as u8;
                placed += 1;
                code += 1;
            }
            symbol += 1;
        }
        lengths[len].count = code - lengths[len].first;
        len += 1;
    }
    Codes { lengths, symbols }
}

/// By byte: RFC 7541, appendix B.
#[rustfmt::skip]
const CODE_LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Of the names of the static table: RFC 7541, appendix A.
#[rustfmt::skip]
const STATIC_NAME_BYTES: [usize; STATIC_FIELDS] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12,
    6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];

#[cfg(test)]
mod tests;
