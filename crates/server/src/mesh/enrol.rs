//! Changes of the plan that somebody asks for: a node that keeps data and nothing of coord is given its name, and a
//! node is told to hand over what it has and go. Each replaces the plan that it was made from, or is made anew.

use crate::handle::Handle;
use base::{Code, NodeId};
use bytes::Bytes;
use coord::{Command, SetDocument};
use mesh::plan::{DOCUMENT, Enrolled, Plan};

/// How often a change is made anew because another came first.
const ATTEMPTS: usize = 16;

impl Handle {
    /// Who the node at this address is; it is written down if nobody knows it. For a thread of the peer port.
    pub(crate) fn enrol_blocking(&self, address: &str) -> Result<NodeId, Code> {
        for _ in 0..ATTEMPTS {
            let plan = self.plan_here()?;
            let mut known = plan.nodes.iter().filter(|(_, enrolled)| !enrolled.leaving);
            if let Some((node, _)) = known.find(|(_, enrolled)| enrolled.address == address) {
                return Ok(*node);
            }
            let node = self.next_node_id();
            let mut next = plan.with(plan.topology.renewed(plan.next_epoch()));
            next.nodes.insert(node, Enrolled { address: address.to_owned(), ..Enrolled::default() });
            match self.propose_blocking(&replace(&plan, &next)) {
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
            let (_, bytes) = self.document(DOCUMENT).await?.ok_or(Code::NotInStep)?;
            let plan = Plan::decode(bytes).ok_or(Code::NotInStep)?;
            let stays = |member: &&mesh::Member| member.node != node && !is_leaving(&plan, member.node);
            // Who has gone may be told to stay, as long as coord would have it back.
            if plan.topology.member(node).is_none() && !plan.nodes.contains_key(&node) {
                return Err(Code::MemberNotFound);
            }
            if leaving && !plan.topology.members().iter().any(|member| stays(&member)) {
                return Err(Code::TopologyBusy);
            }
            if is_leaving(&plan, node) == leaving {
                return Ok(());
            }
            let mut next = plan.with(plan.topology.renewed(plan.next_epoch()));
            next.nodes.entry(node).or_default().leaving = leaving;
            match self.set_document(DOCUMENT, plan.epoch().0, next.encode()).await {
                Err(Code::DocumentChanged) => {}
                outcome => return outcome.map(|_| ()),
            }
        }
        Err(Code::TopologyBusy)
    }

    fn plan_here(&self) -> Result<Plan, Code> {
        let (_, bytes): (u64, Bytes) = self.document_here(DOCUMENT).ok_or(Code::NotInStep)?;
        Plan::decode(bytes).ok_or(Code::NotInStep)
    }
}

fn is_leaving(plan: &Plan, node: NodeId) -> bool {
    plan.nodes.get(&node).is_some_and(|enrolled| enrolled.leaving)
}

fn replace(plan: &Plan, next: &Plan) -> Command {
    let (name, bytes) = (DOCUMENT.to_owned(), next.encode());
    Command::Document(SetDocument { name, expect: plan.epoch().0, bytes })
}
