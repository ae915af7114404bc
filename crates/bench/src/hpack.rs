//! As much of an answer's header fields as a gRPC client reads.
//! Blocks go in, in the order in which they arrived; the outcome of the call comes out, if the block contains it.

use bytes::Bytes;
use http2::hpack::{self, Field, Malformed};

/// The outcome of a call in the fields of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `grpc-status`, when it was there.
    pub status: Option<u32>,
    /// `grpc-message`, as it was sent.
    pub message: Option<String>,
}

#[derive(Debug, Default)]
pub struct Decoder(hpack::Decoder);

impl Decoder {
    pub fn decode(&mut self, block: Bytes) -> Result<Outcome, Malformed> {
        let mut outcome = Outcome::default();
        self.0.decode(block, |field| outcome.note(&field))?;
        Ok(outcome)
    }
}

impl Outcome {
    fn note(&mut self, field: &Field) {
        let text = || String::from_utf8_lossy(&field.value);
        match &*field.name {
            b"grpc-status" => self.status = text().parse().ok(),
            b"grpc-message" => self.message = Some(text().into_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_in_a_literal_and_by_its_index_afterwards() {
        let mut decoder = Decoder::default();
        let literal = Bytes::from_static(b"\x88\x40\x0bgrpc-status\x015");
        assert_eq!(decoder.decode(literal).unwrap().status, Some(5));
        assert_eq!(decoder.decode(Bytes::from_static(&[0x80 | 62])).unwrap().status, Some(5));
        assert_eq!(decoder.decode(Bytes::from_static(&[0x88])).unwrap().status, None);
    }
}
