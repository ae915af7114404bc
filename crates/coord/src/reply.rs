//! The replies of the coordination store. The crate `api` adds the header's cluster, member and term; the revision is
//! the state machine's own and is part of the answer.

use crate::alarms::Alarm;
use crate::auth::AuthReply;
use crate::members::Member;
use crate::request::Range;
use base::{LeaseId, Revision, Term};
use bytes::Bytes;

/// An answer, with the store's revision when it was given. The state machine answers with any body; the caller of one
/// kind of request gets that kind's body (`call`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<B = Body> {
    pub revision: Revision,
    pub body: B,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Range(RangeReply),
    /// The answer to this range is large. Its revision is set: what can be read in pieces there is the answer.
    Large(Box<Range>),
    Put(PutReply),
    Delete(DeleteReply),
    Txn(TxnReply),
    LeaseGranted {
        id: LeaseId,
        ttl: i64,
    },
    LeaseRevoked,
    /// The alarms that were asked for, raised, or cleared.
    Alarms(Vec<Alarm>),
    LeaseCheckpointed,
    Compacted,
    /// Done, without further data.
    Noted,
    Auth(AuthReply),
    /// The members after the change, ordered by id.
    Members(Vec<Member>),
    /// The version that the document has now.
    Document {
        version: u64,
    },
    /// The ids of all leases, in their order.
    Leases(Vec<LeaseId>),
    /// The TTL in seconds that the lease has again; zero when there is no such lease.
    LeaseRenewed {
        ttl: i64,
        renewal: LeaseRenewal,
    },
    /// The leases whose time is nearly up, the next to end first.
    LeasesEnding(Vec<EndingLease>),
    LeaseTime(LeaseTime),
    Lock(LockReply),
    Unlocked,
    /// With the token, if the place turned out to hold the lock and was therefore kept.
    Left {
        holding: Option<Revision>,
    },
    FencePassed {
        last: Revision,
    },
    /// The fence of a write, or a token that was to be checked, does not hold: nothing was done.
    Fenced(FenceRefusal),
    /// The request was carried out before, at the revision given; of its answer nothing else was kept.
    CarriedOut,
}

impl Body {
    /// The body of an operation that changed keys.
    pub fn changed_keys(&self) -> bool {
        match self {
            Body::Put(_) => true,
            Body::Delete(delete) => delete.deleted > 0,
            Body::Txn(txn) => txn.bodies.iter().any(Body::changed_keys),
            _ => false,
        }
    }
}

/// The state of a lock's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReply {
    /// The place of the caller.
    pub key: Bytes,
    /// Its token; zero when it was only tried and not taken.
    pub token: Revision,
    pub acquired: bool,
    /// Places before it.
    pub ahead: u64,
    /// The holder before this call; `None` if the lock was free.
    pub holder: Option<LockHolder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pub key: Bytes,
    pub token: Revision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRefusal {
    pub lock: Bytes,
    pub given: Revision,
    /// The token that holds the lock, or the highest that the resource has seen; zero for none.
    pub last: Revision,
}

/// The time left of a lease, in whole seconds; a lease that does not exist has -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTime {
    pub ttl: i64,
    pub granted: i64,
    /// Sorted; only when they were asked for.
    pub keys: Vec<Bytes>,
    /// The last one.
    pub renewal: LeaseRenewal,
}

/// Names one renewal of a lease: the term of the leader that granted it, and its number there. Zero stands for
/// none in that term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRenewal {
    pub term: Term,
    pub nth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndingLease {
    pub id: LeaseId,
    pub left_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeReply {
    pub kvs: Vec<KeyValue>,
    /// Further keys lie in the range, beyond the limit.
    pub more: bool,
    /// Keys in the range at that revision, whatever the limit and filters.
    pub count: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutReply {
    pub prev_kv: Option<KeyValue>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteReply {
    pub deleted: u64,
    pub prev_kvs: Vec<KeyValue>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnReply {
    pub succeeded: bool,
    pub bodies: Vec<Body>,
}

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    /// Counts from 1 at creation; a delete ends the count.
    pub version: i64,
    pub lease: LeaseId,
    pub value: Bytes,
}
