//! Forwards a write to a replica, since only a replica can assign its dot. The node that the client asked stamps the write,
//! and only that node stamps it again, while its client waits (ADR 43). A replica that applies it late applies it under its
//! early stamp, below everything acknowledged since. A replica that cannot coordinate declines, and the next one is tried;
//! a silent one is passed over within tens of milliseconds. So that no write is done twice, one that has no request id is
//! remembered by a name that this node gives it, as others are by their ids (ADR 108). When no replica can take it, all are tried again a little
//! later, until the write's deadline. A frame that the network repeats is applied once.

mod names;

use crate::actor::RegionId;
use crate::frame::{Frame, OpId, StampCheck, WriteOrigin};
use crate::hlc::Stamp;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::membership::Membership;
use crate::mesh::{Client, Mesh, Operation, Turn};
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::record::Kind;
use crate::request::{Level, Missing, Reply, Write};
use base::mutant::planted;
use base::{Code, Instant, NodeId};
use names::ForwardVerdict;
pub(in crate::mesh) use names::ForwardedNames;
use std::sync::Arc;
use std::time::Duration;

/// Replicas that declined a write are asked again after so long: while a topology spreads, all may decline for a moment.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// A replica that sends frames, but no answer for so long, is passed over as one that is silent.
const PASSED_OVER_AFTER: Duration = Duration::from_millis(500);
/// Replicas that are taken for gone, and have come back unnoticed, answer within this time.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(in crate::mesh) struct ForwardOp {
    client: Client,
    write: Arc<Write>,
    /// Replicas that were sent it and have not answered; none while it waits to be passed on again.
    asked: Vec<NodeId>,
    tried: TriedNodes,
    stamp: Stamp,
    check: StampCheck,
}

/// The nodes that could not take a write, and why.
#[derive(Clone, Debug, Default)]
pub(in crate::mesh) struct TriedNodes(Vec<(NodeId, Obstacle)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) enum Obstacle {
    FullDisk,
    /// The node has another topology, or does not serve yet: in a moment it may take the write.
    OutOfStep,
}

impl TriedNodes {
    pub fn by(node: NodeId, obstacle: Obstacle) -> TriedNodes {
        TriedNodes(vec![(node, obstacle)])
    }

    fn contains(&self, node: NodeId) -> bool {
        self.0.iter().any(|(other, _)| *other == node)
    }

    fn met(&self, obstacle: Obstacle) -> bool {
        self.0.iter().any(|(_, other)| *other == obstacle)
    }
}

impl Membership {
    /// The replica that is likely to answer first, of those that were not asked.
    fn next_replica(&self, write: &Write, tried: &TriedNodes, asked: &[NodeId]) -> Option<NodeId> {
        let copies = self.topology.copies(write.key.namespace_id()).unwrap_or(0);
        let mut list = self.route(write.key.partition(), copies).read.clone();
        list.retain(|node| *node != self.me && !tried.contains(*node) && !asked.contains(node));
        if write.is_decided() {
            // Always the same one, if it is up: it has the promises of the last time.
            list.sort_by_key(|node| self.peers.is_slow_or_down(*node));
        } else {
            self.peers.order(&mut list);
        }
        // Where disks are full, or another is under way already, a node that is down is not waited for.
        let picky = tried.met(Obstacle::FullDisk) || !asked.is_empty();
        list.first().copied().filter(|to| !picky || !self.peers.is_down(*to))
    }
}

impl Coordinator {
    fn forward_op(&mut self, id: OpId) -> Option<&mut ForwardOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Forward(forwarding)) => Some(forwarding),
            _ => None,
        }
    }
}

impl Mesh {
    /// A write that this node's disk has no space for goes to a replica that has.
    pub(in crate::mesh) fn pass_on_full_disk(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        deadline: Instant,
    ) {
        let tried = TriedNodes::by(self.membership.me, Obstacle::FullDisk);
        self.pass_on(t, client, write, tried, deadline);
    }

