//! What a client may ask of the coordination store, after the crate `api` has decoded it. These are domain values: no
//! protobuf, no HTTP. What can be refused without looking at the state is refused by `validate`, before anything is
//! proposed.

use crate::entry::Version;
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;

/// The bounds that settings may lower; the defaults are those of `base::limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compares, successes or failures of one transaction.
    pub txn_ops_max: usize,
    /// Transactions within a transaction, one inside the other.
    pub txn_depth_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { txn_ops_max: base::limits::TXN_OPS_MAX_DEFAULT, txn_depth_max: base::limits::TXN_DEPTH_MAX }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Range(Range),
    Put(Put),
    Delete(Delete),
    Txn(Txn),
}

impl Request {
    /// Can be answered without a proposal: a range, or a transaction of ranges alone. As in etcd, a
    /// transaction that holds another goes through the log.
    pub fn is_read_only(&self) -> bool {
        match self {
            Request::Range(_) => true,
            Request::Txn(txn) => txn.operations().all(|op| matches!(op, Request::Range(_))),
            Request::Put(_) | Request::Delete(_) => false,
        }
    }

    /// May be answered from this member's state, however old. A transaction without any range does not say
    /// so, and is therefore answered from the newest state.
    pub fn is_serializable(&self) -> bool {
        let serializable = |op: &Request| matches!(op, Request::Range(range) if range.serializable);
        match self {
            Request::Txn(txn) => txn.operations().next().is_some() && txn.operations().all(serializable),
            _ => serializable(self),
        }
    }
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
    /// The caller can read a large answer in pieces, and gets `Body::Large` for it.
    pub in_pieces: bool,
}

impl Range {
    /// A range that reads these keys at the newest revision, with their values.
    pub fn of(keys: KeyRange) -> Range {
        Range {
            keys,
            revision: Revision::ZERO,
            limit: 0,
            sort: None,
            serializable: false,
            keys_only: false,
            count_only: false,
            mod_revisions: Bounds::default(),
            create_revisions: Bounds::default(),
            in_pieces: false,
        }
    }

    /// The most keys that are answered.
    pub fn limit(&self) -> usize {
        match self.limit {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }

    /// A version passes the filters.
    pub(crate) fn selects(&self, version: &Version) -> bool {
        self.mod_revisions.contains(version.modified) && self.create_revisions.contains(version.create)
    }

    /// Some keys of the range may be left out by their revisions.
    pub fn is_filtered(&self) -> bool {
        self.mod_revisions != Bounds::default() || self.create_revisions != Bounds::default()
    }
}

/// Inclusive bounds on a revision; zero means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub min: Revision,
    pub max: Revision,
}

impl Bounds {
    pub fn contains(self, revision: Revision) -> bool {
        (self.min == Revision::ZERO || revision >= self.min)
            && (self.max == Revision::ZERO || revision <= self.max)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub target: SortTarget,
    pub order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
    /// A target was named but no order: ascending, and as in etcd only among the first keys of the range, as
    /// many as the limit and one more.
    Unspecified,
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

impl Put {
    /// The wire's value and `ignore_value` in one; both at once contradict each other.
    pub fn value_from_wire(value: Bytes, ignore_value: bool) -> Result<Option<Bytes>, Code> {
        if !ignore_value {
            Ok(Some(value))
        } else if value.is_empty() {
            Ok(None)
        } else {
            Err(Code::ValueProvided)
        }
    }

    /// The wire's lease and `ignore_lease` in one; both at once contradict each other.
    pub fn lease_from_wire(lease: LeaseId, ignore_lease: bool) -> Result<Option<LeaseId>, Code> {
        if !ignore_lease {
            Ok(Some(lease))
        } else if lease == LeaseId::NONE {
            Ok(None)
        } else {
            Err(Code::LeaseProvided)
        }
    }
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

impl Txn {
    /// The operations of both branches.
    fn operations(&self) -> impl Iterator<Item = &Request> {
        self.success.iter().chain(&self.failure)
    }
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
