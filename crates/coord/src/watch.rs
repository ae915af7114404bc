//! Watches: which changes each watch wants, and which it has been sent. Requests of clients, credit of their streams
//! and changes as they are applied go in; responses come out, in the order in which they must reach each stream. A
//! watch gets every event of its keys from its first revision on, once, in order, a revision whole; or it is
//! cancelled because a revision that it needs has been compacted.

mod catch_up;
mod event;
mod hub;
mod inspect;
mod interest;
mod progress;
mod ranges;
mod stream;
#[cfg(test)]
mod tests;

use crate::auth::Caller;
use crate::change::Records;
use crate::rows::LoggedChange;
use base::{Code, KeyRange, Revision};
use std::sync::Arc;
use std::time::Duration;

pub use event::{Batch, Event};
pub use hub::{Hub, HubContext, WatchCounts};
pub use inspect::{WatchDescription, WatchPosition, WatchPositionCounts, WatchSelection};
pub use stream::Credit;

/// One client's stream of watches. Never used twice in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A watch within its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i64);

impl WatchId {
    /// Stands for no watch, or for all of a stream.
    pub const NONE: WatchId = WatchId(-1);
}

#[derive(Clone, Debug)]
pub struct Params {
    /// The interval of progress notifications, for quiet watches that asked for them.
    pub progress_interval: Duration,
    /// A response above this size is split for those who can put it together again.
    pub fragment_bytes: usize,
    /// Revisions that are read at once for watches that are behind.
    pub batch_revisions: u64,
    /// A response is closed at the first revision that takes it to this size.
    pub batch_bytes: usize,
    /// Watches of one stream.
    pub watches_max: usize,
}

#[derive(Clone, Debug)]
pub enum Input {
    /// A stream begins, and can take this much.
    Open {
        stream: StreamId,
        credit: Credit,
    },
    Create(Create),
    /// The caller of the hub refused a watch.
    Refuse {
        stream: StreamId,
        refusal: Refusal,
    },
    Cancel {
        stream: StreamId,
        watch: WatchId,
    },
    /// The client asks how far its stream is.
    Progress(StreamId),
    /// The client has taken responses that cost this much.
    Credit {
        stream: StreamId,
        credit: Credit,
    },
    Close(StreamId),
}

#[derive(Clone, Debug)]
pub struct Create {
    pub stream: StreamId,
    /// The caller of the watch.
    pub caller: Caller,
    /// Chosen by the client, or else by the hub.
    pub id: Option<WatchId>,
    pub keys: KeyRange,
    /// The first revision to send; zero means the next one.
    pub start: Revision,
    pub prev_kv: bool,
    pub filters: Filters,
    pub progress_notify: bool,
    pub fragment: bool,
}

/// Events that a watch does not want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filters {
    pub no_put: bool,
    pub no_delete: bool,
}

#[derive(Clone, Debug)]
pub struct Response {
    pub stream: StreamId,
    pub watch: WatchId,
    /// The header's.
    pub revision: Revision,
    pub kind: ResponseKind,
}

#[derive(Clone, Debug)]
pub enum ResponseKind {
    Created,
    /// Created and canceled in one, without an id.
    Refused(Refusal),
    Events {
        batch: Arc<Batch>,
        /// Further events of the same revisions follow in the next response.
        fragment: bool,
    },
    /// On request; or because what the watch needs next lies below this compacted revision.
    Canceled {
        compacted: Option<Revision>,
    },
    /// Canceled, because its caller may not read the keys any more.
    Denied(Code),
    /// Everything up to the header's revision has been sent.
    Progress,
}

/// Why a watch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NegativeStart,
    EmptyRange,
    DuplicateId,
    /// The stream has as many watches as it may.
    TooMany,
    /// The caller may not read the keys, or is not known.
    Denied(Code),
}

impl Refusal {
    /// As etcd words it, where it knows the like.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::NegativeStart => Code::Compacted.message(),
            Refusal::EmptyRange => "mvcc: watcher range is empty",
            Refusal::TooMany => Code::TooManyRequests.message(),
            Refusal::Denied(code) => denied(code),
            Refusal::DuplicateId => "mvcc: duplicate watch ID provided on the WatchStream",
        }
    }
}

/// The words of a gRPC status, which is how etcd puts it and how its clients look for it.
pub fn denied(code: Code) -> &'static str {
    match code {
        Code::UserEmpty => "rpc error: code = InvalidArgument desc = etcdserver: user name is empty",
        Code::AuthOldRevision => {
            "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"
        }
        Code::InvalidAuthToken => "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token",
        _ => "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
    }
}

impl Response {
    pub fn event_count(&self) -> usize {
        match &self.kind {
            ResponseKind::Events { batch, .. } => batch.events().len(),
            _ => 0,
        }
    }

    /// What the response takes of its stream's credit, and gives back when it has been taken.
    pub fn cost(&self) -> Credit {
        let events = match &self.kind {
            ResponseKind::Events { batch, .. } => batch.bytes(),
            _ => 0,
        };
        Credit { responses: 1, bytes: (RESPONSE_OVERHEAD_BYTES + events) as i64 }
    }
}

/// A response without its events.
const RESPONSE_OVERHEAD_BYTES: usize = 64;

/// What was applied before, for watches that are behind.
pub trait ChangeLog: Records {
    /// Visits the changes of these revisions, both ends included, in order.
    fn log(&self, from: Revision, upto: Revision, visit: &mut dyn FnMut(Revision, LoggedChange));
}
