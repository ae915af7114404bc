//! Applies writes of other regions. Any node that receives a log entry stores it on a quorum of the key's replicas in this
//! region and only then acknowledges it. Merging is idempotent and commutative, so no state is kept about it. A node
//! without disk space declines; that is the back-pressure between regions.

use crate::frame::{Frame, OpId, StoreOutcome, StoreReason};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::log::LogEntry;
use crate::mesh::coordinator::writes::Route;
use crate::mesh::{Mesh, MeshEvent, Operation, Then, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use base::NodeId;
use base::limits::{MESH_OPERATIONS_MAX, MESH_OVERLAY_BYTES_MAX};
use base::mutant::planted;
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::mesh) struct ApplyRemoteOp {
    client: ApplyClient,
    key: Key,
    route: Arc<Route>,
    acked: Vec<NodeId>,
    superseded: Option<Stamp>,
    answered: bool,
}

/// The requester that waits for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::mesh) enum ApplyClient {
    RemoteNode(NodeId, OpId),
    /// A read over several regions, of this node.
    GlobalRead(OpId),
}

impl Mesh {
    pub(in crate::mesh) fn step_replicate(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, entry: Bytes) {
        let Some(LogEntry { key, record, .. }) = LogEntry::decode(entry) else {
            t.out.events.push(MeshEvent::Damaged { from });
            return self.send(t, from, Frame::Declined { id });
        };
        let has_space = self.coordinator.operations.len() < MESH_OPERATIONS_MAX
            && self.replica.storage.bytes() <= MESH_OVERLAY_BYTES_MAX;
        match Record::decode(record.clone()).filter(|_| has_space && self.membership.shard_of(&key).is_some())
        {
            Some(decoded) => self.apply_remote(t, ApplyClient::RemoteNode(from, id), key, &decoded, record),
            None => self.send(t, from, Frame::Declined { id }),
        }
    }

    pub(in crate::mesh) fn apply_remote(
        &mut self,
        t: &mut Turn<'_>,
        client: ApplyClient,
        key: Key,
        record: &Record,
        bytes: Bytes,
    ) {
        let Some(shard) = self.membership.shard_of(&key) else { return };
        let route = self.membership.route(shard.partition, shard.copies).clone();
        let (acked, superseded, answered) = (Vec::new(), None, false);
        let apply_remote_op =
            ApplyRemoteOp { client, key: key.clone(), route: route.clone(), acked, superseded, answered };
        let deadline = t.now.at.after(self.params.timeout);
        let id = self.coordinator.begin(t, Operation::ApplyRemote(Box::new(apply_remote_op)), deadline);
        for node in route.replicas() {
            if node == self.membership.me && !self.replica.may_take(t, &key, record, bytes.len()) {
                continue;
            }
            if node == self.membership.me {
                let (outcome, seq) = self.replica.absorb(t, &key, shard, record, StoreReason::Repair);
                let outcome = self.membership.reported_outcome(outcome);
                self.after(t, seq, Then::Stored(id, outcome));
            } else if self.membership.peers.may_ask(node, t.now.at) {
                let store =
                    Frame::Store { id, key: key.clone(), record: bytes.clone(), reason: StoreReason::Repair };
                self.send(t, node, store);
            }
        }
    }

    pub(in crate::mesh) fn remote_apply_stored(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        outcome: StoreOutcome,
    ) {
        let Some(Operation::ApplyRemote(apply_remote_op)) =
            self.coordinator.operations.get_mut(&id).map(|pending| &mut pending.operation)
        else {
            return;
        };
        if outcome == StoreOutcome::Refilling {
            return;
        }
        if !apply_remote_op.acked.contains(&from) {
            apply_remote_op.acked.push(from);
        }
        if let StoreOutcome::Superseded(stamp) = outcome {
            apply_remote_op.superseded = apply_remote_op.superseded.max(Some(stamp));
        }
        let enough =
            apply_remote_op.route.is_met(&apply_remote_op.acked, None) || planted(Mutant::AdoptedByOne);
        let answers = enough && !apply_remote_op.answered;
        apply_remote_op.answered |= answers;
        let client = apply_remote_op.client;
        let outcome = apply_remote_op.superseded.map_or(StoreOutcome::Applied, StoreOutcome::Superseded);
        if apply_remote_op.route.replicas().all(|node| apply_remote_op.acked.contains(&node)) {
            self.coordinator.finish(id);
        }
        match client {
            ApplyClient::RemoteNode(node, id) if answers => {
                self.send(t, node, Frame::Stored { id, outcome });
            }
            ApplyClient::GlobalRead(id) if answers => {
                self.global_read_stored(t, self.params.actor.region, id)
            }
            _ => {}
        }
    }

    /// A replica that did not answer gets a hint if this node is a replica, and otherwise anti-entropy.
    pub(in crate::mesh) fn expire_apply_remote(&mut self, t: &mut Turn<'_>, apply_remote_op: ApplyRemoteOp) {
        let is_keeper = apply_remote_op.route.replicas().any(|node| node == self.membership.me);
        let silent = apply_remote_op.route.replicas().filter(|node| !apply_remote_op.acked.contains(node));
        for node in silent.filter(|node| *node != self.membership.me).collect::<Vec<_>>() {
            self.membership.peers.mark_unanswered(node, t.now.at);
            if is_keeper {
                self.hint(t, node, &apply_remote_op.key);
            }
        }
        if let (ApplyClient::RemoteNode(node, id), false) = (apply_remote_op.client, apply_remote_op.answered)
        {
            self.send(t, node, Frame::Declined { id });
        }
    }
}
