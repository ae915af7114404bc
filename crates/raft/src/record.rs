//! The records that raft needs after a crash, and their bytes in the write-ahead log. Records are replayed in the
//! order they were written: a later entry replaces what stood at its index and everything behind it.

use crate::entry::Entry;
use crate::machine::Doubt;
use base::codec::{Reader, put_bytes, put_varint};
use base::{Boot, Index, NodeId, Position, Term};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The term this member has seen, whom it voted for in it, and how far it knew the log committed.
    Vote { term: Term, vote: Option<NodeId>, commit: Index },
    /// Entries in a row.
    Entries(Vec<Entry>),
    /// The store was replaced by a snapshot: the log starts over behind this position.
    Installed(Position),
    /// How often the member has started.
    Boot(Boot),
    /// What the member may have lost of what it acknowledged.
    Doubt(Doubt),
    /// An operator accepted the loss of this member, while the owner of this log was in doubt.
    AcceptedLoss(NodeId),
}

const VOTE: u8 = 1;
const ENTRIES: u8 = 2;
const INSTALLED: u8 = 3;
const BOOT: u8 = 4;
/// Entries of which some may change the configuration; each says whether it does.
const MARKED_ENTRIES: u8 = 5;
const DOUBT: u8 = 6;
const ACCEPTED_LOSS: u8 = 7;

/// A kind and three numbers; two numbers and a mark.
const HEAD_BYTES_MAX: usize = 1 + 3 * 10;
const ENTRY_HEAD_BYTES_MAX: usize = 2 * 10 + 1;

impl Record {
    /// Only the newest record of a sticky kind matters.
    pub fn sticky(&self) -> Option<u8> {
        match self {
            Record::Vote { .. } => Some(VOTE),
            Record::Boot(_) => Some(BOOT),
            Record::Doubt(_) => Some(DOUBT),
            Record::AcceptedLoss(_) => Some(ACCEPTED_LOSS),
            Record::Entries(_) | Record::Installed(_) => None,
        }
    }

    /// The record is needed until the log is cut at or behind this index.
    pub fn position(&self) -> Index {
        match self {
            Record::Entries(entries) => entries.last().map_or(Index::ZERO, |entry| entry.at.index),
            Record::Installed(at) => at.index,
            Record::Vote { .. } | Record::Boot(_) | Record::Doubt(_) | Record::AcceptedLoss(_) => Index::ZERO,
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.size_max());
        match self {
            Record::Vote { term, vote, commit } => {
                out.push(VOTE);
                put_varint(&mut out, term.0);
                put_varint(&mut out, vote.map_or(0, |node| node.0));
                put_varint(&mut out, commit.0);
            }
            Record::Entries(entries) => {
                let marked = entries.iter().any(|entry| entry.reconfigures);
                out.push(if marked { MARKED_ENTRIES } else { ENTRIES });
                put_varint(&mut out, entries.len() as u64);
                put_varint(&mut out, entries.first().map_or(0, |entry| entry.at.index.0));
                for entry in entries {
                    put_varint(&mut out, entry.at.term.0);
                    if marked {
                        out.push(u8::from(entry.reconfigures));
                    }
                    put_bytes(&mut out, &entry.data);
                }
            }
            Record::Installed(at) => {
                out.push(INSTALLED);
                put_varint(&mut out, at.term.0);
                put_varint(&mut out, at.index.0);
            }
            Record::Boot(boot) => {
                out.push(BOOT);
                put_varint(&mut out, boot.0);
            }
            Record::Doubt(doubt) => out.extend([DOUBT, number_of(*doubt)]),
            Record::AcceptedLoss(id) => {
                out.push(ACCEPTED_LOSS);
                put_varint(&mut out, id.0);
            }
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Record> {
        let mut reader = Reader::new(bytes);
        let record = match reader.u8()? {
            VOTE => Record::Vote {
                term: Term(reader.varint()?),
                vote: Some(reader.varint()?).filter(|node| *node != 0).map(NodeId),
                commit: Index(reader.varint()?),
            },
            kind @ (ENTRIES | MARKED_ENTRIES) => {
                let count = reader.count()?;
                let first = reader.varint()?;
                let entries = (0..count as u64)
                    .map(|nth| {
                        let term = Term(reader.varint()?);
                        let index = Index(first.checked_add(nth)?);
                        let reconfigures = kind == MARKED_ENTRIES && reader.bool()?;
                        Some(Entry { at: Position { term, index }, data: reader.bytes()?, reconfigures })
                    })
                    .collect::<Option<Vec<_>>>()?;
                Record::Entries(entries)
            }
            INSTALLED => {
                Record::Installed(Position { term: Term(reader.varint()?), index: Index(reader.varint()?) })
            }
            BOOT => Record::Boot(Boot(reader.varint()?)),
            DOUBT => Record::Doubt(doubt_from_number(reader.u8()?)?),
            ACCEPTED_LOSS => Record::AcceptedLoss(NodeId(reader.varint()?)),
            _ => return None,
        };
        reader.is_empty().then_some(record)
    }

    /// No record is longer when it is encoded, and none is much shorter.
    pub fn size_max(&self) -> usize {
        match self {
            Record::Entries(entries) => {
                entries.iter().map(|entry| entry.data.len() + ENTRY_HEAD_BYTES_MAX).sum::<usize>()
                    + HEAD_BYTES_MAX
            }
            _ => HEAD_BYTES_MAX,
        }
    }
}

/// Earlier releases knew the first two.
const DOUBTS: [Doubt; 3] = [Doubt::None, Doubt::Everything, Doubt::LastFrame];

fn number_of(doubt: Doubt) -> u8 {
    match doubt {
        Doubt::None => 0,
        Doubt::Everything => 1,
        Doubt::LastFrame => 2,
    }
}

fn doubt_from_number(number: u8) -> Option<Doubt> {
    DOUBTS.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_a_round_trip_and_reject_what_follows_them() {
        let at = |index| Position { term: Term(3), index: Index(index) };
        let records = [
            Record::Vote { term: Term(7), vote: Some(NodeId(2)), commit: Index(300) },
            Record::Vote { term: Term(7), vote: None, commit: Index(0) },
            Record::Entries(vec![
                Entry { at: at(8), data: Bytes::from_static(b"one"), reconfigures: false },
                Entry { at: at(9), data: Bytes::new(), reconfigures: false },
            ]),
            Record::Entries(vec![
                Entry { at: at(8), data: Bytes::from_static(b"one"), reconfigures: true },
                Entry { at: at(9), data: Bytes::from_static(b"two"), reconfigures: false },
            ]),
            Record::Entries(vec![]),
            Record::Installed(at(12)),
            Record::Boot(Boot(4)),
            Record::Doubt(Doubt::None),
            Record::Doubt(Doubt::LastFrame),
            Record::Doubt(Doubt::Everything),
            Record::AcceptedLoss(NodeId(u64::MAX)),
        ];
        for record in records {
            let bytes = record.encode();
            assert_eq!(Record::decode(bytes.clone()), Some(record.clone()));
            let longer = [bytes.as_ref(), b"x"].concat();
            assert_eq!(Record::decode(longer.into()), None, "{record:?}");
            for cut in 0..bytes.len() {
                assert_ne!(Record::decode(bytes.slice(..cut)), Some(record.clone()));
            }
        }
    }
}
