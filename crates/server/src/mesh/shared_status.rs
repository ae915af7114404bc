//! What the mesh's threads publish for other threads: the newest topology and status. No caller waits here. A member's status in coord is apart, because a data-only node has none and other threads write it.

use crate::mesh::status::{MeshStatus, MoveCounts};
use mesh::Topology;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) struct SharedMeshStatus {
    published: Mutex<PublishedStatus>,
    lag_ms: AtomicU64,
    log_bytes: AtomicU64,
    spare_bytes: AtomicU64,
    taken_bytes: AtomicU64,
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
            taken_bytes: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PublishedStatus> {
        self.published.lock().expect("no thread panics while it holds the status")
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
        status.store_bytes = self.taken_bytes.load(Relaxed);
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

    pub fn set_log_bytes(&self, bytes: u64, spare_bytes: u64) {
        self.log_bytes.store(bytes, Relaxed);
        self.spare_bytes.store(spare_bytes, Relaxed);
    }

    /// What the log keeps in reserve for its next segments.
    pub fn spare_bytes(&self) -> u64 {
        self.spare_bytes.load(Relaxed)
    }

    pub fn set_store_bytes(&self, taken_bytes: u64) {
        self.taken_bytes.store(taken_bytes, Relaxed);
    }

    /// What the store's file takes of the disk.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Relaxed)
    }
}
