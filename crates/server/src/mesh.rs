//! The data plane of a node: one thread owns the machine of `mesh` and takes its queue whole, two more make its rows
//! durable and flush them, and the handle is how others ask. Values are moved here and nothing is decided, except
//! by the machines of `mesh`.

pub(crate) mod board;
mod decide;
pub mod handle;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod node;
pub mod status;
pub(crate) mod store;
pub(crate) mod wire;

use crate::queue::Queue;
use board::Board;
use std::time::Duration;

/// The queues into the threads of the mesh, and what they show.
pub(crate) struct Desk {
    pub queue: Queue<node::Mail>,
    pub log: Queue<log::Order>,
    pub store: Queue<mesh::overlay::Flush>,
    pub board: Board,
    /// How long a request may take that does not say.
    pub timeout: Duration,
}

impl Desk {
    pub fn new(timeout: Duration) -> Desk {
        Desk { queue: Queue::new(), log: Queue::new(), store: Queue::new(), board: Board::new(), timeout }
    }
}
