//! Requests with the type of their reply: a caller gets what its request asks for, or why it was not done.

use crate::conflict::ConflictOrder;
use crate::query::Query;
use crate::record::Record;
use crate::request::{
    ConflictPage, ElementsPage, ElementsRead, Get, GetResult, Missing, Reply, Request, RowPage, Scan,
    ScanPage, Write,
};
use base::Code;
use bytes::Bytes;
use std::sync::Arc;

/// A request, and the type of its reply.
pub trait MeshCall {
    type Reply;

    fn into_request(self) -> Request;

    /// The outcome that a reply to this request has.
    fn outcome(reply: Reply) -> Result<Self::Reply, NotDone>;
}

/// Why a request was not done, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// Too few answered: a read shows nothing, a write was not begun.
    Unavailable {
        acks: u8,
        needed: u8,
        missing: Missing,
    },
    /// Written, but on too few that answered.
    Indeterminate {
        acks: u8,
        needed: u8,
        missing: Missing,
    },
    /// Something is there that the writer has not seen.
    Conflict(Box<Record>),
    /// The writes that the session has seen were not here in time.
    Lagging {
        lag_ms: u64,
    },
    Refused(Code),
}

impl NotDone {
    /// For callers that only tell a code.
    pub fn code(self) -> Code {
        match self {
            NotDone::Refused(code) => code,
            NotDone::Unavailable { .. } => Code::TooFewReplicas,
            NotDone::Conflict(_) => Code::ConflictDetected,
            NotDone::Indeterminate { .. } => Code::Indeterminate,
            NotDone::Lagging { .. } => Code::NotSeenHere,
        }
    }

    fn of(reply: Reply) -> NotDone {
        match reply {
            Reply::Unavailable { acks, needed, missing } => NotDone::Unavailable { acks, needed, missing },
            Reply::Indeterminate { acks, needed, missing } => {
                NotDone::Indeterminate { acks, needed, missing }
            }
            Reply::Conflict(record) => NotDone::Conflict(record),
            Reply::Lagging { lag_ms } => NotDone::Lagging { lag_ms },
            Reply::Refused(code) => NotDone::Refused(code),
            other => panic!("a request has the reply to another: {other:?}"),
        }
    }
}

/// The record of a key, tombstones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub key: crate::key::Key,
    pub r: Option<u8>,
}

/// Conflicts that the nodes of this region have noticed, by time, behind a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListConflicts {
    pub after: Option<Bytes>,
    pub limit: usize,
    pub order: ConflictOrder,
}

/// Rows of this node for a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRows {
    pub from: Bytes,
}

macro_rules! calls {
    ($($call:ty => $reply:ty: |$this:ident| $request:expr, $pattern:pat => $value:expr;)*) => {$(
        impl MeshCall for $call {
            type Reply = $reply;

            fn into_request(self) -> Request {
                let $this = self;
                $request
            }

            fn outcome(reply: Reply) -> Result<$reply, NotDone> {
                match reply {
                    $pattern => Ok($value),
                    reply => Err(NotDone::of(reply)),
                }
            }
        }
    )*};
}

calls! {
    Arc<Write> => Box<Record>: |write| Request::Write(write), Reply::Written(record) => record;
    Vec<Write> => Vec<Result<Box<Record>, NotDone>>: |writes| Request::Batch(writes),
        Reply::Batch(replies) => replies.into_iter().map(<Arc<Write>>::outcome).collect();
    Read => Option<Box<Record>>: |read| Request::Read { key: read.key, r: read.r }, Reply::Found(found) => found;
    Get => GetResult: |get| Request::Get(Box::new(get)), Reply::Got(got) => *got;
    Scan => ScanPage: |scan| Request::Scan(scan), Reply::Scanned(page) => page;
    Query => ScanPage: |query| Request::Query(Box::new(query)), Reply::Scanned(page) => page;
    ListConflicts => ConflictPage:
        |list| Request::Conflicts(list), Reply::Listed(page) => *page;
    ElementsRead => ElementsPage:
        |read| Request::Elements(Box::new(read)), Reply::Elements(page) => *page;
    ListRows => RowPage: |list| Request::Rows { from: list.from }, Reply::Rows(page) => *page;
}
