//! Admission to the mesh: each request takes a slot until it is answered, and their number and bytes are bounded.

use crate::mesh::MeshShared;
use base::limits::{MESH_OPERATIONS_MAX, REQUESTS_WAITING_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of requests that wait for an answer.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

const _: () = assert!(REQUESTS_WAITING_MAX <= MESH_OPERATIONS_MAX);

#[derive(Default)]
pub(crate) struct RequestSlots {
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
}

impl RequestSlots {
    /// Requests that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

/// Held by a request until it is answered.
pub(crate) struct MeshRequestSlot {
    shared: Arc<MeshShared>,
    bytes: usize,
}

impl MeshRequestSlot {
    /// None when too many wait already. A request that is alone may be of any size.
    pub fn take(shared: &Arc<MeshShared>, bytes: usize) -> Option<MeshRequestSlot> {
        let before = shared.slots.waiting.fetch_add(1, Relaxed);
        let bytes_before = shared.slots.waiting_bytes.fetch_add(bytes, Relaxed);
        let slot = MeshRequestSlot { shared: shared.clone(), bytes };
        let fits =
            before < REQUESTS_WAITING_MAX && (before == 0 || bytes_before + bytes <= WAITING_BYTES_MAX);
        fits.then_some(slot)
    }
}

impl Drop for MeshRequestSlot {
    fn drop(&mut self) {
        self.shared.slots.waiting.fetch_sub(1, Relaxed);
        self.shared.slots.waiting_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_large_request_is_admitted_alone_and_gives_its_slot_back() {
        let shared = Arc::new(MeshShared::new("here", Duration::from_secs(1)));
        let large = MeshRequestSlot::take(&shared, 2 * WAITING_BYTES_MAX).expect("it is alone");
        assert!(MeshRequestSlot::take(&shared, 1).is_none(), "the bytes are taken");
        assert_eq!(shared.slots.waiting(), 1, "a refused request holds no slot");
        drop(large);
        let slots: Vec<_> = (0..REQUESTS_WAITING_MAX).map(|_| MeshRequestSlot::take(&shared, 0)).collect();
        assert!(slots.iter().all(Option::is_some));
        assert!(MeshRequestSlot::take(&shared, 0).is_none(), "too many wait");
        drop(slots);
        assert_eq!(shared.slots.waiting(), 0);
    }
}