    pub(in crate::mesh) fn pass_on(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        tried: TriedNodes,
        deadline: Instant,
    ) {
        // A node that was asked to coordinate and cannot says so; it does not pass on what was passed on.
        match client {
            Client::Peer(..) if tried.met(Obstacle::FullDisk) => {
                return self.reply(t, client, Reply::Refused(Code::NoSpace));
            }
            Client::Peer(node, id) => return self.send(t, node, Frame::Declined { id }),
            _ => {}
        }
        let to = self.membership.next_replica(&write, &tried, &[]);
        if to.is_none() && tried.met(Obstacle::FullDisk) && !tried.met(Obstacle::OutOfStep) {
            return self.reply(t, client, Reply::Refused(Code::NoSpace));
        }
        let write = self.named(write);
        let stamp = self.replica.clock.tick(t.now.wall_ms);
        let check = StampCheck::None;
        let forwarding = ForwardOp { client, write, asked: Vec::new(), tried, stamp, check };
        let id = self.coordinator.begin(t, Operation::Forward(Box::new(forwarding)), deadline);
        match to {
            Some(to) => self.forward(t, id, to),
            None => self.coordinator.timers.set(t.now.at.after(RETRY_AFTER), id),
        }
    }

    /// The write under a name, if it needs one: two replicas that carry it out are known to have done the same.
    fn named(&mut self, mut write: Arc<Write>) -> Arc<Write> {
        let copies = self.membership.topology.copies(write.key.namespace_id()).unwrap_or(0);
        // Writes to collections are not remembered, and what is restored comes in masses.
        let is_apart =
            write.kind.collection().is_some() || matches!(write.op, Op::Elements(_) | Op::Restore(_));
        // Nor are those to bounded counters: what was done twice could not be taken back.
        let is_apart = is_apart || write.kind == Kind::BoundedCounter;
        if copies > 1 && !is_apart && !is_idempotent(&write) {
            let operation = self.coordinator.name_operation(self.membership.me);
            Arc::make_mut(&mut write).attributes.operation = Some(operation);
        }
        write
    }

    fn forward(&mut self, t: &mut Turn<'_>, id: OpId, to: NodeId) {
        let Some(deadline) = self.coordinator.operations.get(&id).map(|pending| pending.deadline) else {
            return;
        };
        let Some(forwarding) = self.coordinator.forward_op(id) else { return };
        forwarding.asked.push(to);
        let remaining_ms = deadline.since(t.now.at).as_millis() as u64;
        let (stamp, check, write) = (forwarding.stamp, forwarding.check, forwarding.write.clone());
        let origin = Some(WriteOrigin { stamp, remaining_ms, check, operation: write.attributes.operation });
        self.send(t, to, Frame::Forward { id, origin, write });
        self.look_again(t, id, to);
    }

    fn look_again(&mut self, t: &Turn<'_>, id: OpId, asked: NodeId) {
        self.coordinator.timers.set(t.now.at.after(self.membership.peers.hedge_delay(&[asked])), id);
    }

    /// The time of a write that waits: to be passed on again, or for a replica that takes long.
    pub(in crate::mesh) fn retry_forward(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(forwarding) = self.coordinator.forward_op(id) else { return };
        if forwarding.asked.is_empty() {
            return self.retry_write(t, id);
        }
        let (write, asked) = (forwarding.write.clone(), forwarding.asked.clone());
        let Some((pending, last)) = self.coordinator.operations.get(&id).zip(asked.last().copied()) else {
            return;
        };
        let is_late = t.now.at.since(pending.started) >= PASSED_OVER_AFTER;
        let is_silent = self.membership.peers.is_slow_or_down(last);
        asked.iter().for_each(|node| self.membership.peers.mark_slow(*node));
        // Of a last write two replicas make one. Others are done once more, or compete for a ballot, until their replicas hear
        // of each other, so a replica that only takes long gets its time.
        if (write.is_decided() || write.attributes.operation.is_some()) && !is_silent && !is_late {
            return self.look_again(t, id, last);
        }
        if !planted(Mutant::SlowReplicaAwaited) {
            self.pass_over(t, id);
        }
    }

