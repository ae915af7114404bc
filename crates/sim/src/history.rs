//! What clients asked, when, and what they were told.
//! The world records one `Operation` for each request; the checkers read nothing else. Times are the world's
//! own true microseconds, so that "returned before the other was invoked" means what it says.

use base::{Code, LeaseId, Revision};
use coord::reply::{Body, Reply};
use coord::request::Request;
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub client: u64,
    pub invoked: u64,
    /// `None` when the client gave up or lost the connection.
    pub returned: Option<u64>,
    pub request: ModelRequest,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelRequest {
    Kv(Request),
    /// A client revokes a lease; or the lease expires, which no client hears of.
    EndLease(LeaseId),
}

impl From<Request> for ModelRequest {
    fn from(request: Request) -> ModelRequest {
        ModelRequest::Kv(request)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(Reply),
    /// Certain not to have happened.
    Refused(Code),
    /// May have happened, and may still happen long after the client gave up.
    Unknown,
}

pub type History = Vec<Operation>;

impl Operation {
    /// The moment by which it had taken effect, if ever it did: the end of time if that is unknown.
    pub fn deadline(&self) -> u64 {
        match self.outcome {
            Outcome::Unknown => u64::MAX,
            Outcome::Done(_) | Outcome::Refused(_) => self.returned.unwrap_or(u64::MAX),
        }
    }

    pub fn reply(&self) -> Option<&Reply> {
        match &self.outcome {
            Outcome::Done(reply) => Some(reply),
            Outcome::Refused(_) | Outcome::Unknown => None,
        }
    }

    /// The revision this operation says it made: every effective mutation makes exactly one. The end of a lease
    /// does not say whether there were keys.
    pub fn made_revision(&self) -> Option<Revision> {
        self.reply().filter(|reply| changed_something(&reply.body)).map(|reply| reply.revision)
    }
}

/// Whether an answer reports an effect. A put always has one; a delete of nothing has none.
pub fn changed_something(body: &Body) -> bool {
    match body {
        Body::Range(_) => false,
        Body::Put(_) => true,
        Body::Delete(delete) => delete.deleted > 0,
        Body::Txn(txn) => txn.bodies.iter().any(changed_something),
        Body::LeaseRevoked | Body::CarriedOut | Body::Alarms(_) => false,
        other => unreachable!("no client asked for {other:?}"),
    }
}

/// Whether an answer leaves open if there was an effect.
pub fn is_vague(body: &Body) -> bool {
    matches!(body, Body::LeaseRevoked | Body::CarriedOut)
}

/// Whether a client may get `told` where `right` is correct: of a large reply to a repeated request only the revision is
/// left.
pub fn agrees(told: &Reply, right: &Reply) -> bool {
    told == right || told.body == Body::CarriedOut && told.revision == right.revision
}

/// Whether a request could have an effect in some state.
pub fn may_change(asked: &ModelRequest) -> bool {
    match asked {
        ModelRequest::Kv(request) => may_write(request),
        ModelRequest::EndLease(_) => true,
    }
}

fn may_write(request: &Request) -> bool {
    match request {
        Request::Range(_) => false,
        Request::Put(_) | Request::Delete(_) => true,
        Request::Txn(txn) => txn.success.iter().chain(&txn.failure).any(may_write),
    }
}

/// A refusal that depends on the keys and so tells something about them. Those that depend on leases or on what was
/// compacted are judged by `registers`. All others are given before the
/// state is looked at, or for the want of a leader, time or space, and tell nothing.
pub fn tells_of_the_state(code: Code) -> bool {
    matches!(code, Code::KeyNotFound | Code::FutureRevision)
}

/// Every lease that a history names. The order of operations is searched as if all of them had been granted before:
/// that none is used earlier is judged by `registers`.
pub fn leases_of(history: &[Operation]) -> BTreeSet<LeaseId> {
    let mut named = BTreeSet::new();
    for operation in history {
        match &operation.request {
            ModelRequest::Kv(request) => gather_leases(request, &mut named),
            ModelRequest::EndLease(id) => {
                named.insert(*id);
            }
        }
    }
    named
}

/// The leases that a request's puts name.
pub fn gather_leases(request: &Request, named: &mut BTreeSet<LeaseId>) {
    match request {
        Request::Put(put) => named.extend(put.lease.filter(|lease| *lease != LeaseId::NONE)),
        Request::Txn(txn) => {
            txn.success.iter().chain(&txn.failure).for_each(|request| gather_leases(request, named));
        }
        Request::Range(_) | Request::Delete(_) => {}
    }
}
