//! Proposals that are under way when the topology changes: they begin again, or go to a node that keeps the key.

use super::{Goal, Proposing, Stage};
use crate::frame::Ask;
use crate::mesh::forward::Tried;
use crate::mesh::{Mesh, Operation, Pending, Turn};

impl Mesh {
    /// After a change of topology: earlier rounds are refused, so an unfinished proposal begins again.
    pub(in crate::mesh) fn reroute_proposals(&mut self, t: &mut Turn<'_>) {
        self.ballots.leads.clear();
        let asks = self.operations.iter().filter_map(|(ask, pending)| match &pending.operation {
            Operation::Propose(proposing) => Some((*ask, proposing.answered)),
            _ => None,
        });
        for (ask, answered) in asks.collect::<Vec<_>>() {
            if answered {
                self.finish(ask);
                continue;
            }
            self.begin_again(t, ask);
        }
    }

    fn begin_again(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(proposing) = self.proposing(ask) else { return };
        let (key, is_read) = (proposing.key.clone(), matches!(proposing.goal, Goal::Read));
        proposing.stage = Stage::Waiting;
        let is_first = self.ballots.queues.get(&key).and_then(|queue| queue.front()) == Some(&ask);
        let route = self.route_of(&key);
        match () {
            _ if is_read => self.ask_replicas(t, ask, None),
            _ if !route.read.contains(&self.me) => self.hand_over(t, ask),
            _ if is_first => self.propose(t, ask),
            _ => {}
        }
    }

    /// This node is no replica of the key any more. What it has not proposed yet another may.
    fn hand_over(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(Pending { operation: Operation::Propose(proposing), deadline, .. }) = self.finish(ask)
        else {
            return;
        };
        let open = proposing.open();
        let Proposing { client, key, goal, has_proposed, plain, .. } = *proposing;
        match goal {
            Goal::Write(write) if !has_proposed && plain.is_none() => {
                self.pass_on(t, client, write, Tried::default(), deadline);
            }
            _ => self.reply(t, client, open),
        }
        self.next_in_queue(t, &key, ask);
    }
}