    /// The next replica, as well. Where there is none, and those that have the write are known to be gone, it is of unknown
    /// fate, and its client need not wait for its deadline to hear so.
    fn pass_over(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(forwarding) = self.coordinator.forward_op(id) else { return };
        let (write, tried, asked) =
            (forwarding.write.clone(), forwarding.tried.clone(), forwarding.asked.clone());
        let next = self.membership.next_replica(&write, &tried, &asked).filter(|_| is_idempotent(&write));
        if let Some(to) = next {
            return self.forward(t, id, to);
        }
        let peers = &self.membership.peers;
        let is_gone = |node: &NodeId| peers.is_lost(*node) || peers.is_down(*node);
        let Some(started) = self.coordinator.operations.get(&id).map(|pending| pending.started) else {
            return;
        };
        if !asked.iter().all(is_gone) {
            return;
        }
        if t.now.at < started.after(GIVEN_UP_AFTER) {
            return self.coordinator.timers.set(started.after(GIVEN_UP_AFTER), id);
        }
        if let Some(Operation::Forward(forwarding)) =
            self.coordinator.finish(id).map(|pending| pending.operation)
        {
            self.expire_forward(t, *forwarding);
        }
    }

    /// No replica could take it a moment ago; by now this node itself may.
    fn retry_write(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(pending) = self.coordinator.finish(id) else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            self.start_write(t, forwarding.client, forwarding.write, pending.deadline);
        }
    }

    pub(in crate::mesh) fn step_forward(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        origin: Option<WriteOrigin>,
        mut write: Arc<Write>,
    ) {
        let remembered_until = t.now.at.after(self.params.timeout + 2 * self.params.drift_max);
        match self.coordinator.forwarded.entry(from).or_default().take(id, t.now.at, remembered_until) {
            ForwardVerdict::First => {}
            ForwardVerdict::Repeated => return,
            ForwardVerdict::Full => return self.send(t, from, Frame::Declined { id }),
        }
        if let Some(operation) = origin.and_then(|origin| origin.operation) {
            Arc::make_mut(&mut write).attributes.operation = Some(operation);
        }
        let origin = origin.filter(|_| !planted(Mutant::ForwardStampedLate));
        if let Some(origin) = origin {
            self.replica.clock.observe(origin.stamp, t.now.wall_ms);
        }
        let remaining =
            origin.map_or(self.params.timeout, |origin| Duration::from_millis(origin.remaining_ms));
        let deadline = t.now.at.after(remaining.min(self.params.timeout));
        if origin.is_some_and(|origin| self.is_over(t, origin)) {
            let (stamp, check) = (Stamp::at_ms(t.now.wall_ms), StampCheck::None);
            return self.send(t, from, Frame::Behind { id, stamp, check });
        }
        self.coordinate(t, Client::Peer(from, id), write, origin, deadline);
    }

    /// Whether a write's time is over, or the time for which this node remembers that it has had it, by any clock that is within the bound of this one. Its order does not hang on this: a
    /// clock further away takes it for late or not, and its stamp says where it belongs.
    fn is_over(&self, t: &Turn<'_>, origin: WriteOrigin) -> bool {
        let drift_ms = self.params.drift_max.as_millis() as u64;
        let remaining_ms = origin.remaining_ms.min(self.params.timeout.as_millis() as u64);
        t.now.wall_ms > origin.stamp.ms().saturating_add(remaining_ms).saturating_add(drift_ms)
    }

    pub(in crate::mesh) fn step_forwarded(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        reply: Reply,
        reached: Vec<RegionId>,
    ) {
        if let Reply::Written(record) = &reply {
            self.remote.record_reached(record.header.dot, reached);
        }
        self.record_rtt(t, from, id);
        let Some(forwarding) =
            self.coordinator.forward_op(id).filter(|forwarding| forwarding.asked.contains(&from))
        else {
            return;
        };
        if reply == Reply::Refused(Code::NoSpace) {
            return self.try_next_replica(t, from, id, Obstacle::FullDisk);
        }
        if reply == Reply::Refused(Code::KeyDecided) {
            return self.decide_forwarded(t, id);
        }
        let is_open = matches!(
            reply,
            Reply::Indeterminate { .. } | Reply::Unavailable { .. } | Reply::Refused(Code::Timeout)
        );
        if is_open && forwarding.asked.len() > 1 {
            // Another replica has the write too, and may know its outcome.
            return forwarding.asked.retain(|node| *node != from);
        }
        if let Some(Operation::Forward(forwarding)) =
            self.coordinator.finish(id).map(|pending| pending.operation)
        {
            self.reply(t, forwarding.client, reply);
        }
    }

    /// A plain write of a key that is decided by ballots, which the replica has not begun: it is decided, by one replica.
    fn decide_forwarded(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(pending) = self.coordinator.finish(id) else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            let mut write = (*forwarding.write).clone();
            let attributes = &mut write.attributes;
            attributes.level = Level::Linearizable;
            // Another replica may have done it as a plain write, so a majority is asked, as for a request of a client.
            attributes.request = attributes.once();
            self.start_write(t, forwarding.client, Arc::new(write), pending.deadline);
        }
    }

    /// A replica has something later than the write's stamp. Whether the write may come after it is decided here: it may as long
    /// as its client waits.
    pub(in crate::mesh) fn step_behind(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        stamp: Stamp,
        check: StampCheck,
    ) {
        self.record_rtt(t, from, id);
        self.replica.clock.observe(stamp, t.now.wall_ms);
        let Some(pending) =
            self.coordinator.operations.get(&id).filter(|pending| pending.deadline > t.now.at)
        else {
            return;
        };
        let deadline = pending.deadline;
        let asked = |forwarding: &mut ForwardOp| forwarding.asked.contains(&from);
        if !self.coordinator.forward_op(id).is_some_and(asked) {
            return;
        }
        let Some(Operation::Forward(mut forwarding)) =
            self.coordinator.finish(id).map(|pending| pending.operation)
        else {
            return;
        };
        forwarding.stamp = self.replica.clock.tick(t.now.wall_ms).max(stamp.next());
        forwarding.check = forwarding.check.max(check);
        forwarding.asked.clear();
        let id = self.coordinator.begin(t, Operation::Forward(forwarding), deadline);
        self.forward(t, id, from);
    }

    pub(in crate::mesh) fn decline_forward(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        self.try_next_replica(t, from, id, Obstacle::OutOfStep);
    }

    /// The replica did not begin the write, so another one may be asked, until the write's deadline.
    fn try_next_replica(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, obstacle: Obstacle) {
        let over = self.coordinator.operations.get(&id).is_none_or(|pending| pending.deadline <= t.now.at);
        let Some(forwarding) =
            self.coordinator.forward_op(id).filter(|forwarding| forwarding.asked.contains(&from))
        else {
            return;
        };
        forwarding.tried.0.push((from, obstacle));
        if forwarding.asked.len() > 1 {
            return forwarding.asked.retain(|node| *node != from);
        }
        if over {
            // It expires with the next tick.
            return;
        }
        let Some(pending) = self.coordinator.finish(id) else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            let ForwardOp { client, write, tried, .. } = *forwarding;
            self.pass_on(t, client, write, tried, pending.deadline);
        }
    }

    /// The connection to a replica broke, and its answers with it.
    pub(in crate::mesh) fn pass_over_lost(&mut self, t: &mut Turn<'_>, peer: NodeId) {
        let waits = |operation: &Operation| match operation {
            Operation::Forward(forwarding) => forwarding.asked.contains(&peer),
            _ => false,
        };
        let operations = self.coordinator.operations.iter();
        let mut lost: Vec<OpId> =
            operations.filter(|(_, pending)| waits(&pending.operation)).map(|(id, _)| *id).collect();
        lost.sort_unstable();
        lost.into_iter().for_each(|id| self.pass_over(t, id));
    }

    pub(in crate::mesh) fn expire_forward(&mut self, t: &mut Turn<'_>, forwarding: ForwardOp) {
        if forwarding.asked.is_empty() {
            let full = forwarding.tried.met(Obstacle::FullDisk);
            let code = if full { Code::NoSpace } else { Code::NotInStep };
            return self.reply(t, forwarding.client, Reply::Refused(code));
        }
        forwarding.asked.iter().for_each(|node| self.membership.peers.mark_unanswered(*node, t.now.at));
        let copies = self.membership.topology.copies(forwarding.write.key.namespace_id()).unwrap_or(1);
        let needed = forwarding.write.w.unwrap_or(majority(copies.into()) as u8);
        let missing = Missing::nodes(forwarding.asked);
        self.reply(t, forwarding.client, Reply::Indeterminate { acks: 0, needed, missing });
    }
}

/// Whether two replicas may carry out the same write: both give it the same stamp and value, so it is one write; or its
/// request id, or its name, makes it count once.
fn is_idempotent(write: &Write) -> bool {
    let is_last_write = write.kind.is_last_write_wins() && !write.is_decided();
    let is_bounded = write.kind == Kind::BoundedCounter;
    is_last_write || write.attributes.once().is_some() && !is_bounded
}
