//! The data plane of a node: one thread owns the machine of `mesh` and takes its queue whole, two more make its rows durable
//! and flush them, and the handle is the way in for other threads. This module only moves values; the driver in `mesh_node`
//! decides.

pub(crate) mod addresses;
pub(crate) mod board;
pub(crate) mod documents;
mod enrol;
pub mod handle;
pub(crate) mod homes;
pub mod lane;
pub(crate) mod log;
pub mod merging;
pub(crate) mod metrics;
pub(crate) mod node;
mod notes;
pub(crate) mod scout;
pub(crate) mod start;
pub mod status;
pub(crate) mod store;
pub mod waiting;
pub(crate) mod wire;

use crate::durable_log;
use crate::queue::Queue;
use crate::seat::Seat;
use addresses::Addresses;
use board::Board;
use homes::Tenures;
use merging::Merging;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The queues into the threads of the mesh, and what they show.
pub(crate) struct Desk {
    pub seat: Seat<node::Loop>,
    /// A task is about to run the machine, with everything queued until then.
    errand: AtomicBool,
    pub log: Queue<durable_log::Order<log::RowLog>>,
    pub store: Queue<store::Order>,
    pub board: Board,
    /// Of the thread that asks other regions.
    pub scout: Queue<scout::Order>,
    pub addresses: Addresses,
    pub tenures: Tenures,
    pub merging: Arc<Merging>,
    /// The name of the region that this cluster is.
    pub region: String,
    /// How long a request may take that does not say.
    pub timeout: Duration,
}

impl Desk {
    pub fn new(region: &str, timeout: Duration) -> Desk {
        Desk {
            seat: Seat::new(),
            errand: AtomicBool::new(false),
            log: Queue::new(),
            store: Queue::new(),
            board: Board::new(),
            scout: Queue::new(),
            addresses: Addresses::default(),
            tenures: Tenures::default(),
            merging: Arc::default(),
            region: region.to_owned(),
            timeout,
        }
    }

    /// Posts to the machine and runs its turn on this thread, unless another thread is running it, which then takes this
    /// message too: waking the machine's own thread costs more than the turn. See ADR 37.
    pub fn tell(&self, mail: node::Mail, bytes: usize) -> bool {
        let heard = self.seat.queue.push_unwoken(mail, bytes);
        self.seat.attend();
        heard
    }

    /// The same for tasks that serve clients. A request that comes alone runs the turn at once. Otherwise the first task gets a
    /// deferred turn: it lets all other ready tasks of its thread post first, and then runs one turn for all of them on this
    /// thread. See ADR 34.
    pub fn bring(self: &Arc<Desk>, mail: node::Mail, alone: bool) -> Option<Errand> {
        self.seat.queue.push_unwoken(mail, 0);
        if alone {
            self.seat.attend();
            return None;
        }
        let is_first = !self.errand.swap(true, Ordering::AcqRel);
        is_first.then(|| Errand(self.clone()))
    }
}

/// The turn runs on drop, so that it runs even if the task is cancelled.
pub(crate) struct Errand(Arc<Desk>);

impl Drop for Errand {
    fn drop(&mut self) {
        // Before the turn: a message posted from now on gets a turn of its own.
        self.0.errand.store(false, Ordering::Release);
        self.0.seat.attend();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::node::Mail;

    #[test]
    fn of_those_who_ask_together_one_goes_for_all() {
        let desk = Arc::new(Desk::new("here", Duration::from_secs(1)));
        assert!(
            desk.bring(Mail::Documents, true).is_none(),
            "a request that comes alone runs its turn at once"
        );
        let first = desk.bring(Mail::Documents, false);
        assert!(first.is_some());
        assert!(desk.bring(Mail::Documents, false).is_none());
        drop(first);
        assert!(desk.bring(Mail::Documents, false).is_some(), "a later request gets a turn of its own");
    }
}
