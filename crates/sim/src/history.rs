//! What clients asked, when, and what they were told.
//! The world records one `Operation` for each request; the checkers read nothing else. Times are the world's
//! own true microseconds, so that "returned before the other was invoked" means what it says.

use base::{Code, Revision};
use coord::reply::{Body, Reply};
use coord::request::Request;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub client: u64,
    pub invoked: u64,
    /// `None` when the client gave up or lost the connection.
    pub returned: Option<u64>,
    pub request: Request,
    pub outcome: Outcome,
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
    /// The moment by which it had taken effect, if ever it did: the end of time when nobody knows.
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

    /// The revision this operation says it made: every effective mutation makes exactly one.
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
        other => unreachable!("no client asked for {other:?}"),
    }
}

/// Whether a request could have an effect in some state.
pub fn may_change(request: &Request) -> bool {
    match request {
        Request::Range(_) => false,
        Request::Put(_) | Request::Delete(_) => true,
        Request::Txn(txn) => txn.success.iter().chain(&txn.failure).any(may_change),
    }
}

/// A refusal that depends on the state and so tells something about it. All others are given before the
/// state is looked at, or for the want of a leader, time or space, and tell nothing.
pub fn tells_of_the_state(code: Code) -> bool {
    matches!(code, Code::KeyNotFound | Code::FutureRevision | Code::Compacted | Code::LeaseNotFound)
}
