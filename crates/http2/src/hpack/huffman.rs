//! Huffman's code of header strings (RFC 7541, section 5.2 and appendix B).
//! The code is canonical: shorter codes come first, equal lengths in the order of their bytes, so the lengths of the
//! codes say everything. Codes of up to eight bits, which is what names and numbers are made of, are looked up.

use super::Malformed;

const LENGTH_MAX: usize = 30;
/// No code is shorter.
const LENGTH_MIN: usize = 5;

pub fn decode(text: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(text.len() * 8 / LENGTH_MIN);
    // The bits that are not decoded yet, from the top.
    let (mut bits, mut len) = (0u64, 0usize);
    let mut rest = text.iter();
    loop {
        while len <= 56
            && let Some(byte) = rest.next()
        {
            bits |= u64::from(*byte) << (56 - len);
            len += 8;
        }
        let short = CODES.short[(bits >> 56) as usize];
        let (symbol, taken) = match short.len {
            0 => match long(bits) {
                Some(found) => found,
                None => break,
            },
            taken => (short.symbol, usize::from(taken)),
        };
        if taken > len {
            break;
        }
        out.push(symbol);
        bits <<= taken;
        len -= taken;
    }
    // The last byte is filled up with ones, and with no more than that.
    if rest.next().is_none() && len < 8 && bits == ones(len) { Ok(out) } else { Err(Malformed) }
}

/// A byte whose highest `len` bits are ones.
fn ones(len: usize) -> u64 {
    !(u64::MAX.checked_shr(len as u32).unwrap_or(0))
}

fn long(bits: u64) -> Option<(u8, usize)> {
    (9..=LENGTH_MAX).find_map(|len| {
        let row = CODES.lengths[len];
        let nth = ((bits >> (64 - len)) as u32).checked_sub(row.first)?;
        (nth < row.count).then(|| (CODES.symbols[(row.offset + nth) as usize], len))
    })
}

#[derive(Clone, Copy)]
struct LengthClass {
    /// The smallest code of this length.
    first: u32,
    count: u32,
    /// Where its symbols begin.
    offset: u32,
}

/// What eight bits begin with; a length of zero means a longer code.
#[derive(Clone, Copy)]
struct ShortCode {
    symbol: u8,
    len: u8,
}

struct HuffmanTable {
    lengths: [LengthClass; LENGTH_MAX + 1],
    symbols: [u8; 256],
    short: [ShortCode; 256],
}

static CODES: HuffmanTable = codes();

const fn codes() -> HuffmanTable {
    let mut lengths = [LengthClass { first: 0, count: 0, offset: 0 }; LENGTH_MAX + 1];
    let mut symbols = [0; 256];
    let mut short = [ShortCode { symbol: 0, len: 0 }; 256];
    let (mut len, mut code, mut placed) = (1, 0u32, 0);
    while len <= LENGTH_MAX {
        code <<= 1;
        lengths[len] = LengthClass { first: code, count: 0, offset: placed };
        let mut symbol = 0;
        while symbol < 256 {
            if CODE_LENGTHS[symbol] as usize == len {
                symbols[placed as usize] = symbol as u8;
                if len <= 8 {
                    let first = (code as usize) << (8 - len);
                    let mut nth = 0;
                    while nth < 1 << (8 - len) {
                        short[first + nth] = ShortCode { symbol: symbol as u8, len: len as u8 };
                        nth += 1;
                    }
                }
                placed += 1;
                code += 1;
            }
            symbol += 1;
        }
        lengths[len].count = code - lengths[len].first;
        len += 1;
    }
    HuffmanTable { lengths, symbols, short }
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
