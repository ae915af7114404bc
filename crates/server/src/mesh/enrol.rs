//! Changes of the plan on request: a data-only node gets its id, and a node is asked to hand over its data and leave. Each
//! change replaces the plan that it was made from, or is made again.

use crate::handle::Handle;
use base::{Code, NodeId};
use bytes::Bytes;
use coord::{Command, SetDocument};
use mesh::{MeshPlan, documents};

/// How often a change is made again because another came first.
const ATTEMPTS: usize = 16;

impl Handle {
    /// The id of the node at this address; a new id goes into the plan if the address is unknown. For a thread of the peer port.
    pub(crate) fn enrol_blocking(&self, address: &str) -> Result<NodeId, Code> {
        for _ in 0..ATTEMPTS {
            let plan = self.plan_here()?;
            if let Some(node) = plan.node_at(address) {
                return Ok(node);
            }
            let node = self.members().next_id();
            match self.propose_blocking(&replace(&plan, &plan.with_node(node, address))) {
                Ok(_) => return Ok(node),
                Err(Code::DocumentChanged) => {}
                Err(code) => return Err(code),
            }
        }
        Err(Code::TopologyBusy)
    }

    /// Tells a node to hand over what it has and go, or to stay after all.
    pub async fn let_node_go(&self, node: NodeId, leaving: bool) -> Result<(), Code> {
        for _ in 0..ATTEMPTS {
            let (_, bytes) = self.documents().get(documents::PLAN).await?.ok_or(Code::NotInStep)?;
            let plan = MeshPlan::decode(bytes).ok_or(Code::NotInStep)?;
            let Some(next) = plan.with_leaving(node, leaving)? else { return Ok(()) };
            match self.documents().set(documents::PLAN, plan.epoch().0, next.encode()).await {
                Err(Code::DocumentChanged) => {}
                outcome => return outcome.map(|_| ()),
            }
        }
        Err(Code::TopologyBusy)
    }

    fn plan_here(&self) -> Result<MeshPlan, Code> {
        let (_, bytes): (u64, Bytes) = self.documents().get_here(documents::PLAN).ok_or(Code::NotInStep)?;
        MeshPlan::decode(bytes).ok_or(Code::NotInStep)
    }
}

fn replace(plan: &MeshPlan, next: &MeshPlan) -> Command {
    let (name, bytes) = (documents::PLAN.to_owned(), next.encode());
    Command::Document(SetDocument { name, expect: plan.epoch().0, bytes })
}
