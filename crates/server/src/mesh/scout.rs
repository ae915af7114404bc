//! The thread that asks other regions for their nodes and has the peer streams lead to those, as the driver of the mesh
//! wants it; a thread of its own, so that nothing waits for a region that is away. And the answer that another region
//! gets.

use crate::core::Core;
use crate::handle::Handle;
use crate::mesh::documents;
use crate::mesh::node::Mail;
use crate::peer::{Deliver, Peers, Stranger, question};
use bytes::Bytes;
use mesh_node::{Facts, Question, RemoteNode, answer_question};
use std::sync::Arc;
use std::time::Duration;

/// For one place to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What is asked of the thread.
pub(crate) enum Order {
    Ask(Question),
    /// Streams lead to these nodes, and to no others of other regions.
    Lead(Vec<RemoteNode>),
}

pub(crate) struct Scout {
    core: Arc<Core>,
    peers: Arc<Peers>,
    deliver: Deliver,
}

impl Scout {
    pub fn new(core: Arc<Core>, peers: Arc<Peers>, deliver: Deliver) -> Scout {
        Scout { core, peers, deliver }
    }

    /// Until its queue is closed.
    pub fn run(self) {
        let mut orders = Vec::new();
        while self.core.mesh.scout.take(&mut orders, None) {
            for order in orders.drain(..) {
                match order {
                    Order::Lead(nodes) => self.lead_streams(nodes),
                    Order::Ask(_) if self.core.mesh.scout.is_closed() => {}
                    Order::Ask(question) => self.ask(question),
                }
            }
        }
    }

    fn lead_streams(&self, nodes: Vec<RemoteNode>) {
        let stranger = |RemoteNode { cluster, id, address }| Stranger { cluster, id, address };
        let strangers: Vec<Stranger> = nodes.into_iter().map(stranger).collect();
        if let Err(error) = self.peers.set_strangers(&strangers, &self.deliver) {
            tracing::error!(%error, "cannot start a stream to a node of another region");
        }
    }

    fn ask(&self, Question { region, place, bytes }: Question) {
        let asked = question::ask(&place, &bytes, ANSWER_TIMEOUT, self.core.peer_tls.as_deref());
        let answer = asked.map_err(|error| error.to_string());
        self.core.mesh.seat.queue.push(Mail::Answered { region, answer });
    }
}

/// What another region is told.
pub(crate) fn answer(handle: &Handle, question: Bytes) -> Bytes {
    let core = &handle.shared.core;
    let (table, topology) = (documents::table(core), core.mesh.board.topology());
    let facts = Facts {
        region: &core.mesh.region,
        cluster: handle.identity().cluster,
        table: &table,
        topology: Some(&topology),
        addresses: &core.mesh.addresses.get(),
    };
    answer_question(question, &facts)
}
