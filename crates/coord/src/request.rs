//! What a client may ask of the coordination store, after the api room has read it from the wire.
//! These are domain values: no protobuf, no HTTP. What can be refused without looking at the state is
//! refused by `validate`, before anything is proposed.

use base::{KeyRange, LeaseId, Revision};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Range(Range),
    Put(Put),
    Delete(Delete),
    Txn(Txn),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub keys: KeyRange,
    /// Zero reads the current state.
    pub revision: Revision,
    /// Zero sets no limit.
    pub limit: u64,
    pub sort: Option<Sort>,
    /// May be answered from this member's state, however old.
    pub serializable: bool,
    pub keys_only: bool,
    pub count_only: bool,
    /// Applied after fetching; zero sets no bound.
    pub mod_revisions: Bounds,
    pub create_revisions: Bounds,
}

/// Inclusive bounds on a revision; zero means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub min: Revision,
    pub max: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub target: SortTarget,
    pub descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortTarget {
    Key,
    Version,
    Create,
    Mod,
    Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    pub key: Bytes,
    /// What to store; `None` keeps the value that is there (etcd's `ignore_value`).
    pub value: Option<Bytes>,
    /// What to attach; `None` keeps the lease that is there (etcd's `ignore_lease`).
    pub lease: Option<LeaseId>,
    pub prev_kv: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    pub keys: KeyRange,
    pub prev_kv: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub success: Vec<Request>,
    pub failure: Vec<Request>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub keys: KeyRange,
    pub relation: Relation,
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    Greater,
    Less,
    NotEqual,
}

/// The field that is compared, with the value it is compared to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Version(i64),
    Create(Revision),
    Mod(Revision),
    Value(Bytes),
    Lease(LeaseId),
}
