//! Newtypes for the numbers that must never be mixed up.
//! Each is a plain value with a total order; none of them carries behaviour beyond counting.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A member of the cluster. Never zero.
    NodeId(u64)
);
number!(
    /// The cluster that a member belongs to; peers of another cluster are rejected.
    ClusterId(u64)
);
number!(
    /// A raft term.
    Term(u64)
);
number!(
    /// A position in the raft log; the first entry has index 1.
    Index(u64)
);
number!(
    /// A revision of the coordination store as etcd counts it: an empty store is at 1.
    Revision(i64)
);
number!(
    /// A lease; zero means none.
    LeaseId(i64)
);
number!(
    /// How often a member has started on its data directory; durable before the first proposal of that start.
    Boot(u64)
);
number!(
    /// Identifies one waiting caller inside one process. Never leaves the process.
    ReplyToken(u64)
);

impl From<ReplyToken> for u64 {
    fn from(token: ReplyToken) -> u64 {
        token.0
    }
}

impl Term {
    pub const ZERO: Term = Term(0);
}

impl Index {
    pub const ZERO: Index = Index(0);

    pub fn next(self) -> Index {
        Index(self.0 + 1)
    }
}

impl Revision {
    pub const ZERO: Revision = Revision(0);
    /// The revision of a store to which nothing was ever written.
    pub const EMPTY_STORE: Revision = Revision(1);

    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl LeaseId {
    pub const NONE: LeaseId = LeaseId(0);
}

/// A position in the log: two logs that agree on a position agree on everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: Term,
    pub index: Index,
}

impl Position {
    /// Before the first entry.
    pub const ORIGIN: Position = Position { term: Term(0), index: Index(0) };
}

/// Identifies one proposal for ever: a member, its boot, and a counter within that boot. It identifies a proposal
/// that is sent twice, by a retry or by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId {
    pub origin: NodeId,
    pub boot: Boot,
    pub seq: u64,
}
