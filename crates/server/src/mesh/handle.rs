//! The handle through which client-facing threads use the mesh: requests with a deadline go in, the machine's replies come
//! out. A handle is cheap to clone. Every request is answered or refused by its deadline.

use crate::core::Core;
use crate::mesh::documents;
use crate::mesh::node::MeshMessage;
use crate::mesh::pending_reply::PendingReply;
use crate::mesh::request_slots::MeshRequestSlot;
use crate::mesh::status::MeshStatus;
use crate::mesh::worker::{self, ReplyTo, Worker};
use base::{Code, NodeId};
use bytes::Bytes;
use mesh::{
    Dot, ElementsQuery, HomeScope, MeshCall, NotDone, Region, RegionId, RegionState, Request, Topology, Write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// With more requests in progress, posting them together is worth more than a quick turn for each.
const LIGHT_LOAD_REQUESTS_MAX: usize = 4;

/// Another region, as this node sees it.
#[derive(Clone, Debug)]
pub struct RegionInfo {
    pub region: Region,
    /// The state of the region, as the machine knows it.
    pub state: Option<RegionState>,
    /// Its nodes, and where they are reached.
    pub nodes: BTreeMap<NodeId, String>,
    /// Why it cannot be asked for its nodes.
    pub trouble: Option<String>,
}

#[derive(Clone)]
pub struct MeshHandle {
    pub(super) core: Arc<Core>,
    /// Where answers gather for the thread that asks.
    worker: Option<Worker>,
}

impl MeshHandle {
    pub(crate) fn new(core: Arc<Core>) -> MeshHandle {
        MeshHandle { core, worker: None }
    }

    /// The same for a thread that serves all its clients, and the future that delivers the replies on that thread.
    pub fn in_worker(mut self, worker: Worker) -> (MeshHandle, impl Future<Output = ()>) {
        self.worker = Some(worker.clone());
        (self, worker::deliver(worker))
    }

    /// A handle for tasks that do not run on one worker.
    pub(super) fn clone_without_worker(&self) -> MeshHandle {
        MeshHandle { core: self.core.clone(), worker: None }
    }

    /// Makes a request and returns what it asks for.
    pub async fn call<C: MeshCall>(&self, call: C, timeout: Option<Duration>) -> Result<C::Reply, Code> {
        C::outcome(self.request(call.into_request(), timeout).await?).map_err(NotDone::code)
    }

    /// Asks, and waits for as long as is said or the usual time. `Reply::Refused` comes as an error.
    pub fn request(&self, request: Request, timeout: Option<Duration>) -> PendingReply {
        if self.core.draining.load(Ordering::Relaxed) {
            return PendingReply::refused(Code::Stopped);
        }
        let shared = &self.core.mesh;
        let Some(slot) = MeshRequestSlot::take(shared, size(&request)) else {
            return PendingReply::refused(Code::TooManyRequests);
        };
        let deadline = self.core.clock.now().after(timeout.unwrap_or(shared.timeout));
        let alone = match &self.worker {
            Some(worker) => worker.is_only_request(),
            None => shared.slots.waiting() <= LIGHT_LOAD_REQUESTS_MAX,
        };
        let (reply_to, answer) = ReplyTo::new(self.worker.clone());
        let message = MeshMessage::Request { deadline, request, reply_to, slot };
        PendingReply::post(shared, (message, alone), answer)
    }

    /// The turn of one page of a scan; others wait for theirs while single keys are read and written.
    pub async fn scan_turn(&self, timeout: Option<Duration>) -> Result<OwnedSemaphorePermit, Code> {
        let shared = &self.core.mesh;
        let turn = shared.scans.clone().acquire_owned();
        match tokio::time::timeout(timeout.unwrap_or(shared.timeout), turn).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Code::TooManyRequests),
        }
    }

    /// The topology that this node follows; without members before the node has received one.
    pub fn topology(&self) -> Arc<Topology> {
        self.core.mesh.status.topology()
    }

    pub fn status(&self) -> MeshStatus {
        self.core.mesh.status.status()
    }

    /// The table of regions as far as this node knows it, this one's own name aside, and how each is doing.
    pub fn regions(&self) -> (u64, Vec<RegionInfo>) {
        let table = documents::table(&self.core);
        let states = self.core.mesh.status.status().regions;
        let addresses = self.core.mesh.addresses.get();
        let info = |region: &Region| RegionInfo {
            region: region.clone(),
            state: states.iter().find(|state| state.id == region.id).cloned(),
            nodes: addresses.nodes(region.id),
            trouble: addresses.trouble(region.id).cloned(),
        };
        let here = RegionId::of(&self.core.mesh.region);
        let all = table.iter().filter(|region| region.id != here).map(info).collect();
        (table.version, all)
    }

    /// How far this region is behind the others, in milliseconds, as of late.
    pub fn lag_ms(&self) -> u64 {
        self.core.mesh.status.lag_ms()
    }

    /// Other regions that have a write, as far as this node knows: it does if it gave the write its name.
    pub async fn reached(&self, dot: Dot) -> Result<Vec<RegionId>, Code> {
        let _slot = MeshRequestSlot::take(&self.core.mesh, 0).ok_or(Code::TooManyRequests)?;
        let (reply_to, answer) = oneshot::channel();
        self.core.mesh.actor.post_and_help(MeshMessage::Reached { dot, reply_to });
        answer.await.map_err(|_| Code::Stopped)
    }

    /// Whether this region may write keys with a leased home of its own now, as the owner of this epoch.
    pub fn holds(&self, scope: &HomeScope, epoch: u64) -> bool {
        self.core.mesh.home_leases.holds(scope, epoch, self.core.clock.now())
    }

    /// The name of a region, if this node knows it.
    pub fn region_name(&self, region: RegionId) -> Option<String> {
        if region == RegionId::of(&self.core.mesh.region) {
            return Some(self.core.mesh.region.clone());
        }
        documents::table(&self.core).get(region).map(|region| region.name.clone())
    }
}

/// The memory that a request takes, about.
fn size(request: &Request) -> usize {
    let of_write = |write: &Write| write.key.bytes().len() + write.op.value_bytes() + size_of::<Write>();
    match request {
        Request::Write(write) => of_write(write),
        Request::Batch(writes) => writes.iter().map(of_write).sum(),
        Request::Elements(read) => match &read.query {
            ElementsQuery::Named(names) => names.iter().map(Bytes::len).sum::<usize>() + size_of::<Request>(),
            ElementsQuery::Page { .. }
            | ElementsQuery::Count
            | ElementsQuery::Last
            | ElementsQuery::Scores(_)
            | ElementsQuery::Ranks { .. } => size_of::<Request>(),
        },
        Request::Read { .. }
        | Request::Get(_)
        | Request::Scan(_)
        | Request::Conflicts { .. }
        | Request::Rows { .. }
        | Request::Feed { .. }
        | Request::Query(_) => size_of::<Request>(),
    }
}
