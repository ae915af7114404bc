//! The replication log of one node: every write that it gave a dot, in dot order, until all regions have it. The sequence
//! number of an entry is the counter of its dot, so a record's context gives the log positions that it includes. Numbers are
//! skipped now and then, so an entry names its predecessor. A checksum covers each entry from the sender's disk to the
//! receiver's merge. See docs/formats/mesh-rows.md.

use crate::context::Context;
use crate::hlc::Stamp;
use crate::key::Key;
use crate::record::Record;
use crate::sealed::{seal, unseal};
use base::codec::{Reader, put_bytes, put_varint};
use bytes::{BufMut, Bytes};

const VERSION: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogOperation {
    Insert = 0,
    Update = 1,
    Delete = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub seq: u64,
    /// The entry before it, zero for none.
    pub prev: u64,
    pub operation: LogOperation,
    pub key: Key,
    /// What the record had seen before.
    pub old: Context,
    pub stamp: Stamp,
    pub at_ms: u64,
    /// What takes any replica to the new state: a delta, or the whole of a register. Its context is the new clock.
    pub record: Bytes,
}

impl LogEntry {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(96 + self.key.bytes().len() + self.record.len());
        out.push(VERSION);
        put_varint(&mut out, self.seq);
        put_varint(&mut out, self.prev);
        out.push(self.operation as u8);
        put_bytes(&mut out, self.key.bytes());
        self.old.encode(&mut out);
        out.put_u64_le(self.stamp.0);
        put_varint(&mut out, self.at_ms);
        put_bytes(&mut out, &self.record);
        seal(out)
    }

    /// None for what was damaged on the way, too.
    pub fn decode(bytes: Bytes) -> Option<LogEntry> {
        let mut reader = unseal(&bytes, VERSION)?;
        let (seq, prev) = (reader.varint()?, reader.varint()?);
        let operation = match reader.u8()? {
            0 => LogOperation::Insert,
            1 => LogOperation::Update,
            2 => LogOperation::Delete,
            _ => return None,
        };
        let key = Key::from_bytes(reader.bytes()?)?;
        let (old, stamp) = (Context::decode(&mut reader)?, Stamp(reader.u64()?));
        let (at_ms, record) = (reader.varint()?, reader.bytes()?);
        reader.is_empty().then_some(LogEntry { seq, prev, operation, key, old, stamp, at_ms, record })
    }
}

/// What an operation on a record was, seen from outside.
pub fn operation(before: Option<&Record>, after: &Record, wall_ms: u64) -> LogOperation {
    match before {
        _ if after.is_tombstone() => LogOperation::Delete,
        Some(before) if before.is_live(wall_ms) => LogOperation::Update,
        _ => LogOperation::Insert,
    }
}

/// Where the log begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogHead {
    pub last: u64,
    /// Entries up to here are gone.
    pub trimmed: u64,
    /// The stamp of the last entry that was removed.
    pub trimmed_stamp: Stamp,
    /// Bytes of the entries that are there.
    pub bytes: u64,
}

impl LogHead {
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        let LogHead { last, trimmed, trimmed_stamp, bytes } = self;
        [*last, *trimmed, trimmed_stamp.0, *bytes].into_iter().for_each(|n| put_varint(&mut out, n));
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<LogHead> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let (last, trimmed) = (reader.varint()?, reader.varint()?);
        Some(LogHead { last, trimmed, trimmed_stamp: Stamp(reader.varint()?), bytes: reader.varint()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_a_round_trip_and_damage_is_noticed() {
        let entry = LogEntry {
            seq: 70_000,
            prev: 9,
            operation: LogOperation::Delete,
            key: Key::new(3, b"name"),
            old: Context::default(),
            stamp: Stamp(77),
            at_ms: 1_700_000_000_000,
            record: Bytes::from_static(b"bytes"),
        };
        let bytes = entry.encode();
        assert_eq!(LogEntry::decode(bytes.clone()), Some(entry));
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            assert_eq!(LogEntry::decode(damaged.into()), None, "at {at}");
            assert_eq!(LogEntry::decode(bytes.slice(..at)), None);
        }
        let head = LogHead { last: 9, trimmed: 4, trimmed_stamp: Stamp(3), bytes: 800 };
        assert_eq!(LogHead::decode(head.encode()), Some(head));
    }
}
