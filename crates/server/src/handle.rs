//! The one way into a running member: submit a request, look at its status.

use crate::status::{Identity, Status};
use base::Code;
use coord::reply::Reply;
use coord::request::Request;
use std::sync::Arc;

#[derive(Clone)]
pub struct Handle {
    identity: Arc<Identity>,
}

impl Handle {
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn status(&self) -> Status {
        unreachable!("the skeleton has no core yet")
    }

    /// Submits a request that `coord::request` has validated, and waits for its answer.
    pub async fn submit(&self, _request: Request) -> Result<Reply, Code> {
        Err(Code::Stopped)
    }

    /// The text of `/metrics`.
    pub fn metrics(&self) -> String {
        String::new()
    }
}
