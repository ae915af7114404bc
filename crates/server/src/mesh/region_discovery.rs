//! The thread that asks other regions for their nodes and opens peer streams to them, as the driver of the mesh decides; a
//! separate thread, so that nothing else waits for a region that is unreachable. And the answer to another region's query.

use crate::core::Core;
use crate::handle::Handle;
use crate::join::record_refused_question;
use crate::mesh::documents;
use crate::peer::{Deliver, Peers, QuestionSender, RegionNode, question};
use bytes::Bytes;
use mesh_node::{
    DiscoveryContext, Input, RegionQuery, RemoteNode, answer_question, asking_region, refuse_question,
};
use std::sync::Arc;
use std::time::Duration;
use tls::PeerClaim;

/// For one address to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What is asked of the thread.
pub(crate) enum DiscoveryCommand {
    Query(RegionQuery),
    /// Streams lead to these nodes, and to no others of other regions.
    Lead(Vec<RemoteNode>),
}

pub(crate) struct RegionDiscovery {
    core: Arc<Core>,
    peers: Arc<Peers>,
    deliver: Deliver,
}

impl RegionDiscovery {
    pub fn new(core: Arc<Core>, peers: Arc<Peers>, deliver: Deliver) -> RegionDiscovery {
        RegionDiscovery { core, peers, deliver }
    }

    /// Until its queue is closed.
    pub fn run(self) {
        let mut orders = Vec::new();
        while self.core.mesh.discovery.take(&mut orders, None) {
            for order in orders.drain(..) {
                match order {
                    DiscoveryCommand::Lead(nodes) => self.lead_streams(nodes),
                    DiscoveryCommand::Query(_) if self.core.mesh.discovery.is_closed() => {}
                    DiscoveryCommand::Query(question) => self.ask(question),
                }
            }
        }
    }

    fn lead_streams(&self, nodes: Vec<RemoteNode>) {
        let (table, addresses) = (documents::table(&self.core), self.core.mesh.addresses.get());
        let stranger = |RemoteNode { cluster, id, address }| {
            let region = addresses.region_of(id).and_then(|region| table.get(region));
            let region = region.map(|region| region.name.clone()).unwrap_or_default();
            RegionNode { cluster, region, id, address }
        };
        let strangers: Vec<RegionNode> = nodes.into_iter().map(stranger).collect();
        if let Err(error) = self.peers.set_region_nodes(&strangers, &self.deliver) {
            tracing::error!(%error, "cannot start a stream to a node of another region");
        }
    }

    fn ask(&self, RegionQuery { region, address, bytes }: RegionQuery) {
        let table = documents::table(&self.core);
        let name = table.get(region).map_or("", |region| region.name.as_str());
        let claim = PeerClaim::Region { name, address: None };
        let guard = self.core.security.peers.now();
        let ask = || question::ask(&address, &bytes, ANSWER_TIMEOUT, || guard.dial(claim, &address));
        let answer = if guard.is_barred(claim) {
            Err("no secret is shared with it (--region-secret)".to_owned())
        } else {
            ask().map_err(|error| error.to_string())
        };
        self.core.mesh.actor.post(Input::Answered { region, answer });
    }
}

/// What another region is told. One that shares a secret with this one must prove it.
pub(crate) fn answer(handle: &Handle, question: Bytes, asker: &QuestionSender<'_>) -> Bytes {
    let core = &handle.shared.core;
    let name = asking_region(&question).unwrap_or_default();
    if !asker.may_be(PeerClaim::Region { name: &name, address: None }) {
        record_refused_question(handle, "region", asker);
        return refuse_question("it has not proven the secret of the two regions (--region-secret)");
    }
    let (table, topology) = (documents::table(core), core.mesh.status.topology());
    let context = DiscoveryContext {
        region: &core.mesh.region,
        cluster: handle.identity().cluster,
        table: &table,
        topology: Some(&topology),
        addresses: &core.mesh.addresses.get(),
    };
    answer_question(question, &context)
}
