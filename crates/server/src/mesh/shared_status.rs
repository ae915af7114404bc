//! What the mesh's threads publish for other threads: the newest topology and metrics, and the admission of requests. No
//! caller waits here.

use crate::mesh::status::{MeshStatus, MoveCounts};
use base::limits::{MESH_OPERATIONS_MAX, REQUESTS_WAITING_MAX};
use mesh::Topology;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of requests that wait for an answer.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

const _: () = assert!(REQUESTS_WAITING_MAX <= MESH_OPERATIONS_MAX);

pub(crate) struct SharedMeshStatus {
    published: Mutex<PublishedStatus>,
    lag_ms: AtomicU64,
    log_bytes: AtomicU64,
    spare_bytes: AtomicU64,
    store_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
}

struct PublishedStatus {
    topology: Arc<Topology>,
    status: MeshStatus,
}

impl SharedMeshStatus {
    pub fn new() -> SharedMeshStatus {
        let nothing = Topology::new(Default::default(), Default::default(), Vec::new(), Vec::new());
        let published = PublishedStatus { topology: Arc::new(nothing), status: MeshStatus::default() };
        SharedMeshStatus {
            published: Mutex::new(published),
            lag_ms: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            spare_bytes: AtomicU64::new(0),
            store_bytes: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            waiting_bytes: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PublishedStatus> {
        self.published.lock().expect("no thread panics while it holds the board")
    }

    pub fn topology(&self) -> Arc<Topology> {
        self.lock().topology.clone()
    }

    pub fn set_topology(&self, topology: &Topology) {
        let mut published = self.lock();
        if *published.topology != *topology {
            published.status.moving = MoveCounts::of(topology);
            published.topology = Arc::new(topology.clone());
        }
    }

    pub fn status(&self) -> MeshStatus {
        let mut status = self.lock().status.clone();
        status.log_bytes = self.log_bytes.load(Relaxed);
        status.store_bytes = self.store_bytes.load(Relaxed);
        status
    }

    pub fn set_status(&self, status: MeshStatus) {
        let lag_ms = status.regions.iter().map(|region| region.lag_in_ms).max().unwrap_or(0);
        self.lag_ms.store(lag_ms, Relaxed);
        let mut published = self.lock();
        let moving = published.status.moving;
        published.status = MeshStatus { moving, ..status };
    }

    /// How far this region is behind the others, as of late.
    pub fn lag_ms(&self) -> u64 {
        self.lag_ms.load(Relaxed)
    }

    /// Requests that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub fn set_log_bytes(&self, bytes: u64, spare_bytes: u64) {
        self.log_bytes.store(bytes, Relaxed);
        self.spare_bytes.store(spare_bytes, Relaxed);
    }

    /// What the log has in store for when it needs more room.
    pub fn spare_bytes(&self) -> u64 {
        self.spare_bytes.load(Relaxed)
    }

    pub fn set_store_bytes(&self, bytes: u64, taken_bytes: u64) {
        self.store_bytes.store(bytes, Relaxed);
        self.taken_bytes.store(taken_bytes, Relaxed);
    }

    /// What the store's file takes of the disk.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Relaxed)
    }
}

/// Held by a request until it is answered.
pub(crate) struct MeshRequestSlot {
    shared: Arc<super::MeshShared>,
    bytes: usize,
}

impl MeshRequestSlot {
    /// None when too many wait already. One that is alone may be of any size.
    pub fn take(shared: &Arc<super::MeshShared>, bytes: usize) -> Option<MeshRequestSlot> {
        let status_board = &shared.status_board;
        let before = status_board.waiting.fetch_add(1, Relaxed);
        let bytes_before = status_board.waiting_bytes.fetch_add(bytes, Relaxed);
        let admission = MeshRequestSlot { shared: shared.clone(), bytes };
        let fits =
            before < REQUESTS_WAITING_MAX && (before == 0 || bytes_before + bytes <= WAITING_BYTES_MAX);
        fits.then_some(admission)
    }
}

impl Drop for MeshRequestSlot {
    fn drop(&mut self) {
        self.shared.status_board.waiting.fetch_sub(1, Relaxed);
        self.shared.status_board.waiting_bytes.fetch_sub(self.bytes, Relaxed);
    }
}
