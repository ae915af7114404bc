//! A log entry as our own type. The entry's bytes are shared, never copied, between the library's log, the
//! write-ahead log and apply.

use base::{Index, Position, Term};
use bytes::Bytes;
use raft_rs::eraftpb::{self, EntryType};

/// One entry of the replicated log. Empty data is the no-op of a new leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Position,
    pub data: Bytes,
    /// May change the configuration when it is applied. A member with such an entry committed and not applied does
    /// not campaign, and no leader appends another meanwhile.
    pub reconfigures: bool,
}

impl Entry {
    pub(crate) fn from_library(entry: eraftpb::Entry) -> Entry {
        let reconfigures = entry.entry_type == EntryType::EntryConfChangeV2;
        let at = Position { term: Term(entry.term), index: Index(entry.index) };
        Entry { at, data: entry.data, reconfigures }
    }

    pub(crate) fn to_library(&self) -> eraftpb::Entry {
        eraftpb::Entry {
            term: self.at.term.0,
            index: self.at.index.0,
            data: self.data.clone(),
            entry_type: entry_type(self.reconfigures),
            ..eraftpb::Entry::default()
        }
    }
}

/// The library looks at the type alone; the bytes are ours whatever it is.
pub(crate) fn entry_type(reconfigures: bool) -> EntryType {
    if reconfigures { EntryType::EntryConfChangeV2 } else { EntryType::EntryNormal }
}
