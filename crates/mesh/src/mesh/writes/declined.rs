//! Replicas that do not take a write. One without disk space will not have it in time: it gets a hint, another node stands in
//! if the client allows it, and the write is answered once too few replicas are left. A replica with another topology is
//! asked again, a little later each time.

use super::{Mesh, Stage, Turn, Writing, fetch};
use crate::actor::RegionId;
use crate::frame::{Ask, Frame};
use crate::mesh::Operation;
use crate::request::{Missing, Reply};
use base::NodeId;
use std::time::Duration;

/// Replicas with another topology are asked again after so long, then after twice as long, and so on.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Mesh {
    /// It has another topology, or does not serve yet, or cannot keep up: in a moment it may take it.
    pub(in crate::mesh) fn decline_write(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        let Some(writing) = self.writing(ask) else { return };
        let is_replica = writing.route.contains(from);
        if !is_replica && !writing.prospect.is_stand_in(from) || writing.prospect.is_settled(from) {
            return;
        }
        let (stage, key) = (&writing.stage, writing.write.key.clone());
        match stage {
            Stage::Gathering { heard, .. } if heard.contains(&from) => return,
            Stage::Gathering { .. } => {}
            Stage::Waiting => return,
            Stage::Spreading if is_replica => self.hint(t, from, &key),
            Stage::Spreading => {}
        }
        self.writing(ask).expect("it is under way").prospect.add_late(from);
        if let Some(pending) = self.operations.get(&ask) {
            let span = t.now.at.since(pending.started).max(ASK_AGAIN_AFTER);
            self.alarms.set(t.now.at.after(span), ask);
        }
        self.settle_write(t, ask);
    }

    /// Those who were out of step are by now in step, or will say again that they are not.
    pub(in crate::mesh) fn ask_again(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(writing) = self.writing(ask).filter(|writing| !writing.answered) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        let gathers = matches!(writing.stage, Stage::Gathering { .. });
        let write = writing.write.clone();
        for node in writing.prospect.take_late() {
            let Some(target) = self.writing(ask).map(|writing| writing.prospect.target(node)) else { return };
            let (key, record) = (key.clone(), record.clone());
            match gathers {
                true => self.send(t, node, fetch(ask, &write)),
                false if target != node => self.send(t, node, Frame::Keep { ask, target, key, record }),
                false => self.send_store(t, node, ask),
            }
        }
    }

    /// It has no room for it, and will not have in time.
    pub(in crate::mesh) fn deny_write(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        let Some(writing) = self.writing(ask) else { return };
        let (is_replica, target) = (writing.route.contains(from), writing.prospect.target(from));
        if !is_replica && target == from || writing.prospect.is_acked(from) {
            return;
        }
        let (key, answered) = (writing.write.key.clone(), writing.answered);
        writing.prospect.add_absent(from);
        if is_replica {
            self.hint(t, from, &key);
        }
        if !answered {
            self.find_stand_in(t, ask, target);
        }
        self.settle_write(t, ask);
    }

    /// Another node keeps the record for a replica that is down or full, if the client allows it.
    pub(super) fn find_stand_in(&mut self, t: &mut Turn<'_>, ask: Ask, target: NodeId) {
        let Some(Operation::Write(writing)) = self.operations.get(&ask).map(|pending| &pending.operation)
        else {
            return;
        };
        if !writing.write.sloppy || writing.prospect.is_stood_in_for(target) {
            return;
        }
        let busy = |node: &NodeId| {
            *node == self.me
                || writing.route.contains(*node)
                || writing.prospect.is_stand_in(*node)
                || self.peers.is_down(*node)
        };
        let mut members = self.topology.members().iter().map(|member| member.node);
        let Some(stand_in) = members.find(|node| !busy(node)) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        if let Some((key, record)) = writing.attempts.clone() {
            self.send(t, stand_in, Frame::Keep { ask: Ask(0), target, key, record });
        }
        self.send(t, stand_in, Frame::Keep { ask, target, key, record });
        self.writing(ask).expect("it is under way").prospect.add_stand_in(stand_in, target);
    }

    /// Answers a write whose quorum is out of reach. It waits for the node's own acknowledgement, so that the write is durable
    /// somewhere when the client hears of it.
    pub(super) fn give_up_in_vain(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let me = self.me;
        let Some(writing) = self.writing(ask).filter(|writing| !writing.answered) else { return };
        let (route, prospect, w) = (&writing.route, &writing.prospect, writing.write.w);
        let is_awaited = route.contains(me) && !prospect.is_acked(me);
        if is_awaited || !prospect.is_out_of_reach(route, w) {
            return;
        }
        let Some(Operation::Write(writing)) = self.operations.get(&ask).map(|pending| &pending.operation)
        else {
            return;
        };
        let reply = self.shortfall(writing);
        self.answer_write(t, ask, reply);
    }

    /// Answers a write that enough replicas have here, and all regions that are not away, when those are too few.
    pub(super) fn give_up_on_regions(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(Operation::Write(writing)) = self.operations.get(&ask).map(|pending| &pending.operation)
        else {
            return;
        };
        let is_here = writing.prospect.is_met(&writing.route, writing.write.w);
        if writing.answered || !is_here || !writing.write.attributes.level.is_abroad() {
            return;
        }
        let away = self.abroad.away(t.now.at);
        let settled = |region: RegionId| writing.reached.contains(&region) || away.contains(&region);
        let is_short = writing.reached.len() + 1 < self.regions_needed(ask);
        if is_short && self.abroad.regions().all(settled) {
            let reply = self.shortfall(writing);
            self.answer_write(t, ask, reply);
        }
    }

    /// What a write has come to that too few have: who of those that were needed has not said so.
    pub(super) fn shortfall(&self, writing: &Writing) -> Reply {
        let Writing { route, prospect, write, reached, .. } = writing;
        if prospect.is_met(route, write.w) {
            let level = write.attributes.level;
            let needed = self.abroad.table.needed(level, self.params.actor.region) as u8;
            let missing = self.abroad.regions().filter(|region| !reached.contains(region)).collect();
            let acks = reached.len() as u8 + 1;
            return Reply::Indeterminate { acks, needed, missing: Missing::regions(missing) };
        }
        let missing = route.everyone().filter(|node| !prospect.is_acked(*node)).collect();
        let (acks, needed) = (prospect.acked().len() as u8, route.needed(write.w) as u8);
        Reply::Indeterminate { acks, needed, missing: Missing::nodes(missing) }
    }
}
