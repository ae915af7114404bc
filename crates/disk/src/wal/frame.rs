//! One frame: the records of one `write`, with what recovery needs to judge them.
//! Encoding appends to a buffer that goes to the disk in one call; checking takes the bytes of a segment and
//! an offset, and never panics whatever the bytes are.
//! A frame is accepted only where and in the file it was written for: its checksum covers both.

use super::record::WalRecord;
use crate::mutant::Mutant;
use base::checksum;
use base::mutant::planted;
use base::rng::mix;
use bytes::BufMut;

/// Frames begin at multiples of this.
pub const ALIGN: usize = 8;
/// Tag, checksum, length, count, sequence, durable.
pub const HEAD_BYTES: usize = 32;
/// More than this in one batch is a bug above.
pub const FRAME_BYTES_MAX: usize = 1 << 30;

const MAGIC: u64 = u64::from_le_bytes(*b"WALFRAME");

/// Orders all frames of a log, with a gap at every opening of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first frame of a log.
    pub const NONE: Sequence = Sequence(0);
    /// More frames than are ever written without a sync.
    const OPENING_GAP: u64 = 1 << 32;

    pub fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }

    /// The first frame of an opening that found this one last: above everything that the opening before
    /// could have written behind it without syncing, whether or not a trace of it can be seen.
    pub fn next_opening(self) -> Sequence {
        Sequence(self.0 + Self::OPENING_GAP)
    }
}

/// Where a frame lies; part of its checksum.
#[derive(Clone, Copy, Debug)]
pub struct FrameAddress {
    pub file_id: u64,
    pub offset: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub sequence: Sequence,
    /// The newest frame known to be durable when this one was written.
    pub durable: Sequence,
    pub records: Vec<WalRecord>,
    /// Padding included: the next frame begins so much further.
    pub len: u64,
}

/// Why there is no frame at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFrame {
    /// Nothing of this file was ever begun here: zeroes, or remains of the segment's earlier use.
    Nothing,
    /// A frame of this file begins here and does not hold together.
    Broken(&'static str),
}

pub fn encoded_len(records: &[WalRecord]) -> usize {
    len_of(records.iter().map(|record| record.payload.len()))
}

/// The length of a frame whose records have payloads of these lengths.
pub fn len_of(payload_lens: impl Iterator<Item = usize>) -> usize {
    let body: usize = payload_lens.map(WalRecord::encoded_len).sum();
    (HEAD_BYTES + body).next_multiple_of(ALIGN)
}

/// Appends the frame to `out`.
pub fn encode(
    place: FrameAddress,
    sequence: Sequence,
    durable: Sequence,
    records: &[WalRecord],
    out: &mut Vec<u8>,
) {
    let len = encoded_len(records);
    assert!(len <= FRAME_BYTES_MAX, "a batch of {len} bytes is beyond what the log takes at once");
    let start = out.len();
    out.put_u32_le(tag(place.file_id));
    out.put_u32_le(0);
    out.put_u32_le(len as u32);
    out.put_u32_le(records.len() as u32);
    out.put_u64_le(sequence.0);
    out.put_u64_le(durable.0);
    for record in records {
        record.encode(out);
    }
    out.resize(start + len, 0);
    let crc = frame_crc(place, &out[start..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// The frame that begins at `place`, where `segment` is the whole file.
pub fn check(segment: &[u8], place: FrameAddress) -> Result<Frame, NoFrame> {
    read(segment, place, |sums_match| sums_match)
}

/// The same where records are replayed: the one place where the planted bug may let a torn frame through.
pub fn check_replayed(segment: &[u8], place: FrameAddress) -> Result<Frame, NoFrame> {
    read(segment, place, |sums_match| sums_match || planted(Mutant::TornTailAccepted))
}

/// A frame begins here whose first word alone is wrong: everything behind it holds together.
pub fn has_lost_its_tag(segment: &[u8], place: FrameAddress) -> bool {
    let rest = segment.get(place.offset as usize..).unwrap_or_default();
    if rest.len() < HEAD_BYTES {
        return false;
    }
    let len = u32_at(rest, 8) as usize;
    let is_possible = len >= HEAD_BYTES && len <= rest.len() && len.is_multiple_of(ALIGN);
    is_possible && u32_at(rest, 4) == frame_crc(place, &rest[..len])
}

fn read(segment: &[u8], place: FrameAddress, accepts: impl Fn(bool) -> bool) -> Result<Frame, NoFrame> {
    let rest = segment.get(place.offset as usize..).unwrap_or_default();
    if rest.len() < HEAD_BYTES || u32_at(rest, 0) != tag(place.file_id) {
        return Err(NoFrame::Nothing);
    }
    let len = u32_at(rest, 8) as usize;
    if len < HEAD_BYTES || len > rest.len() || !len.is_multiple_of(ALIGN) {
        return Err(NoFrame::Broken("the length of a frame is impossible"));
    }
    let bytes = &rest[..len];
    if !accepts(u32_at(bytes, 4) == frame_crc(place, bytes)) {
        return Err(NoFrame::Broken("the checksum of a frame does not match"));
    }
    let records = decode_records(&bytes[HEAD_BYTES..], u32_at(bytes, 12))
        .ok_or(NoFrame::Broken("the records of a frame cannot be read"))?;
    Ok(Frame {
        sequence: Sequence(u64_at(bytes, 16)),
        durable: Sequence(u64_at(bytes, 24)),
        records,
        len: len as u64,
    })
}

fn decode_records(mut bytes: &[u8], count: u32) -> Option<Vec<WalRecord>> {
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(WalRecord::decode(&mut bytes)?);
    }
    (bytes.len() < ALIGN).then_some(records)
}

/// The first word of every frame of a file. It differs from file to file, so what a recycled segment still holds of
/// its earlier use does not even look like a frame.
fn tag(file_id: u64) -> u32 {
    mix(MAGIC ^ file_id) as u32 | 1
}

fn frame_crc(place: FrameAddress, frame: &[u8]) -> u32 {
    checksum::crc32(&[&place.file_id.to_le_bytes(), &place.offset.to_le_bytes(), &frame[8..]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
