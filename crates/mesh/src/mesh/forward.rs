//! Passing a write on to a replica, which alone can give it a dot. It is passed on once: whoever cannot coordinate it
//! says so, and the next one is asked; when nobody can, all are asked again a little later, for as long as the write may
//! take. What the network repeats is carried out once.

use super::{Client, Mesh, Operation, Turn};
use crate::actor::RegionId;
use crate::frame::{Ask, Frame};
use crate::moves::majority;
use crate::request::{Reply, Write};
use base::{Code, Instant, NodeId};
use std::sync::Arc;
use std::time::Duration;

/// Writes passed on by one node that are remembered.
const FORWARDED_MAX: usize = 4_096;
/// After so long those are asked again who could not take a write: while a topology spreads, that is nobody for a moment.
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Forwarding {
    client: Client,
    write: Arc<Write>,
    /// Who has it; nobody while it waits to be passed on again.
    to: Option<NodeId>,
    tried: Tried,
}

/// Who could not take a write, and why.
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
        let copies = self.topology.copies(write.key.space()).unwrap_or(0);
        let mut list = self.route(write.key.partition(), copies).read.clone();
        list.retain(|node| *node != self.me && !tried.contains(*node));
        self.peers.order(&mut list);
        // Where disks are full, nobody waits for a node that is down.
        let full = tried.met(Obstacle::FullDisk);
        let to = list.first().copied().filter(|to| !full || !self.peers.is_down(*to));
        if to.is_none() && full && !tried.met(Obstacle::OutOfStep) {
            return self.reply(t, client, Reply::Refused(Code::NoSpace));
        }
        let forwarding = Forwarding { client, write: write.clone(), to, tried };
        let ask = self.begin(t, Operation::Forward(Box::new(forwarding)), deadline);
        match to {
            Some(to) => self.send(t, to, Frame::Forward { ask, write }),
            None => self.alarms.set(t.now.at.after(RETRY_AFTER), ask),
        }
    }

    /// Nobody could take it a moment ago; by now this node itself may.
    pub(super) fn pass_on_again(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let waits = matches!(
            self.operations.get(&ask).map(|pending| &pending.operation),
            Some(Operation::Forward(forwarding)) if forwarding.to.is_none()
        );
        let Some(pending) = waits.then(|| self.finish(ask)).flatten() else { return };
        if let Operation::Forward(forwarding) = pending.operation {
            self.start_write(t, forwarding.client, forwarding.write, pending.deadline);
        }
    }

    pub(super) fn step_forward(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, write: Arc<Write>) {
        // The network may repeat a frame; what it asks for is done once.
        let forwarded = self.forwarded.entry(from).or_default();
        let is_new = forwarded.insert(ask);
        if forwarded.len() > FORWARDED_MAX {
            forwarded.pop_first();
        }
        if is_new {
            let deadline = t.now.at.after(self.params.timeout);
            self.start_write(t, Client::Peer(from, ask), write, deadline);
        }
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
        let expected = matches!(
            self.operations.get(&ask).map(|pending| &pending.operation),
            Some(Operation::Forward(forwarding)) if forwarding.to == Some(from)
        );
        if expected && reply == Reply::Refused(Code::NoSpace) {
            return self.pass_over(t, from, ask, Obstacle::FullDisk);
        }
        if let Some(Operation::Forward(forwarding)) =
            expected.then(|| self.finish(ask)).flatten().map(|pending| pending.operation)
        {
            self.reply(t, forwarding.client, reply);
        }
    }

    pub(super) fn decline_forward(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        self.pass_over(t, from, ask, Obstacle::OutOfStep);
    }

    /// It was not begun there, so another may be asked.
    fn pass_over(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, obstacle: Obstacle) {
        let Some(pending) = self.finish(ask) else { return };
        let Operation::Forward(mut forwarding) = pending.operation else { return };
        forwarding.tried.0.push((from, obstacle));
        self.pass_on(t, forwarding.client, forwarding.write, forwarding.tried, pending.deadline);
    }

    pub(super) fn expire_forward(&mut self, t: &mut Turn<'_>, forwarding: Forwarding) {
        let Some(to) = forwarding.to else {
            let full = forwarding.tried.met(Obstacle::FullDisk);
            let code = if full { Code::NoSpace } else { Code::NotInStep };
            return self.reply(t, forwarding.client, Reply::Refused(code));
        };
        self.peers.silent(to, t.now.at);
        let copies = self.topology.copies(forwarding.write.key.space()).unwrap_or(1);
        let needed = forwarding.write.w.unwrap_or(majority(copies.into()) as u8);
        self.reply(t, forwarding.client, Reply::Indeterminate { acks: 0, needed });
    }
}
