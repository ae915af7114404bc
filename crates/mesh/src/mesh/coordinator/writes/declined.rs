//! Replicas that do not take a write. One without disk space will not have it in time: it gets a hint, another node stands in
//! if the client allows it, and the write is answered once too few replicas are left. A replica with another topology is
//! asked again, a little later each time.

use super::{Mesh, Turn, WriteOp, WriteStage, fetch};
use crate::actor::RegionId;
use crate::frame::{Frame, OpId};
use crate::mesh::Operation;
use crate::mesh::remote_regions::RemoteRegions;
use crate::mutant::Mutant;
use crate::request::{Missing, Reply};
use base::NodeId;
use base::mutant::planted;
use std::time::Duration;

/// Replicas with another topology are asked again after so long, then after twice as long, and so on.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl RemoteRegions {
    /// The reply for a write that too few replicas have: it names those whose acknowledgement is missing.
    pub(super) fn shortfall(&self, writing: &WriteOp) -> Reply {
        let WriteOp { route, tracker, write, reached, .. } = writing;
        if tracker.is_met(route, write.w) {
            let level = write.attributes.level;
            let needed = self.table.needed(level, self.me.region) as u8;
            let missing = self.regions().filter(|region| !reached.contains(region)).collect();
            let acks = reached.len() as u8 + 1;
            return Reply::Indeterminate { acks, needed, missing: Missing::regions(missing) };
        }
        let missing = route.replicas().filter(|node| !tracker.is_acked(*node)).collect();
        let (acks, needed) = (tracker.acked().len() as u8, route.needed(write.w) as u8);
        Reply::Indeterminate { acks, needed, missing: Missing::nodes(missing) }
    }
}

impl Mesh {
    /// A replica declines: it has another topology, does not serve yet, or cannot keep up. In a moment it may take the write.
    pub(in crate::mesh) fn decline_write(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let is_replica = writing.route.contains(from);
        if !is_replica && !writing.tracker.is_stand_in(from) || writing.tracker.is_settled(from) {
            return;
        }
        let (stage, key) = (&writing.stage, writing.write.key.clone());
        match stage {
            WriteStage::Gathering { heard, .. } if heard.contains(&from) => return,
            WriteStage::Gathering { .. } => {}
            WriteStage::Waiting | WriteStage::AwaitingRights { .. } => return,
            WriteStage::AwaitingAcks if is_replica => self.hint(t, from, &key),
            WriteStage::AwaitingAcks => {}
        }
        self.coordinator.write_op(id).expect("it is under way").tracker.add_late(from);
        if let Some(pending) = self.coordinator.operations.get(&id) {
            let span = t.now.at.since(pending.started).max(ASK_AGAIN_AFTER);
            self.coordinator.timers.set(t.now.at.after(span), id);
        }
        self.try_finish_write(t, id);
    }

    /// Sends the write again to replicas that were out of step: by now they take it, or decline again.
    pub(in crate::mesh) fn resend_write(&mut self, t: &mut Turn<'_>, id: OpId) {
        if self.rights_are_late(t, id) {
            return;
        }
        let Some(writing) = self.coordinator.write_op(id).filter(|writing| !writing.answered) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        let gathers = matches!(writing.stage, WriteStage::Gathering { .. });
        let write = writing.write.clone();
        for node in writing.tracker.take_late() {
            let Some(target) = self.coordinator.write_op(id).map(|writing| writing.tracker.target(node))
            else {
                return;
            };
            let (key, record) = (key.clone(), record.clone());
            if gathers {
                self.send(t, node, fetch(id, &write));
            } else if target != node {
                self.send(t, node, Frame::KeepHint { id, target, key, record });
            } else {
                self.send_store(t, node, id);
            }
        }
    }

    /// A replica has no disk space for the write, and will not have any in time.
    pub(in crate::mesh) fn refuse_write_for_space(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let (is_replica, target) = (writing.route.contains(from), writing.tracker.target(from));
        if !is_replica && target == from || writing.tracker.is_acked(from) {
            return;
        }
        let (key, answered) = (writing.write.key.clone(), writing.answered);
        writing.tracker.add_absent(from);
        if is_replica {
            self.hint(t, from, &key);
        }
        if !answered {
            self.send_to_stand_in(t, id, target);
        }
        self.try_finish_write(t, id);
    }

    /// Another node keeps the record for a replica that is down or full, if the client allows it.
    pub(super) fn send_to_stand_in(&mut self, t: &mut Turn<'_>, id: OpId, target: NodeId) {
        let Some(Operation::Write(writing)) =
            self.coordinator.operations.get(&id).map(|pending| &pending.operation)
        else {
            return;
        };
        if !writing.write.sloppy || writing.tracker.is_stood_in_for(target) {
            return;
        }
        let busy = |node: &NodeId| {
            *node == self.membership.me
                || writing.route.contains(*node)
                || writing.tracker.is_stand_in(*node)
                || self.membership.peers.is_down(*node)
        };
        let mut members = self.membership.topology.members().iter().map(|member| member.node);
        let Some(stand_in) = members.find(|node| !busy(node)) else { return };
        let (key, record) = (writing.write.key.clone(), writing.record.clone());
        if let Some((key, record)) = writing.attempts.clone() {
            self.send(t, stand_in, Frame::KeepHint { id: OpId(0), target, key, record });
        }
        self.send(t, stand_in, Frame::KeepHint { id, target, key, record });
        self.coordinator.write_op(id).expect("it is under way").tracker.add_stand_in(stand_in, target);
    }

    /// Answers a write whose quorum is out of reach. It waits for the node's own acknowledgement, so that the write is durable
    /// somewhere when the client hears of it.
    pub(super) fn give_up_without_quorum(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(writing) = self.coordinator.write_op(id).filter(|writing| !writing.answered) else { return };
        let (route, tracker, w) = (&writing.route, &writing.tracker, writing.write.w);
        let must_be_filled = route.contains(me) && !tracker.is_acked(me);
        let is_open = must_be_filled || !tracker.is_out_of_reach(route, w);
        if is_open || planted(Mutant::RefusedAtDeadline) {
            return;
        }
        let Some(Operation::Write(writing)) =
            self.coordinator.operations.get(&id).map(|pending| &pending.operation)
        else {
            return;
        };
        let reply = self.remote.shortfall(writing);
        self.answer_write(t, id, reply);
    }

    /// Answers a write that enough replicas have here, and all regions that are not away, when those are too few.
    pub(super) fn give_up_on_regions(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Operation::Write(writing)) =
            self.coordinator.operations.get(&id).map(|pending| &pending.operation)
        else {
            return;
        };
        let is_here = writing.tracker.is_met(&writing.route, writing.write.w);
        if writing.answered || !is_here || !writing.write.attributes.level.spans_regions() {
            return;
        }
        let away = self.remote.unreachable(t.now.at);
        let settled = |region: RegionId| writing.reached.contains(&region) || away.contains(&region);
        let is_short = writing.reached.len() + 1 < self.regions_needed(id);
        if is_short && self.remote.regions().all(settled) {
            let reply = self.remote.shortfall(writing);
            self.answer_write(t, id, reply);
        }
    }
}
