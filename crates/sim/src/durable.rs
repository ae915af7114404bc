//! Durability: every acknowledged mutation is still there, or was lawfully overwritten, after all faults have
//! healed. One linearizable read of everything, taken at the very end and added to the history, makes the
//! linearizability check say exactly that: the read comes after every acknowledged operation in real time, so
//! it must see the state that holds them all, with their revisions and versions.

use crate::history::{Operation, Outcome};
use base::{KeyRange, RangeEnd};
use bytes::Bytes;
use coord::reply::Reply;
use coord::request::{Range, Request};

/// The request to send to a healed cluster, to as many members as there are.
pub fn read_everything() -> Request {
    Request::Range(Range::of(KeyRange { start: Bytes::from_static(b"\0"), end: RangeEnd::Open }))
}

/// Its answer, as the operation that closes a history. `invoked` must lie after every return in it.
pub fn final_read(client: u64, invoked: u64, returned: u64, reply: Reply) -> Operation {
    Operation {
        client,
        invoked,
        returned: Some(returned),
        request: read_everything().into(),
        outcome: Outcome::Done(reply),
    }
}
