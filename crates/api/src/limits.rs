//! What all client ports of the process share: the table of connections, and the budget for incomplete requests.

use crate::connections::{ConnectionLimits, Connections};
use crate::request_budget::RequestBudget;
use server::Registry;
use std::sync::Arc;

#[derive(Clone)]
pub struct ClientLimits {
    pub(crate) connections: Arc<Connections>,
    pub(crate) request_budget: Arc<RequestBudget>,
}

impl ClientLimits {
    /// So many connections, and so many bytes of incomplete requests.
    pub fn new(connections: ConnectionLimits, partial_bytes_max: usize) -> ClientLimits {
        ClientLimits {
            connections: Connections::new(connections),
            request_budget: RequestBudget::new(partial_bytes_max),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        self.connections.register(registry);
        self.request_budget.register(registry);
    }
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits::new(ConnectionLimits::default(), RequestBudget::BYTES_MAX_DEFAULT)
    }
}
