//! Writes header blocks. Fields go in, bytes come out; what every answer of gRPC repeats is put into the
//! other side's table once and is one byte from then on. Nothing else enters the table, so it never overflows: it is used as
//! a whole, or, when the other side's table is too small, not at all.

use super::{FIELD_BYTES, TABLE_BYTES, static_table};

/// The fields that are put into the table.
const REPEATED: [(&[u8], &[u8]); 3] =
    [(b"content-type", b"application/grpc"), (b"grpc-status", b"0"), (b"grpc-message", b"")];
/// The bytes that all repeated fields take in the table.
const REPEATED_BYTES: usize = {
    let (mut sum, mut nth) = (0, 0);
    while nth < REPEATED.len() {
        sum += REPEATED[nth].0.len() + REPEATED[nth].1.len() + FIELD_BYTES;
        nth += 1;
    }
    sum
};

#[derive(Debug)]
pub struct Encoder {
    /// What the other side keeps for us.
    limit: usize,
    /// The smallest and the last limit since the last block; the next block must announce them.
    unannounced: Option<(usize, usize)>,
    /// When each of the repeated fields was put into the table, counted from the first.
    inserted_at: [Option<usize>; REPEATED.len()],
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { limit: TABLE_BYTES, unannounced: None, inserted_at: [None; REPEATED.len()] }
    }
}

impl Encoder {
    /// The other side's table has this size from now on.
    pub fn limit(&mut self, bytes: usize) {
        let limit = if bytes < REPEATED_BYTES { 0 } else { bytes.min(TABLE_BYTES) };
        if limit == self.limit {
            return;
        }
        let smallest = self.unannounced.map_or(limit, |(smallest, _)| smallest.min(limit));
        self.unannounced = Some((smallest, limit));
        self.limit = limit;
        if limit == 0 {
            self.inserted_at = [None; REPEATED.len()];
        }
    }

    /// Before the first field of a block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let Some((smallest, last)) = self.unannounced.take() else { return };
        if smallest < last {
            put_integer(smallest, 0x20, 5, out);
        }
        put_integer(last, 0x20, 5, out);
    }

    /// The first field of an answer.
    pub fn put_status(&mut self, status: u16, out: &mut Vec<u8>) {
        match status {
            200 => out.push(0x88),
            204 => out.push(0x89),
            206 => out.push(0x8a),
            304 => out.push(0x8b),
            400 => out.push(0x8c),
            404 => out.push(0x8d),
            500 => out.push(0x8e),
            other => {
                out.push(0x08);
                put_text(other.to_string().as_bytes(), out);
            }
        }
    }

    pub fn put(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let repeated = REPEATED.iter().position(|known| *known == (name, value));
        let Some(nth) = repeated.filter(|_| self.limit > 0) else {
            return put_literal(name, value, 0, 4, out);
        };
        let inserted_at = self.inserted_at.iter().flatten().count();
        match self.inserted_at[nth] {
            Some(order) => put_integer(static_table::LEN + inserted_at - order, 0x80, 7, out),
            None => {
                self.inserted_at[nth] = Some(inserted_at);
                put_literal(name, value, 0x40, 6, out);
            }
        }
    }
}

fn put_literal(name: &[u8], value: &[u8], pattern: u8, prefix: u32, out: &mut Vec<u8>) {
    match static_table::index_of(name) {
        Some(idx) => put_integer(idx, pattern, prefix, out),
        None => {
            out.push(pattern);
            put_text(name, out);
        }
    }
    put_text(value, out);
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    put_integer(text.len(), 0, 7, out);
    out.extend_from_slice(text);
}

/// An integer whose first `prefix` bits lie in the first byte, beside the pattern.
fn put_integer(number: usize, pattern: u8, prefix: u32, out: &mut Vec<u8>) {
    let mask = (1usize << prefix) - 1;
    if number < mask {
        return out.push(pattern | number as u8);
    }
    out.push(pattern | mask as u8);
    let mut rest = number - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}
