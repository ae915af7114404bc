//! Forwards a write to a replica, since only a replica can assign its dot. The node that the client asked stamps the write,
//! and only that node stamps it again, while its client waits (ADR 43). A replica that applies it late applies it under its
//! early stamp, below everything acknowledged since. A replica that cannot coordinate declines, and the next one is tried;
//! a slow one is skipped if applying the write twice does no harm. When no replica can take it, all are tried again a little
//! later, until the write's deadline. A frame that the network repeats is applied once.

mod taken;

use super::{Client, Mesh, Operation, Turn};
use crate::actor::RegionId;
use crate::frame::{Ask, Begun, Frame, StampCheck};
use crate::hlc::Stamp;
use crate::moves::majority;
use crate::op::Op;
use crate::record::Kind;
use crate::request::{Level, Missing, Reply, Write};
use base::mutant::{Mutant, planted};
use base::{Code, Instant, NodeId};
use std::sync::Arc;
use std::time::Duration;
pub(super) use taken::ForwardedNames;
use taken::Taken;

/// Replicas that declined a write are asked again after so long: while a topology spreads, all may decline for a moment.
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Forwarding {
    client: Client,
    write: Arc<Write>,
    /// Replicas that were sent it and have not answered; none while it waits to be passed on again.
    asked: Vec<NodeId>,
    tried: Tried,
    stamp: Stamp,
    check: StampCheck,
}

/// The nodes that could not take a write, and why.
#[derive(Clone, Debug, Default)]
pub(super) struct Tried(Vec<(NodeId, Obstacle)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    FullDisk,
    /// It has another topology, or does not serve yet: in a moment it may take it.
    OutOfStep,
}

impl Tried {
    pub fn by(node: NodeId, obstacle: Obstacle) -> Tried {
        Tried(vec![(node, obstacle)])
    }

    fn contains(&self, node: NodeId) -> bool {
        self.0.iter().any(|(other, _)| *other == node)
    }

    fn met(&self, obstacle: Obstacle) -> bool {
        self.0.iter().any(|(_, other)| *other == obstacle)
    }
}

impl Mesh {
    pub(super) fn pass_on(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        tried: Tried,
        deadline: Instant,
    ) {
        // A node that was asked to coordinate and cannot says so; it does not pass on what was passed on.
        match client {
            Client::Peer(..) if tried.met(Obstacle::FullDisk) => {
                return self.reply(t, client, Reply::Refused(Code::NoSpace));
            }
            Client::Peer(node, ask) => return self.send(t, node, Frame::Declined { ask }),
            _ => {}
        }
        let to = self.next_replica(&write, &tried, &[]);
        if to.is_none() && tried.met(Obstacle::FullDisk) && !tried.met(Obstacle::OutOfStep) {
            return self.reply(t, client, Reply::Refused(Code::NoSpace));
        }
        let stamp = self.clock.tick(t.now.wall_ms);
        let check = StampCheck::None;
        let forwarding = Forwarding { client, write, asked: Vec::new(), tried, stamp, check };
        let ask = self.begin(t, Operation::Forward(Box::new(forwarding)), deadline);
        match to {
            Some(to) => self.forward(t, ask, to),
            None => self.alarms.set(t.now.at.after(RETRY_AFTER), ask),
        }
    }

    /// The replica that is likely to answer first, of those that were not asked.
    fn next_replica(&self, write: &Write, tried: &Tried, asked: &[NodeId]) -> Option<NodeId> {
        let copies = self.topology.copies(write.key.space()).unwrap_or(0);
        let mut list = self.route(write.key.partition(), copies).read.clone();
        list.retain(|node| *node != self.me && !tried.contains(*node) && !asked.contains(node));
        match write.is_decided() {
            // Always the same one, if it is up: it has the promises of the last time.
            true => list.sort_by_key(|node| self.peers.is_slow_or_down(*node)),
            false => self.peers.order(&mut list),
        }
        // Where disks are full, or another is under way already, a node that is down is not waited for.
        let picky = tried.met(Obstacle::FullDisk) || !asked.is_empty();
        list.first().copied().filter(|to| !picky || !self.peers.is_down(*to))
    }

