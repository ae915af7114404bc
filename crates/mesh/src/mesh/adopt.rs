//! Applies writes of other regions. Any node that receives a log entry stores it on a quorum of the key's replicas in this
//! region and only then acknowledges it. Merging is idempotent and commutative, so no state is kept about it. A node
//! without disk space declines; that is the back-pressure between regions.

use super::writes::Route;
use super::{Mesh, Note, Operation, Then, Turn};
use crate::frame::{Ask, Frame, Outcome, Why};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::log::Entry;
use crate::record::Record;
use base::NodeId;
use base::limits::{MESH_OPERATIONS_MAX, MESH_OVERLAY_BYTES_MAX};
use base::mutant::{Mutant, planted};
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Adopting {
    whom: Whom,
    key: Key,
    route: Arc<Route>,
    acked: Vec<NodeId>,
    beaten: Option<Stamp>,
    answered: bool,
}

/// The requester that waits for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    Abroad(NodeId, Ask),
    /// A read over several regions, of this node.
    Here(Ask),
}

impl Mesh {
    pub(super) fn step_replicate(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, entry: Bytes) {
        let Some(Entry { key, record, .. }) = Entry::decode(entry) else {
            t.out.notes.push(Note::Damaged { from });
            return self.send(t, from, Frame::Declined { ask });
        };
        let room =
            self.operations.len() < MESH_OPERATIONS_MAX && self.overlay.bytes() <= MESH_OVERLAY_BYTES_MAX;
        match Record::decode(record.clone()).filter(|_| room && self.shard_of(&key).is_some()) {
            Some(decoded) => self.adopt(t, Whom::Abroad(from, ask), key, &decoded, record),
            None => self.send(t, from, Frame::Declined { ask }),
        }
    }

    pub(super) fn adopt(&mut self, t: &mut Turn<'_>, whom: Whom, key: Key, record: &Record, bytes: Bytes) {
        let Some(shard) = self.shard_of(&key) else { return };
        let route = self.route(shard.partition, shard.copies).clone();
        let (acked, beaten, answered) = (Vec::new(), None, false);
        let adopting = Adopting { whom, key: key.clone(), route: route.clone(), acked, beaten, answered };
        let deadline = t.now.at.after(self.params.timeout);
        let ask = self.begin(t, Operation::Adopt(Box::new(adopting)), deadline);
        for node in route.everyone() {
            if node == self.me && !self.may_take(t, &key, record, bytes.len()) {
                continue;
            }
            if node == self.me {
                let (outcome, seq) = self.absorb(t, &key, shard, record, Why::Repair);
                let outcome = self.outcome_told(outcome);
                self.after(t, seq, Then::Stored(ask, outcome));
            } else if self.peers.may_ask(node, t.now.at) {
                let store = Frame::Store { ask, key: key.clone(), record: bytes.clone(), why: Why::Repair };
                self.send(t, node, store);
            }
        }
    }

    pub(super) fn adopt_stored(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, outcome: Outcome) {
        let Some(Operation::Adopt(adopting)) =
            self.operations.get_mut(&ask).map(|pending| &mut pending.operation)
        else {
            return;
        };
        if outcome == Outcome::Refilling {
            return;
        }
        if !adopting.acked.contains(&from) {
            adopting.acked.push(from);
        }
        if let Outcome::Beaten(stamp) = outcome {
            adopting.beaten = adopting.beaten.max(Some(stamp));
        }
        let enough = adopting.route.is_met(&adopting.acked, None) || planted(Mutant::AdoptedByOne);
        let answers = enough && !adopting.answered;
        adopting.answered |= answers;
        let whom = adopting.whom;
        let outcome = adopting.beaten.map_or(Outcome::Held, Outcome::Beaten);
        if adopting.route.everyone().all(|node| adopting.acked.contains(&node)) {
            self.finish(ask);
        }
        match whom {
            Whom::Abroad(node, ask) if answers => {
                self.send(t, node, Frame::Stored { ask, outcome });
            }
            Whom::Here(ask) if answers => self.global_stored(t, self.params.actor.region, ask),
            _ => {}
        }
    }

    /// A replica that did not answer gets a hint if this node is a replica, and otherwise anti-entropy.
    pub(super) fn expire_adopt(&mut self, t: &mut Turn<'_>, adopting: Adopting) {
        let is_keeper = adopting.route.everyone().any(|node| node == self.me);
        let silent = adopting.route.everyone().filter(|node| !adopting.acked.contains(node));
        for node in silent.filter(|node| *node != self.me).collect::<Vec<_>>() {
            self.peers.silent(node, t.now.at);
            if is_keeper {
                self.hint(t, node, &adopting.key);
            }
        }
        if let (Whom::Abroad(node, ask), false) = (adopting.whom, adopting.answered) {
            self.send(t, node, Frame::Declined { ask });
        }
    }
}
