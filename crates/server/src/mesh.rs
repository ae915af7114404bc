//! The data plane of a node: one thread owns the machine of `mesh` and takes its queue whole, two more make its rows durable
//! and flush them, and the handle is the way in for other threads. This module only moves values; the driver in `mesh_node`
//! decides.

pub(crate) mod addresses;
pub(crate) mod documents;
mod enrol;
mod events;
pub mod handle;
pub(crate) mod homes;
pub(crate) mod log;
pub mod merging;
pub(crate) mod metrics;
pub(crate) mod node;
pub mod pending_reply;
pub(crate) mod region_discovery;
pub(crate) mod shared_status;
pub(crate) mod start;
pub mod status;
pub(crate) mod store;
pub(crate) mod wire;
pub mod worker;

use crate::actor::Actor;
use crate::durable_log;
use crate::queue::Queue;
use addresses::Addresses;
use homes::SharedHomeLeases;
use merging::Merging;
use shared_status::SharedMeshStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The queues into the threads of the mesh, and what they show.
pub(crate) struct MeshShared {
    pub actor: Actor<node::MeshLoop>,
    /// A task is about to run the machine, with everything queued until then.
    deferred_turn: AtomicBool,
    pub log: Queue<durable_log::Order<log::RowLog>>,
    pub store: Queue<store::StoreCommand>,
    pub status_board: SharedMeshStatus,
    /// Of the thread that asks other regions.
    pub discovery: Queue<region_discovery::DiscoveryCommand>,
    pub addresses: Addresses,
    pub home_leases: SharedHomeLeases,
    pub merging: Arc<Merging>,
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
            status_board: SharedMeshStatus::new(),
            discovery: Queue::new(),
            addresses: Addresses::default(),
            home_leases: SharedHomeLeases::default(),
            merging: Arc::default(),
            region: region.to_owned(),
            timeout,
        }
    }

    /// Posts to the machine and runs its turn on this thread, unless another thread is running it, which then takes this
    /// message too: waking the machine's own thread costs more than the turn. See ADR 37.
    pub fn post_and_help(&self, mail: node::MeshMessage, bytes: usize) -> bool {
        let heard = self.actor.queue.push_without_wake(mail, bytes);
        self.actor.run_pending();
        heard
    }

    /// The same for tasks that serve clients. A request that comes alone runs the turn at once. Otherwise the first task gets a
    /// deferred turn: it lets all other ready tasks of its thread post first, and then runs one turn for all of them on this
    /// thread. See ADR 34.
    pub fn post_batched(
        self: &Arc<MeshShared>,
        mail: node::MeshMessage,
        alone: bool,
    ) -> Option<DeferredTurn> {
        self.actor.queue.push_without_wake(mail, 0);
        if alone {
            self.actor.run_pending();
            return None;
        }
        let is_first = !self.deferred_turn.swap(true, Ordering::AcqRel);
        is_first.then(|| DeferredTurn(self.clone()))
    }
}

/// The turn runs on drop, so that it runs even if the task is cancelled.
pub(crate) struct DeferredTurn(Arc<MeshShared>);

impl Drop for DeferredTurn {
    fn drop(&mut self) {
        // Before the turn: a message posted from now on gets a turn of its own.
        self.0.deferred_turn.store(false, Ordering::Release);
        self.0.actor.run_pending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::node::MeshMessage;

    #[test]
    fn one_task_runs_the_turn_for_all_that_post_together() {
        let shared = Arc::new(MeshShared::new("here", Duration::from_secs(1)));
        assert!(
            shared.post_batched(MeshMessage::Documents, true).is_none(),
            "a request that comes alone runs its turn at once"
        );
        let first = shared.post_batched(MeshMessage::Documents, false);
        assert!(first.is_some());
        assert!(shared.post_batched(MeshMessage::Documents, false).is_none());
        drop(first);
        assert!(
            shared.post_batched(MeshMessage::Documents, false).is_some(),
            "a later request gets a turn of its own"
        );
    }
}
