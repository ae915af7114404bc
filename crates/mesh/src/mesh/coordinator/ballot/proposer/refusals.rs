//! A proposal that replicas decline or refuse: when it is asked about again, and when it begins again with a higher round.

use super::{Goal, ProposeOp, ProposeStage};
use crate::ballot::Round;
use crate::frame::OpId;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Instant, NodeId};
use std::time::Duration;

/// Replicas that declined are asked again after so long, then after twice as long, and so on.
const DECLINED_ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A refused proposer waits at least so long, twice as long after the next refusal, and so on, within a bound.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_DOUBLINGS_MAX: u32 = 6;

impl ProposeOp {
    /// Whether a replica has refused what is being asked.
    fn is_refused(&self) -> bool {
        match &self.stage {
            ProposeStage::Waiting => false,
            ProposeStage::Asking { refused, .. } | ProposeStage::Accepting { refused, .. } => {
                !refused.is_empty()
            }
        }
    }
}

impl Coordinator {
    /// A replica is not in step, does not serve yet or has no disk space: in a moment it may answer.
    pub(in crate::mesh) fn decline_proposing(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(pending) = self.operations.get(&id) else { return };
        let at = t.now.at.after(t.now.at.since(pending.started).max(DECLINED_ASK_AGAIN_AFTER));
        self.wake_proposal(id, at);
    }

    /// Asks, or tries, again no later than then.
    fn wake_proposal(&mut self, id: OpId, at: Instant) {
        if let Some(proposing) = self.propose_op(id).filter(|proposing| at < proposing.wake_at) {
            proposing.wake_at = at;
            self.timers.set(at, id);
        }
    }

    /// A refused proposal begins again after a pause.
    fn back_off(&mut self, t: &Turn<'_>, me: NodeId, id: OpId) {
        let Some(proposing) = self.propose_op(id) else { return };
        proposing.stage = ProposeStage::Waiting;
        proposing.refusals += 1;
        let at = t.now.at.after(pause(me, id, proposing.refusals));
        proposing.wake_at = at;
        self.timers.set(at, id);
    }
}

impl Mesh {
    /// A replica has promised a higher round.
    pub(super) fn refused(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, passed: Option<Round>) {
        let me = self.membership.me;
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        let is_replica = proposing.route.contains(from);
        let (ProposeStage::Asking { refused, .. } | ProposeStage::Accepting { refused, .. }) =
            &mut proposing.stage
        else {
            return;
        };
        if !is_replica || refused.contains(&from) {
            return;
        }
        refused.push(from);
        let refused = refused.clone();
        proposing.seen = proposing.seen.max(passed);
        let (key, in_reach) = (proposing.key.clone(), proposing.is_in_reach(&refused));
        let (answered, silent) = (proposing.answered, proposing.silent());
        self.coordinator.proposals.leads.remove(&key);
        match () {
            _ if answered => {}
            _ if !in_reach => self.coordinator.back_off(t, me, id),
            // This node answers when its disk has it.
            _ if silent.contains(&me) => {}
            _ => {
                let at = t.now.at.after(self.membership.peers.hedge_delay(&silent));
                self.coordinator.wake_proposal(id, at);
            }
        }
    }

    /// Asks again, or tries again.
    pub(in crate::mesh) fn retry_proposal(&mut self, t: &mut Turn<'_>, id: OpId) {
        let is_due = |proposing: &&mut ProposeOp| !proposing.answered && proposing.wake_at <= t.now.at;
        let Some(proposing) = self.coordinator.propose_op(id).filter(is_due) else { return };
        let (is_waiting, key) = (matches!(proposing.stage, ProposeStage::Waiting), proposing.key.clone());
        let is_refused = proposing.is_refused() && !planted(Mutant::RefusedAwaitsSilent);
        let is_read = matches!(proposing.goal, Goal::Read);
        let is_first = is_read
            || self.coordinator.proposals.queues.get(&key).and_then(|queue| queue.front()) == Some(&id);
        if is_refused {
            // The others that its majority needs have said nothing in their time: they may be gone.
            self.coordinator.back_off(t, self.membership.me, id);
        } else if !is_waiting {
            self.send_ballot(t, id);
        } else if is_first {
            self.propose(t, id);
        }
    }
}

/// Longer with every refusal, and not the same on two nodes.
fn pause(node: NodeId, id: OpId, refusals: u32) -> Duration {
    let most = PAUSE_MIN * 2u32.pow(refusals.min(PAUSE_DOUBLINGS_MAX));
    let chance = base::rng::mix(node.0 ^ base::rng::mix(id.0 ^ u64::from(refusals) << 32));
    PAUSE_MIN + most.mul_f64((chance % 1_000) as f64 / 1_000.0)
}
