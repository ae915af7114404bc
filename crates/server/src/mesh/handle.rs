//! The handle through which client-facing threads use the mesh: requests with a deadline go in, the machine's replies come
//! out. A handle is cheap to clone. Every request is answered or refused by its deadline.

use crate::core::Core;
use crate::mesh::board::Admission;
use crate::mesh::documents;
use crate::mesh::lane::{self, Asker, Lane};
use crate::mesh::node::Mail;
use crate::mesh::status::MeshStatus;
use crate::mesh::waiting::Waiting;
use base::{Code, NodeId};
use mesh::homes::Place;
use mesh::op::Op;
use mesh::request::{Request, Write};
use mesh::{Dot, Region, RegionId, RegionState, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// With more requests in progress, posting them together is worth more than a quick turn for each.
const CALM_REQUESTS_MAX: usize = 4;

/// Another region, as this node sees it.
#[derive(Clone, Debug)]
pub struct Abroad {
    pub region: Region,
    /// What the machine knows of it.
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
    lane: Option<Lane>,
}

impl MeshHandle {
    pub(crate) fn new(core: Arc<Core>) -> MeshHandle {
        MeshHandle { core, lane: None }
    }

    /// The same for a thread that serves all its clients, and the future that delivers the replies on that thread.
    pub fn in_lane(mut self, lane: Lane) -> (MeshHandle, impl Future<Output = ()>) {
        self.lane = Some(lane.clone());
        (self, lane::deliver(lane))
    }

    /// Asks, and waits for as long as is said or the usual time. `Reply::Refused` comes as an error.
    pub fn request(&self, request: Request, timeout: Option<Duration>) -> Waiting {
        if self.core.draining.load(Ordering::Relaxed) {
            return Waiting::refused(Code::Stopped);
        }
        let desk = &self.core.mesh;
        let Some(admission) = Admission::take(desk, size(&request)) else {
            return Waiting::refused(Code::TooManyRequests);
        };
        let deadline = self.core.clock.now().after(timeout.unwrap_or(desk.timeout));
        let alone = match &self.lane {
            Some(lane) => lane.asks_alone(),
            None => desk.board.waiting() <= CALM_REQUESTS_MAX,
        };
        let (asker, answer) = Asker::new(self.lane.clone());
        let errand = desk.bring(Mail::Request { deadline, request, asker, admission }, alone);
        Waiting::new(answer, errand)
    }

    /// What this node goes by; without members before the node has heard of one.
    pub fn topology(&self) -> Arc<Topology> {
        self.core.mesh.board.topology()
    }

    pub fn status(&self) -> MeshStatus {
        self.core.mesh.board.status()
    }

    /// The table of regions as far as this node knows it, this one's own name aside, and how each is doing.
    pub fn regions(&self) -> (u64, Vec<Abroad>) {
        let table = documents::table(&self.core);
        let states = self.core.mesh.board.status().regions;
        let addresses = self.core.mesh.addresses.get();
        let abroad = |region: &Region| Abroad {
            region: region.clone(),
            state: states.iter().find(|state| state.id == region.id).cloned(),
            nodes: addresses.nodes(region.id),
            trouble: addresses.trouble(region.id).cloned(),
        };
        let here = RegionId::of(&self.core.mesh.region);
        let all = table.iter().filter(|region| region.id != here).map(abroad).collect();
        (table.version, all)
    }

    /// How far this region is behind the others, in milliseconds, as of late.
    pub fn lag_ms(&self) -> u64 {
        self.core.mesh.board.lag_ms()
    }

    /// Other regions that have a write, as far as this node knows: it does if it gave the write its name.
    pub async fn reached(&self, dot: Dot) -> Result<Vec<RegionId>, Code> {
        let _admission = Admission::take(&self.core.mesh, 0).ok_or(Code::TooManyRequests)?;
        let (asker, answer) = oneshot::channel();
        self.core.mesh.tell(Mail::Reached { dot, asker }, 0);
        answer.await.map_err(|_| Code::Stopped)
    }

    /// Whether this region may write keys with a leased home of its own now, as the owner of this epoch.
    pub fn holds(&self, place: &Place, epoch: u64) -> bool {
        self.core.mesh.tenures.holds(place, epoch, self.core.clock.now())
    }

    /// The name of a region, if this node knows it.
    pub fn region_name(&self, region: RegionId) -> Option<String> {
        if region == RegionId::of(&self.core.mesh.region) {
            return Some(self.core.mesh.region.clone());
        }
        documents::table(&self.core).get(region).map(|region| region.name.clone())
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
