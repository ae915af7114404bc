//! Bundles log entries for another region: entries that change the same mergeable value become one, because each costs the
//! receiver as much as the whole value. The log keeps single entries, and each is acknowledged by itself. Last-write-wins
//! entries are sent alone, so that the receiver notices each loser.

use crate::log::LogEntry;
use crate::merge::merge;
use crate::record::Record;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What one may hold; a single entry may have more bytes.
const ENTRIES_MAX: usize = 1_024;
const BYTES_MAX: usize = 256 * 1024;

/// Entries that travel as one.
#[derive(Debug)]
pub(in crate::mesh) struct Bundle {
    pub seqs: Vec<u64>,
    /// As it is sent.
    pub bytes: Bytes,
    pub first: LogEntry,
    /// What it came to so far, once there are two.
    joined: Option<Record>,
    len: usize,
}

impl Bundle {
    fn of(entry: LogEntry, bytes: Bytes) -> Bundle {
        Bundle { seqs: vec![entry.seq], len: bytes.len(), bytes, first: entry, joined: None }
    }

    /// False if it has to travel alone.
    fn add(&mut self, entry: &LogEntry, len: usize) -> bool {
        if self.seqs.len() >= ENTRIES_MAX || self.len + len > BYTES_MAX {
            return false;
        }
        let joined = self.joined.take().or_else(|| Record::decode(self.first.record.clone()));
        let (Some(mine), Some(theirs)) = (joined, Record::decode(entry.record.clone())) else { return false };
        let is_mergeable = !mine.kind.is_last_write_wins() && !mine.is_collection();
        let fits = is_mergeable && (mine.kind, mine.era) == (theirs.kind, theirs.era);
        let together = if fits { merge(&mine, &theirs).record } else { mine };
        self.joined = Some(together);
        if fits {
            self.seqs.push(entry.seq);
            self.len += len;
            self.first.stamp = self.first.stamp.max(entry.stamp);
        }
        fits
    }

    fn seal(mut self) -> Bundle {
        if let Some(joined) = self.joined.take().filter(|_| self.seqs.len() > 1) {
            self.first.record = joined.encode();
            self.bytes = self.first.encode();
        }
        self
    }
}

/// In the order of the first entry of each.
pub(in crate::mesh) fn bundles(entries: Vec<(LogEntry, Bytes)>) -> Vec<Bundle> {
    let mut bundles: Vec<Bundle> = Vec::new();
    let mut last: BTreeMap<Bytes, usize> = BTreeMap::new();
    for (entry, bytes) in entries {
        let key = entry.key.bytes().clone();
        let taken = last.get(&key).is_some_and(|at| bundles[*at].add(&entry, bytes.len()));
        if !taken {
            last.insert(key, bundles.len());
            bundles.push(Bundle::of(entry, bytes));
        }
    }
    bundles.into_iter().map(Bundle::seal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{Actor, Dot, RegionId};
    use crate::context::Context;
    use crate::hlc::Stamp;
    use crate::key::Key;
    use crate::log::LogOperation;
    use crate::op::{self, Attributes, Op, WriteEvent};
    use crate::record::{Body, Kind};
    use base::NodeId;

    /// The entries of one writer, and the record as it has it in the end.
    fn written(kind: Kind, ops: &[Op]) -> (Vec<(LogEntry, Bytes)>, Record) {
        let actor = Actor { region: RegionId(1), node: NodeId(1), incarnation: 0 };
        let (mut local, mut entries) = (None, Vec::new());
        for (nth, op) in ops.iter().enumerate() {
            let seq = nth as u64 + 1;
            let event = WriteEvent { dot: Dot { actor, counter: seq }, stamp: Stamp(seq), wall_ms: 5 };
            let written = op::apply(local.as_ref(), kind, op, &Attributes::default(), event).unwrap();
            let entry = LogEntry {
                seq,
                prev: seq - 1,
                operation: LogOperation::Update,
                key: Key::new(0, b"k"),
                old: Context::default(),
                stamp: Stamp(seq),
                at_ms: 5,
                record: written.delta.as_ref().unwrap_or(&written.full).encode(),
            };
            entries.push((entry.clone(), entry.encode()));
            local = Some(written.full);
        }
        (entries, local.unwrap())
    }

    #[test]
    fn deltas_of_one_value_travel_as_one_and_come_to_the_same() {
        let element = |n: u8| Bytes::from(vec![n]);
        let ops: Vec<Op> = (0..9).map(|n| Op::Insert(element(n))).chain([Op::Remove(element(3))]).collect();
        let (entries, whole) = written(Kind::Set, &ops);
        let bundles = bundles(entries.clone());
        assert_eq!((bundles.len(), bundles[0].seqs.len()), (1, 10));
        let entry = LogEntry::decode(bundles[0].bytes.clone()).unwrap();
        assert_eq!((entry.stamp, entry.key), (Stamp(10), Key::new(0, b"k")));
        let joined = Record::decode(entry.record).unwrap();
        let singly = entries.iter().map(|(entry, _)| Record::decode(entry.record.clone()).unwrap());
        let singly = singly.reduce(|one, other| merge(&one, &other).record).unwrap();
        assert_eq!((&joined, &joined.body), (&singly, &whole.body));
        assert!(matches!(&joined.body, Body::Set(set) if !set.contains(&[3]) && set.contains(&[4])));
    }

    #[test]
    fn last_writes_travel_alone() {
        let (entries, _) = written(Kind::Register, &[Op::Put("a".into()), Op::Put("b".into())]);
        let bundles = bundles(entries.clone());
        assert_eq!(bundles.len(), 2);
        assert!(bundles.iter().zip(&entries).all(|(bundle, (_, bytes))| bundle.bytes == bytes));
    }
}
