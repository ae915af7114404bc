//! The way into the mesh for whoever serves clients: requests with a deadline go in, the machine's replies come out.
//! A handle is cheap to clone. What it is asked is answered or refused by the deadline, whatever happens.

use crate::core::Core;
use crate::mesh::status::MeshStatus;
use base::Code;
use bytes::Bytes;
use mesh::Topology;
use mesh::conflict::Conflict;
use mesh::request::{Reply, Request};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct MeshHandle {
    core: Arc<Core>,
}

impl MeshHandle {
    pub(crate) fn new(core: Arc<Core>) -> MeshHandle {
        MeshHandle { core }
    }

    /// Asks, and waits for as long as is said or the usual time.
    pub async fn request(&self, request: Request, timeout: Option<Duration>) -> Result<Reply, Code> {
        let _ = (request, timeout, &self.core);
        Err(Code::NotInStep)
    }

    /// What this node goes by; without members before the node has heard of one.
    pub fn topology(&self) -> Arc<Topology> {
        Arc::new(Topology::new(Default::default(), Default::default(), Vec::new(), Vec::new()))
    }

    pub fn status(&self) -> MeshStatus {
        MeshStatus::default()
    }

    /// Conflicts of this node's replicas, oldest first, behind a place; and the place to go on from, unless that
    /// was all.
    pub async fn conflicts(
        &self,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<(Vec<Conflict>, Option<Bytes>), Code> {
        let _ = (after, limit);
        Err(Code::NotInStep)
    }
}
