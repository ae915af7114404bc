//! Changes of the plan on request: a data-only node gets its id, and a node is asked to hand over its data and leave. Each
//! change replaces the plan that it was made from, or is made again.

use crate::documents::DocumentChange;
use crate::handle::Handle;
use base::{Code, NodeId};
use mesh::MeshPlan;

impl Handle {
    /// The id of the node at this address; a new id goes into the plan if the address is unknown. For a thread of the peer port.
    pub(crate) fn enrol_blocking(&self, address: &str) -> Result<NodeId, Code> {
        self.documents().update_blocking(|plan: &mut MeshPlan| {
            if let Some(node) = plan.node_at(address) {
                return Ok(DocumentChange::None(node));
            }
            let node = self.members().next_id();
            *plan = plan.with_node(node, address);
            Ok(DocumentChange::Write(node))
        })
    }

    /// Tells a node to hand over what it has and go, or to stay after all.
    pub async fn let_node_go(&self, node: NodeId, leaving: bool) -> Result<(), Code> {
        let change = |plan: &mut MeshPlan| {
            if let Some(next) = plan.with_leaving(node, leaving)? {
                *plan = next;
            }
            Ok(())
        };
        Ok(self.documents().update::<_, _, Code>(change).await?)
    }
}
