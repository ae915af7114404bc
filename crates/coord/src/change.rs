//! What applying a command changes: one version of one key at a time. A change holds everything that its rows and its
//! watch event need, so that the state need not be read again. A key changes at most once in a revision; the pair
//! (key, revision) therefore names one version for ever.

use base::{LeaseId, Revision};
use bytes::Bytes;

/// One version of a key, without the key and the revision that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub create: Revision,
    pub version: i64,
    pub lease: LeaseId,
    pub value: Bytes,
}

/// Where versions are read from: what was applied but not yet flushed first, then the store.
pub trait Records {
    /// The version of `key` that was written at exactly `revision`. `None` for a version that never was, or
    /// is no longer kept.
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: Bytes,
    pub revision: Revision,
    /// Order within the revision, from 0.
    pub sub: u32,
    /// The revision of the version that this change replaces or ends; zero when there was none.
    pub prev: Revision,
    pub kind: ChangeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Put(Record),
    Delete,
}
