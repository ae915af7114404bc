//! Hinted handoff: a hint says that a replica lacks what this node has of a key. A replica's hint is a row without a value,
//! since the node has the record itself; a stand-in's hint holds the record. Hints are replayed when the replica answers
//! again and removed when it has the record. Beyond a bound no hints are written; anti-entropy repairs the rest.

use crate::frame::{Frame, OpId, StoreOutcome, StoreReason};
use crate::key::Key;
use crate::mesh::repair::Repair;
use crate::mesh::{Mesh, MeshEvent, Operation, Then, Turn};
use crate::record::Record;
use crate::rows;
use crate::topology::Topology;
use base::limits::MESH_HINTS_MAX;
use base::{Instant, NodeId};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Hints that are replayed to one replica at a time.
const WINDOW: usize = 64;
/// A replica that did not take a hint is given the next after so long: it may be without disk space for hours.
const RESUME_AFTER: Duration = Duration::from_millis(500);

/// A hint that is being replayed.
#[derive(Debug)]
pub(in crate::mesh) struct HintOp {
    target: NodeId,
    key: Key,
    record: Bytes,
    /// The bytes of the row.
    kept: Bytes,
}

#[derive(Debug, Default)]
pub(in crate::mesh) struct Hints {
    targets: BTreeMap<NodeId, HintTarget>,
}

#[derive(Debug, Default)]
struct HintTarget {
    /// There may be rows.
    waiting: bool,
    added: usize,
    in_flight: usize,
    /// When the replica gets the next hint, after it could not take one.
    resume_at: Instant,
}

impl Hints {
    /// Nodes for which there may be hints.
    pub fn waiting(&self) -> impl Iterator<Item = NodeId> {
        self.targets.iter().filter(|(_, target)| target.waiting).map(|(node, _)| *node)
    }

    /// After a start there may be hints for any node.
    pub fn of(topology: &Topology, me: NodeId) -> Hints {
        let others = topology.members().iter().map(|member| member.node).filter(|node| *node != me);
        Hints {
            targets: others
                .map(|node| (node, HintTarget { waiting: true, ..HintTarget::default() }))
                .collect(),
        }
    }
}

impl Repair {
    fn replay_done(&mut self, target: NodeId) -> &mut HintTarget {
        let hints = self.hints.targets.entry(target).or_default();
        hints.in_flight = hints.in_flight.saturating_sub(1);
        hints
    }
}

impl Mesh {
    pub(in crate::mesh) fn hint(&mut self, t: &mut Turn<'_>, target: NodeId, key: &Key) {
        let hints = self.repair.hints.targets.entry(target).or_default();
        if hints.added >= MESH_HINTS_MAX {
            return;
        }
        hints.added += 1;
        hints.waiting = true;
        let row = rows::hint(target, key);
        if self.replica.storage.get(t.rows, &row).0.is_none() {
            self.replica.storage.put_row(row, Some(Bytes::new()));
        }
        t.out.events.push(MeshEvent::Hinted(target));
    }

    /// Keeps a record for a replica that is down, on behalf of a client that likes it so.
    pub(in crate::mesh) fn step_keep_hint(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        target: NodeId,
        key: Key,
        record: Bytes,
    ) {
        let added = self.repair.hints.targets.entry(target).or_default().added;
        let bytes = record.len();
        let Some(record) =
            Record::decode(record).filter(|_| self.membership.topology.member(target).is_some())
        else {
            return self.send(t, from, Frame::Declined { id });
        };
        if added >= MESH_HINTS_MAX || !self.replica.may_keep(t, bytes) {
            return self.send(t, from, Frame::NoSpace { id });
        }
        let hints = self.repair.hints.targets.entry(target).or_default();
        hints.added += 1;
        hints.waiting = true;
        let row = rows::hint(target, &key);
        let before = self.replica.storage.get(t.rows, &row).0.and_then(Record::decode);
        let (joined, _) = self.replica.join(t, &key, before.into_iter().chain([record]));
        self.replica.storage.put_row(row, joined.map(|record| record.encode()));
        let seq = self.replica.storage.next_seq();
        self.after(t, seq, Then::Send(from, Frame::Stored { id, outcome: StoreOutcome::Applied }));
    }

    /// Replays to replicas that answer again.
    pub(in crate::mesh) fn step_hints(&mut self, t: &mut Turn<'_>) {
        let ready = |(node, target): (&NodeId, &HintTarget)| {
            let due = target.waiting && target.in_flight == 0 && target.resume_at <= t.now.at;
            (due && !self.membership.peers.is_down(*node)).then_some(*node)
        };
        for target in self.repair.hints.targets.iter().filter_map(ready).collect::<Vec<_>>() {
            self.replay(t, target);
        }
    }

    fn replay(&mut self, t: &mut Turn<'_>, target: NodeId) {
        let (from, to) = rows::hint_range(target);
        let mut keys = Vec::new();
        self.replica.storage.scan(t.rows, &from, &to, &mut |row, kept| {
            keys.extend(rows::hint_key(row).map(|key| (key, kept.clone())));
            keys.len() < WINDOW
        });
        let hints = self.repair.hints.targets.entry(target).or_default();
        if keys.is_empty() || self.membership.topology.member(target).is_none() {
            (hints.waiting, hints.added) = (false, 0);
        }
        let known = self.membership.topology.member(target).is_some();
        for (key, kept) in keys {
            let local = self.replica.load(t, &key);
            let record = if kept.is_empty() { local.bytes } else { Some(kept.clone()) };
            let Some(record) = record.filter(|_| known) else {
                self.replica.storage.put_row(rows::hint(target, &key), None);
                continue;
            };
            self.repair.hints.targets.entry(target).or_default().in_flight += 1;
            let deadline = t.now.at.after(self.params.timeout);
            let hint_op = HintOp { target, key: key.clone(), record: record.clone(), kept };
            let id = self.coordinator.begin(t, Operation::Hint(hint_op), deadline);
            let store = Frame::Store { id, key, record, reason: StoreReason::Repair };
            self.after(t, local.seq, Then::Send(target, store));
        }
    }

    /// A hint that has changed meanwhile is replayed again.
    pub(in crate::mesh) fn hint_stored(&mut self, t: &Turn<'_>, id: OpId) {
        let Some(Operation::Hint(hint_op)) = self.coordinator.finish(id).map(|pending| pending.operation)
        else {
            return;
        };
        let row = rows::hint(hint_op.target, &hint_op.key);
        let same_hint = self.replica.storage.get(t.rows, &row).0.is_none_or(|kept| kept == hint_op.kept);
        let ours = self.replica.load(t, &hint_op.key).bytes.filter(|_| hint_op.kept.is_empty());
        if same_hint && ours.is_none_or(|record| record == hint_op.record) {
            self.replica.storage.put_row(row, None);
        }
        self.repair.replay_done(hint_op.target);
    }

    pub(in crate::mesh) fn expire_hint(&mut self, t: &mut Turn<'_>, hint_op: HintOp) {
        self.membership.peers.mark_unanswered(hint_op.target, t.now.at);
        self.repair.replay_done(hint_op.target);
    }

    /// The replica answers, and cannot take the hint now.
    pub(in crate::mesh) fn decline_hint(&mut self, t: &mut Turn<'_>, id: OpId) {
        if let Some(Operation::Hint(hint_op)) = self.coordinator.finish(id).map(|pending| pending.operation) {
            self.repair.replay_done(hint_op.target).resume_at = t.now.at.after(RESUME_AFTER);
        }
    }
}
