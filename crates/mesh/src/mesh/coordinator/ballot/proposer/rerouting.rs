//! Proposals that are under way when the topology changes: they begin again, or go to a node that keeps the key.

use super::{Goal, ProposeOp, ProposeStage};
use crate::frame::OpId;
use crate::mesh::coordinator::forward::TriedNodes;
use crate::mesh::{Mesh, Operation, Pending, Turn};

impl Mesh {
    /// After a change of topology: earlier rounds are refused, so an unfinished proposal begins again.
    pub(in crate::mesh) fn reroute_proposals(&mut self, t: &mut Turn<'_>) {
        self.coordinator.proposals.leads.clear();
        let ids = self.coordinator.operations.iter().filter_map(|(id, pending)| match &pending.operation {
            Operation::Propose(proposing) => Some((*id, proposing.answered)),
            _ => None,
        });
        for (id, answered) in ids.collect::<Vec<_>>() {
            if answered {
                self.coordinator.finish(id);
                continue;
            }
            self.begin_again(t, id);
        }
    }

    fn begin_again(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        let (key, is_read) = (proposing.key.clone(), matches!(proposing.goal, Goal::Read));
        proposing.stage = ProposeStage::Waiting;
        let is_first =
            self.coordinator.proposals.queues.get(&key).and_then(|queue| queue.front()) == Some(&id);
        let route = self.membership.route_of(&key);
        if is_read {
            self.ask_replicas(t, id, None);
        } else if !route.read.contains(&self.membership.me) {
            self.hand_over(t, id);
        } else if is_first {
            self.propose(t, id);
        }
    }

    /// This node is no replica of the key any more. What it has not proposed yet another may.
    fn hand_over(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Pending { operation: Operation::Propose(proposing), deadline, .. }) =
            self.coordinator.finish(id)
        else {
            return;
        };
        let open = proposing.open();
        let ProposeOp { client, key, goal, has_proposed, plain, .. } = *proposing;
        match goal {
            Goal::Write(write) if !has_proposed && plain.is_none() => {
                self.pass_on(t, client, write, TriedNodes::default(), deadline);
            }
            _ => self.reply(t, client, open),
        }
        self.start_next_in_queue(t, &key, id);
    }
}
