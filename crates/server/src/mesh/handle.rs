//! The way into the mesh for whoever serves clients: requests with a deadline go in, the machine's replies come out.
//! A handle is cheap to clone. What it is asked is answered or refused by the deadline, whatever happens.

use crate::core::Core;
use crate::mesh::board::Admission;
use crate::mesh::node::Mail;
use crate::mesh::status::MeshStatus;
use base::Code;
use mesh::Topology;
use mesh::op::Op;
use mesh::request::{Reply, Request, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

#[derive(Clone)]
pub struct MeshHandle {
    core: Arc<Core>,
}

impl MeshHandle {
    pub(crate) fn new(core: Arc<Core>) -> MeshHandle {
        MeshHandle { core }
    }

    /// Asks, and waits for as long as is said or the usual time. `Reply::Refused` comes as an error.
    pub async fn request(&self, request: Request, timeout: Option<Duration>) -> Result<Reply, Code> {
        if self.core.draining.load(Ordering::Relaxed) {
            return Err(Code::Stopped);
        }
        let admission = Admission::take(&self.core.mesh, size(&request)).ok_or(Code::TooManyRequests)?;
        let deadline = self.core.clock.now().after(timeout.unwrap_or(self.core.mesh.timeout));
        let (asker, answer) = oneshot::channel();
        self.core.mesh.tell(Mail::Request { deadline, request, asker, admission }, 0);
        // Nobody answers any more when the node has stopped.
        answer.await.unwrap_or(Err(Code::Stopped))
    }

    /// What this node goes by; without members before the node has heard of one.
    pub fn topology(&self) -> Arc<Topology> {
        self.core.mesh.board.topology()
    }

    pub fn status(&self) -> MeshStatus {
        self.core.mesh.board.status()
    }
}

/// What a request takes of memory, about.
fn size(request: &Request) -> usize {
    let of_write = |write: &Write| {
        let value = match &write.op {
            Op::Put(bytes) | Op::Insert(bytes) | Op::Remove(bytes) => bytes.len(),
            _ => 0,
        };
        write.key.bytes().len() + value + size_of::<Write>()
    };
    match request {
        Request::Write(write) => of_write(write),
        Request::Batch(writes) => writes.iter().map(of_write).sum(),
        Request::Read { .. }
        | Request::Get(_)
        | Request::Scan(_)
        | Request::Conflicts { .. }
        | Request::Query(_) => size_of::<Request>(),
    }
}
