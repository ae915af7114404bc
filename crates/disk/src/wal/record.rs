//! A record of the log: opaque bytes of one stream, with what the log must know to free its segments. A record goes
//! in by `write` and comes out by replay, in order, byte for byte the same.

use bytes::{BufMut, Bytes};

/// The owner of a record; several streams share one log and so one sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordStream {
    Raft = 1,
    Mesh = 2,
}

impl RecordStream {
    pub const ALL: [RecordStream; 2] = [RecordStream::Raft, RecordStream::Mesh];

    fn from_number(number: u8) -> Option<RecordStream> {
        RecordStream::ALL.into_iter().find(|stream| *stream as u8 == number)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalRecord {
    pub stream: RecordStream,
    /// Where the record stands in its stream, e.g. the raft index; the record keeps its segment alive until
    /// `release` has passed the position. Zero keeps nothing alive.
    pub position: u64,
    /// `Some(kind)`: only the newest record of this stream and kind matters (a vote, a boot counter). The
    /// log repeats it at the head of every new segment, so older segments can go.
    pub sticky: Option<u8>,
    pub payload: Bytes,
}

/// Bytes before the payload of each record.
const HEAD_BYTES: usize = 16;
const STICKY: u8 = 1;

impl WalRecord {
    pub(super) fn encoded_len(payload_len: usize) -> usize {
        HEAD_BYTES + payload_len
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.stream as u8);
        out.put_u8(if self.sticky.is_some() { STICKY } else { 0 });
        out.put_u8(self.sticky.unwrap_or(0));
        out.put_u8(0);
        out.put_u32_le(self.payload.len() as u32);
        out.put_u64_le(self.position);
        out.put_slice(&self.payload);
    }

    /// Reads one record from the front of `bytes` and moves past it. The payload is copied, so that a record
    /// that lives long does not keep a whole segment in memory.
    pub(super) fn decode(bytes: &mut &[u8]) -> Option<WalRecord> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let stream = RecordStream::from_number(head[0])?;
        let sticky = match (head[1], head[2]) {
            (0, 0) => None,
            (STICKY, kind) => Some(kind),
            _ => return None,
        };
        let payload_len = u32::from_le_bytes(head[4..8].try_into().ok()?);
        let position = u64::from_le_bytes(head[8..16].try_into().ok()?);
        let (payload, rest) = rest.split_at_checked(payload_len as usize)?;
        *bytes = rest;
        Some(WalRecord { stream, position, sticky, payload: Bytes::copy_from_slice(payload) })
    }
}
