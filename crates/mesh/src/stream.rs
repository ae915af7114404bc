//! How far another region has this node's log: a window of entries in flight, and the position up to which all are there.
//! Entries are acknowledged one by one, each when a quorum of the other region has it durably, in any order; a position counts
//! only without a gap before it. Entries that were trimmed before they were acknowledged are a gap that only anti-entropy can
//! close; until then the position stays before it.

use crate::hlc::Stamp;
use crate::mutant::Mutant;
use base::Instant;
use base::codec::{Reader, put_varint};
use base::mutant::planted;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Entries under way at a time, and their bytes; one entry may exceed it.
pub const WINDOW_ENTRIES: usize = 1_024;
pub const WINDOW_BYTES: usize = 4 * 1024 * 1024;

const VERSION: u8 = 1;

#[derive(Clone, Debug)]
struct InFlight {
    prev: u64,
    stamp: Stamp,
    bytes: usize,
    /// When to send it again; none while an answer is awaited.
    again_at: Option<Instant>,
}

/// Entries that the other region will never be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The position before it.
    pub after: u64,
    /// The last entry in it.
    pub upto: u64,
    pub stamp: Stamp,
}

#[derive(Clone, Debug, Default)]
pub struct RegionStream {
    in_flight: BTreeMap<u64, InFlight>,
    bytes: usize,
    /// The last entry that was sent.
    cursor: u64,
    gap: Option<Gap>,
}

impl RegionStream {
    /// Everything up to `acked` is there, as an earlier incarnation knew; a region that is new has nothing.
    pub fn resume(acked: u64, gap: Option<Gap>) -> RegionStream {
        RegionStream { cursor: acked, gap, ..RegionStream::default() }
    }

    /// Up to here every entry that was sent is there.
    pub fn acked(&self) -> u64 {
        if planted(Mutant::HolesAcknowledged) {
            return self.cursor;
        }
        self.in_flight.values().next().map_or(self.cursor, |entry| entry.prev)
    }

    /// The last entry up to which the peer has every entry.
    pub fn position(&self) -> u64 {
        match self.gap {
            Some(gap) if !planted(Mutant::GapVouched) => gap.after,
            _ => self.acked(),
        }
    }

    /// Whether an entry is there, whatever may be missing before it.
    pub fn has(&self, seq: u64) -> bool {
        seq <= self.position() || seq <= self.acked() && self.gap.is_none_or(|gap| gap.upto < seq)
    }

    pub fn gap(&self) -> Option<Gap> {
        self.gap
    }