    fn forwarding(&mut self, ask: Ask) -> Option<&mut Forwarding> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::Forward(forwarding)) => Some(forwarding),
            _ => None,
        }
    }

    fn forward(&mut self, t: &mut Turn<'_>, ask: Ask, to: NodeId) {
        let Some(deadline) = self.operations.get(&ask).map(|pending| pending.deadline) else { return };
        let Some(forwarding) = self.forwarding(ask) else { return };
        forwarding.asked.push(to);
        let remaining_ms = deadline.since(t.now.at).as_millis() as u64;
        let begun = Begun { stamp: forwarding.stamp, remaining_ms, check: forwarding.check };
        let (begun, write) = (Some(begun), forwarding.write.clone());
        self.send(t, to, Frame::Forward { ask, begun, write });
        self.alarms.set(t.now.at.after(self.peers.patience(&[to])), ask);
    }

    /// The time of a write that waits: to be passed on again, or for a replica that takes long.
    pub(super) fn look_after_forward(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(forwarding) = self.forwarding(ask) else { return };
        if forwarding.asked.is_empty() {
            return self.pass_on_again(t, ask);
        }
        let (write, tried, asked) =
            (forwarding.write.clone(), forwarding.tried.clone(), forwarding.asked.clone());
        asked.iter().for_each(|node| self.peers.slow(*node));
        if !may_be_done_twice(&write) {
            return;
        }
        if let Some(to) = self.next_replica(&write, &tried, &asked) {
            self.forward(t, ask, to);
        }
    }

    /// No replica could take it a moment ago; by now this node itself may.
    fn pass_on_again(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(pending) = self.finish(ask) else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            self.start_write(t, forwarding.client, forwarding.write, pending.deadline);
        }
    }

    pub(super) fn step_forward(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        begun: Option<Begun>,
        write: Arc<Write>,
    ) {
        let remembered_until = t.now.at.after(self.params.timeout + 2 * self.params.drift_max);
        match self.forwarded.entry(from).or_default().take(ask, t.now.at, remembered_until) {
            Taken::First => {}
            Taken::Again => return,
            Taken::Full => return self.send(t, from, Frame::Declined { ask }),
        }
        let begun = begun.filter(|_| !planted(Mutant::ForwardStampedLate));
        if let Some(begun) = begun {
            self.clock.observe(begun.stamp, t.now.wall_ms);
        }
        let remaining = begun.map_or(self.params.timeout, |begun| Duration::from_millis(begun.remaining_ms));
        let deadline = t.now.at.after(remaining.min(self.params.timeout));
        if begun.is_some_and(|begun| self.is_over(t, begun)) {
            let (stamp, check) = (Stamp::at_ms(t.now.wall_ms), StampCheck::None);
            return self.send(t, from, Frame::Behind { ask, stamp, check });
        }
        self.coordinate(t, Client::Peer(from, ask), write, begun, deadline);
    }

    /// Whether a write's time is over, or the time for which this node remembers that it has had it, by any clock that is within the bound of this one. Its order does not hang on this: a
    /// clock further away takes it for late or not, and its stamp says where it belongs.
    fn is_over(&self, t: &Turn<'_>, begun: Begun) -> bool {
        let drift_ms = self.params.drift_max.as_millis() as u64;
        let remaining_ms = begun.remaining_ms.min(self.params.timeout.as_millis() as u64);
        t.now.wall_ms > begun.stamp.ms().saturating_add(remaining_ms).saturating_add(drift_ms)
    }

    pub(super) fn step_forwarded(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        reply: Reply,
        reached: Vec<RegionId>,
    ) {
        if let Reply::Written(record) = &reply {
            self.abroad.remember_reached(record.header.dot, reached);
        }
        self.time(t, from, ask);
        let Some(forwarding) = self.forwarding(ask).filter(|forwarding| forwarding.asked.contains(&from))
        else {
            return;
        };
        if reply == Reply::Refused(Code::NoSpace) {
            return self.pass_over(t, from, ask, Obstacle::FullDisk);
        }
        if reply == Reply::Refused(Code::KeyDecided) {
            return self.decide_forwarded(t, ask);
        }
        let is_open = matches!(reply, Reply::Indeterminate { .. } | Reply::Refused(Code::Timeout));
        if is_open && forwarding.asked.len() > 1 {
            // Another replica has it too, and may know more.
            return forwarding.asked.retain(|node| *node != from);
        }
        if let Some(Operation::Forward(forwarding)) = self.finish(ask).map(|pending| pending.operation) {
            self.reply(t, forwarding.client, reply);
        }
    }

    /// A plain write of a key that is decided by ballots, which the replica has not begun: it is decided, by one replica.
    fn decide_forwarded(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(pending) = self.finish(ask) else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            let mut write = (*forwarding.write).clone();
            write.attributes.level = Level::Linearizable;
            self.start_write(t, forwarding.client, Arc::new(write), pending.deadline);
        }
    }

    /// A replica has something later than the write's stamp. Whether the write may come after it is decided here: it may as long
    /// as its client waits.
    pub(super) fn step_behind(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        stamp: Stamp,
        check: StampCheck,
    ) {
        self.time(t, from, ask);
        self.clock.observe(stamp, t.now.wall_ms);
        let Some(pending) = self.operations.get(&ask).filter(|pending| pending.deadline > t.now.at) else {
            return;
        };
        let deadline = pending.deadline;
        let asked = |forwarding: &mut Forwarding| forwarding.asked.contains(&from);
        if !self.forwarding(ask).is_some_and(asked) {
            return;
        }
        let Some(Operation::Forward(mut forwarding)) = self.finish(ask).map(|pending| pending.operation)
        else {
            return;
        };
        forwarding.stamp = self.clock.tick(t.now.wall_ms).max(stamp.next());
        forwarding.check = forwarding.check.max(check);
        forwarding.asked.clear();
        let ask = self.begin(t, Operation::Forward(forwarding), deadline);
        self.forward(t, ask, from);
    }

    pub(super) fn decline_forward(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        self.pass_over(t, from, ask, Obstacle::OutOfStep);
    }

    /// It was not begun there, so another may be asked, within the write's time.
    fn pass_over(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, obstacle: Obstacle) {
        let over = self.operations.get(&ask).is_none_or(|pending| pending.deadline <= t.now.at);
        let Some(forwarding) = self.forwarding(ask).filter(|forwarding| forwarding.asked.contains(&from))
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
        let Some(pending) = self.finish(ask) else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            let Forwarding { client, write, tried, .. } = *forwarding;
            self.pass_on(t, client, write, tried, pending.deadline);
        }
    }

    pub(super) fn expire_forward(&mut self, t: &mut Turn<'_>, forwarding: Forwarding) {
        if forwarding.asked.is_empty() {
            let full = forwarding.tried.met(Obstacle::FullDisk);
            let code = if full { Code::NoSpace } else { Code::NotInStep };
            return self.reply(t, forwarding.client, Reply::Refused(code));
        }
        forwarding.asked.iter().for_each(|node| self.peers.silent(*node, t.now.at));
        let copies = self.topology.copies(forwarding.write.key.space()).unwrap_or(1);
        let needed = forwarding.write.w.unwrap_or(majority(copies.into()) as u8);
        let missing = Missing::nodes(forwarding.asked);
        self.reply(t, forwarding.client, Reply::Indeterminate { acks: 0, needed, missing });
    }
}

/// Whether two replicas may carry out the same write: both give it the same stamp and value, so it is one write; or its
/// request id makes it count once.
fn may_be_done_twice(write: &Write) -> bool {
    let is_named = write.kind.is_last_write_wins() || write.attributes.request.is_some();
    !write.is_decided() && is_named
}

/// Whether what an operation does depends on what was there before it. Additions and new elements come to the same in any
/// order; so do values that replace what their writer has read.
pub(super) fn is_ordered(write: &Write) -> bool {
    match write.op {
        Op::Put(_) => write.kind == Kind::Register,
        Op::Delete => true,
        Op::Remove(_) | Op::Assign(_) => true,
        Op::Add(_) | Op::Insert(_) => false,
    }
}
