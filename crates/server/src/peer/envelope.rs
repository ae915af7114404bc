//! One envelope on a peer stream: a header with two checksums, then frames.
//! Encoding appends to a buffer that the writer reuses; reading gives frames that share one allocation.
//! A damaged envelope is an error and never a wrong frame, and memory grows only with bytes that have come.

use base::checksum::crc32;
use base::codec::{self, Reader};
use base::limits::{
    APPEND_BYTES_SOFT, ENTRY_BYTES_MAX, ENVELOPE_BYTES_MAX, ENVELOPE_BYTES_SOFT, PEER_QUEUE_FRAMES,
};
use bytes::Bytes;
use std::io::{self, Read};

/// Length, checksum of the frames, checksum of these two. The header has its own because a damaged length
/// would otherwise be noticed only when that many bytes have come.
const HEADER_BYTES: usize = 12;
/// Frames in one envelope: bounds what a reader allocates for very small frames.
pub(super) const FRAMES_MAX: usize = PEER_QUEUE_FRAMES;
/// One frame, so that any one frame, a soft bound of others and a bulk frame share an envelope.
pub(super) const FRAME_BYTES_MAX: usize = ENVELOPE_BYTES_MAX - 3 * ENVELOPE_BYTES_SOFT;
/// How much an envelope's buffer grows ahead of what has come.
const STEP_BYTES: usize = 64 * 1024;
/// The capacity for so many frames is reserved before they are counted.
const FRAMES_USUAL: usize = 16;

const _: () =
    assert!(FRAME_BYTES_MAX >= ENTRY_BYTES_MAX + APPEND_BYTES_SOFT, "the largest append is a frame");
const _: () = assert!(FRAMES_MAX * 10 <= ENVELOPE_BYTES_SOFT, "the frames' lengths fit beside them");
const _: () = assert!(ENVELOPE_BYTES_MAX <= u32::MAX as usize);

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the peer closed the stream")]
    Closed,
    #[error(transparent)]
    Io(io::Error),
    #[error("nothing came for too long")]
    Silent,
    #[error("an envelope of {0} bytes is longer than {ENVELOPE_BYTES_MAX}")]
    TooLong(usize),
    #[error("the checksum of an envelope does not match")]
    Damaged,
    #[error("an envelope is malformed although its checksum matches")]
    Malformed,
    #[error("invalid frame: {0}")]
    Forged(&'static str),
}

impl ReadError {
    /// The bytes are damaged, or come from something that is no correct peer.
    pub fn is_damage(&self) -> bool {
        matches!(self, ReadError::TooLong(_) | ReadError::Damaged | ReadError::Malformed)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ReadError::Silent,
            _ => ReadError::Io(error),
        }
    }
}

/// Appends one envelope. Without frames it is a ping.
pub(super) fn encode(frames: &[Bytes], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    for frame in frames {
        codec::put_bytes(out, frame);
    }
    let (header, payload) = out[start..].split_at_mut(HEADER_BYTES);
    assert!(payload.len() <= ENVELOPE_BYTES_MAX, "the writer gathers less than an envelope holds");
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..8].copy_from_slice(&crc32(&[payload]).to_le_bytes());
    let crc = crc32(&[&header[..8]]);
    header[8..].copy_from_slice(&crc.to_le_bytes());
}

/// Reads one envelope; calls `on_bytes` for every piece that has arrived, also within a long envelope.
pub(super) fn read(
    input: &mut impl Read,
    on_bytes: &mut impl FnMut(usize) -> io::Result<()>,
) -> Result<Vec<Bytes>, ReadError> {
    let mut header = [0; HEADER_BYTES];
    input.read_exact(&mut header)?;
    let [length, payload_crc, header_crc] =
        [0, 4, 8].map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    if crc32(&[&header[..8]]) != header_crc {
        return Err(ReadError::Damaged);
    }
    let length = length as usize;
    if length > ENVELOPE_BYTES_MAX {
        return Err(ReadError::TooLong(length));
    }
    on_bytes(HEADER_BYTES)?;
    let payload = read_payload(input, length, on_bytes)?;
    if crc32(&[&payload]) != payload_crc {
        return Err(ReadError::Damaged);
    }
    split(payload).ok_or(ReadError::Malformed)
}

fn read_payload(
    input: &mut impl Read,
    length: usize,
    on_bytes: &mut impl FnMut(usize) -> io::Result<()>,
) -> Result<Vec<u8>, ReadError> {
    let mut payload = Vec::with_capacity(length.min(STEP_BYTES));
    while payload.len() < length {
        let step = (length - payload.len()).min(STEP_BYTES);
        if input.by_ref().take(step as u64).read_to_end(&mut payload)? < step {
            return Err(ReadError::Closed);
        }
        on_bytes(step)?;
    }
    Ok(payload)
}

fn split(payload: Vec<u8>) -> Option<Vec<Bytes>> {
    let mut reader = Reader::new(Bytes::from(payload));
    let mut frames = Vec::with_capacity(FRAMES_USUAL);
    while !reader.is_empty() {
        if frames.len() == FRAMES_MAX {
            return None;
        }
        frames.push(reader.bytes()?);
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut bytes: &[u8]) -> Result<Vec<Bytes>, ReadError> {
        read(&mut bytes, &mut |_| Ok(()))
    }

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        encode(&[Bytes::from_static(b"one"), Bytes::new(), Bytes::from(vec![7; 300])], &mut out);
        out
    }

    #[test]
    fn frames_survive_a_round_trip_and_every_byte_is_counted() {
        let bytes = sample();
        let mut counted = 0;
        let mut count = |more| {
            counted += more;
            Ok(())
        };
        let frames = read(&mut bytes.as_slice(), &mut count).unwrap();
        assert_eq!(frames, [Bytes::from_static(b"one"), Bytes::new(), Bytes::from(vec![7; 300])]);
        assert_eq!(counted, bytes.len());
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read_all(&damaged), Err(ReadError::Damaged)), "bit {bit}");
        }
    }

    #[test]
    fn any_cut_is_a_closed_stream() {
        let bytes = sample();
        for length in 0..bytes.len() {
            assert!(matches!(read_all(&bytes[..length]), Err(ReadError::Closed)), "cut at {length}");
        }
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_before_anything_is_allocated() {
        let mut header = ((ENVELOPE_BYTES_MAX + 1) as u32).to_le_bytes().to_vec();
        header.extend_from_slice(&[0; 4]);
        let crc = crc32(&[&header]);
        header.extend_from_slice(&crc.to_le_bytes());
        assert!(matches!(read_all(&header), Err(ReadError::TooLong(_))));
    }

    #[test]
    fn lengths_that_lie_and_floods_of_empty_frames_are_malformed() {
        assert_eq!(split(vec![5, 1, 2]), None, "a frame longer than the envelope");
        assert_eq!(split(vec![0; FRAMES_MAX + 1]), None, "one frame too many");
        assert_eq!(split(vec![0; FRAMES_MAX]).map(|frames| frames.len()), Some(FRAMES_MAX));
    }
}