    /// The last entry that was sent; the next one to send comes behind it.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    pub fn has_capacity(&self) -> bool {
        self.in_flight.len() < WINDOW_ENTRIES && self.bytes < WINDOW_BYTES
    }

    pub fn n_under_way(&self) -> usize {
        self.in_flight.len()
    }

    /// The stamp of the first entry that the peer has not acknowledged; zero if there is none.
    pub fn waiting(&self) -> Stamp {
        self.in_flight.values().next().map_or(Stamp::ZERO, |entry| entry.stamp)
    }

    pub fn sent(&mut self, seq: u64, prev: u64, stamp: Stamp, bytes: usize) {
        assert!(seq > self.cursor && prev <= self.cursor, "entries are sent in order");
        // The entries between the two were not meant for this region.
        let prev = prev.max(self.cursor);
        self.in_flight.insert(seq, InFlight { prev, stamp, bytes, again_at: None });
        self.bytes += bytes;
        self.cursor = seq;
    }

    /// Notes that the peer has the entry. True if that was not known before.
    pub fn acknowledge(&mut self, seq: u64) -> bool {
        let Some(entry) = self.in_flight.remove(&seq) else { return false };
        self.bytes -= entry.bytes;
        true
    }

    /// No acknowledgement came for the entry: it is sent again at this time.
    pub fn retry_at(&mut self, seq: u64, again_at: Instant) {
        if let Some(entry) = self.in_flight.get_mut(&seq) {
            entry.again_at = Some(again_at);
        }
    }

    /// The entries to be sent again now; they count as sent.
    pub fn overdue(&mut self, now: Instant) -> Vec<u64> {
        let mut due = Vec::new();
        for (seq, entry) in &mut self.in_flight {
            if entry.again_at.is_some_and(|at| at <= now) {
                entry.again_at = None;
                due.push(*seq);
            }
        }
        due
    }

    /// The log was cut: what was not sent up to here is left to comparing.
    pub fn skip(&mut self, upto: u64, stamp: Stamp) {
        let after = self.position();
        if upto <= self.acked() {
            return;
        }
        while let Some(entry) = self.in_flight.first_entry()
            && *entry.key() <= upto
        {
            self.bytes -= entry.remove().bytes;
        }
        self.cursor = self.cursor.max(upto);
        let after = self.gap.map_or(after, |gap| gap.after);
        self.gap = Some(Gap { after, upto, stamp });
    }

    /// A comparison has shown that all replicas of the region have everything up to this stamp.
    pub fn compared(&mut self, stamp: Stamp) {
        if self.gap.is_some_and(|gap| gap.stamp <= stamp) {
            self.gap = None;
        }
    }

    /// Encodes the state that a restart needs.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.acked());
        if let Some(Gap { after, upto, stamp }) = self.gap {
            [after, upto, stamp.0].into_iter().for_each(|n| put_varint(&mut out, n));
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<RegionStream> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let acked = reader.varint()?;
        if reader.is_empty() {
            return Some(RegionStream::resume(acked, None));
        }
        let (after, upto) = (reader.varint()?, reader.varint()?);
        let gap = Gap { after, upto, stamp: Stamp(reader.varint()?) };
        reader.is_empty().then_some(RegionStream::resume(acked, Some(gap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(seqs: &[u64]) -> RegionStream {
        let (mut stream, mut prev) = (RegionStream::default(), 0);
        for seq in seqs {
            stream.sent(*seq, prev, Stamp(*seq), 10);
            prev = *seq;
        }
        stream
    }

    #[test]
    fn a_position_has_no_gap_before_it() {
        let mut stream = sent(&[3, 4, 9]);
        assert_eq!(stream.position(), 0);
        assert!(stream.acknowledge(4) && stream.acknowledge(9) && !stream.acknowledge(9));
        assert_eq!(stream.position(), 0, "the first is still under way");
        stream.acknowledge(3);
        assert_eq!((stream.position(), stream.n_under_way()), (9, 0));
    }

    #[test]
    fn what_fails_is_sent_again_when_it_is_time() {
        let mut stream = sent(&[1, 2]);
        stream.retry_at(1, Instant(50));
        assert_eq!(stream.overdue(Instant(49)), [0u64; 0]);
        assert_eq!(stream.overdue(Instant(50)), [1]);
        assert_eq!(stream.overdue(Instant(99)), [0u64; 0], "once");
    }

    #[test]
    fn the_window_is_bounded_in_entries_and_bytes() {
        let all: Vec<u64> = (1..=WINDOW_ENTRIES as u64).collect();
        assert!(!sent(&all).has_capacity() && sent(&all[1..]).has_capacity());
        let mut stream = RegionStream::default();
        stream.sent(1, 0, Stamp(1), WINDOW_BYTES);
        assert!(!stream.has_capacity());
    }

    #[test]
    fn what_was_cut_from_the_log_holds_the_position_until_it_was_compared() {
        let mut stream = sent(&[1, 2, 3]);
        stream.acknowledge(1);
        stream.skip(7, Stamp(70));
        assert_eq!((stream.position(), stream.acked(), stream.cursor()), (1, 7, 7));
        stream.sent(8, 7, Stamp(8), 1);
        stream.acknowledge(8);
        assert!(stream.has(1) && stream.has(8) && !stream.has(2) && !stream.has(7) && !stream.has(9));
        stream.skip(9, Stamp(90));
        stream.compared(Stamp(89));
        assert_eq!(stream.position(), 1, "a gap grows and stays one");
        let resumed = RegionStream::decode(stream.encode()).unwrap();
        assert_eq!((resumed.position(), resumed.cursor(), resumed.gap()), (1, 9, stream.gap()));
        stream.compared(Stamp(90));
        assert_eq!(stream.position(), 9);
        assert_eq!(RegionStream::decode(stream.encode()).unwrap().position(), 9);
    }
}
