//! The data plane of a node: one thread owns the machine of `mesh` and takes its queue whole, two more make its rows durable
//! and flush them, and the handle is the way in for other threads. This module only moves values; the driver in `mesh_node`
//! decides.

pub(crate) mod addresses;
pub(crate) mod documents;
mod enrol;
mod events;
pub mod feed;
pub mod handle;
pub(crate) mod homes;
pub(crate) mod log;
pub mod merging;
pub(crate) mod metrics;
pub(crate) mod node;
pub mod pending_reply;
pub(crate) mod region_discovery;
pub(crate) mod request_slots;
pub(crate) mod shared_status;
pub(crate) mod start;
pub mod status;
pub(crate) mod store;
pub(crate) mod wire;
pub mod worker;

use crate::actor::Actor;
use crate::durable_log;
use crate::queue::Queue;
use crate::store_thread::StoreOrder;
use addresses::Addresses;
use feed::FeedHub;
use homes::SharedHomeLeases;
use merging::Merging;
use request_slots::RequestSlots;
use shared_status::SharedMeshStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;

const SCANS_MAX: usize = 4;

/// The queues into the threads of the mesh, and what they show.
pub(crate) struct MeshShared {
    pub actor: Actor<node::MeshLoop>,
    /// A task is about to run the machine, with everything queued until then.
    deferred_turn: AtomicBool,
    pub log: Queue<durable_log::Order<engine::MeshLog>>,
    pub store: Queue<StoreOrder<store::RowStore>>,
    pub status: SharedMeshStatus,
    pub slots: RequestSlots,
    /// The queue of the thread that asks other regions.
    pub discovery: Queue<region_discovery::DiscoveryCommand>,
    pub addresses: Addresses,
    pub home_leases: SharedHomeLeases,
    pub merging: Arc<Merging>,
    pub feed: FeedHub,
    /// Pages of scans that this node makes at a time: each costs as much as many reads of single keys.
    pub scans: Arc<Semaphore>,
    /// The name of the region that this cluster is.
    pub region: String,
    /// How long a request may take that does not say.
    pub timeout: Duration,
}

impl MeshShared {
    pub fn new(region: &str, timeout: Duration) -> MeshShared {
        MeshShared {
            actor: Actor::new(),
            deferred_turn: AtomicBool::new(false),
            log: Queue::new(),
            store: Queue::new(),
            status: SharedMeshStatus::new(),
            slots: RequestSlots::default(),
            discovery: Queue::new(),
            addresses: Addresses::default(),
            home_leases: SharedHomeLeases::default(),
            merging: Arc::default(),
            feed: FeedHub::default(),
            scans: Arc::new(Semaphore::new(SCANS_MAX)),
            region: region.to_owned(),
            timeout,
        }
    }
}
