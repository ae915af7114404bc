//! A log entry in our own words.
//! The entry's bytes are shared, never copied, between the library's log, the write-ahead log and apply.

use base::{Index, Position, Term};
use bytes::Bytes;
use raft_rs::eraftpb;

/// One entry of the replicated log. Empty data is the no-op of a new leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Position,
    pub data: Bytes,
}

impl Entry {
    pub(crate) fn from_library(entry: eraftpb::Entry) -> Entry {
        Entry { at: Position { term: Term(entry.term), index: Index(entry.index) }, data: entry.data }
    }

    pub(crate) fn to_library(&self) -> eraftpb::Entry {
        eraftpb::Entry {
            term: self.at.term.0,
            index: self.at.index.0,
            data: self.data.clone(),
            ..eraftpb::Entry::default()
        }
    }
}
