//! Sends this node's log to the other regions. An entry is sent when it is durable, to a node there that keeps its key,
//! within a window and bundled by key. An entry that is not acknowledged in time is sent again, to any node that answers.
//! Entries that every region has are removed. Entries beyond the log's bound are removed too; regions that lack them get
//! them from anti-entropy, which always runs.

use crate::actor::RegionId;
use crate::frame::{Frame, OpId, StoreOutcome};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::log::{LogEntry, operation};
use crate::mesh::remote_regions::RemoteRegion;
use crate::mesh::remote_regions::RemoteRegions;
use crate::mesh::remote_regions::bundle::{Bundle, bundles};
use crate::mesh::{Mesh, Operation, Then, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::rows::{self, Rows};
use crate::stream::{RegionStream, WINDOW_BYTES, WINDOW_ENTRIES};
use base::mutant::planted;
use base::{Instant, NodeId};
use bytes::Bytes;
use std::time::Duration;

/// How often the positions are made durable, and the log is cut behind them.
const SAVE_INTERVAL: Duration = Duration::from_millis(200);
/// How long an entry waits that no node could take.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Entries that are removed at a time.
const TRIM_ENTRIES: usize = 4_096;
/// Exchanges with one region that this node has begun, and shards that one tick looks at.
const EXCHANGES_MAX: usize = 4;
const LOOKS_PER_TICK: usize = 64;

/// An entry on its way to another region.
#[derive(Debug)]
pub(in crate::mesh) struct RegionSendOp {
    region: RegionId,
    seqs: Vec<u64>,
    to: NodeId,
}

/// The change that a write has made to a record, for the log.
pub(in crate::mesh) struct LoggedChange<'a> {
    pub key: &'a Key,
    pub before: Option<&'a Record>,
    pub after: &'a Record,
    pub delta: &'a Bytes,
}

impl RemoteRegions {
    fn retry_at(&mut self, region: RegionId, seqs: &[u64], at: Instant) {
        if let Some(other) = self.others.get_mut(&region) {
            seqs.iter().for_each(|seq| other.stream.retry_at(*seq, at));
        }
    }
}

impl Mesh {
    /// Removes the replication log of an earlier incarnation. Comparison brings the other regions what they lack of it.
    pub(in crate::mesh) fn forget_log(&mut self, rows: &dyn Rows) {
        let mut keys = vec![Bytes::from_static(rows::LOG_HEAD)];
        keys.extend(self.remote.regions().map(rows::stream));
        self.replica.storage.scan(rows, &rows::log(0), &rows::log(u64::MAX), &mut |row, _| {
            keys.push(Bytes::copy_from_slice(row));
            true
        });
        keys.into_iter().for_each(|key| self.replica.storage.put_row(key, None));
    }

    /// Puts a write of this node into the log, in the batch that holds its record.
    pub(in crate::mesh) fn append(&mut self, t: &mut Turn<'_>, change: &LoggedChange<'_>) {
        if self.remote.others.is_empty() {
            return;
        }
        let header = &change.after.header;
        let entry = LogEntry {
            seq: header.dot.counter,
            prev: self.remote.log.last,
            operation: operation(change.before, change.after, t.now.wall_ms),
            key: change.key.clone(),
            old: change.before.map(|record| record.context.clone()).unwrap_or_default(),
            stamp: header.stamp,
            at_ms: t.now.wall_ms,
            record: change.delta.clone(),
        };
        let bytes = entry.encode();
        self.remote.log.last = entry.seq;
        self.remote.log.bytes += bytes.len() as u64;
        self.remote.is_dirty = true;
        self.replica.storage.put_row(rows::log(entry.seq), Some(bytes));
        if planted(Mutant::StreamedBeforePersist) {
            self.remote.durable = entry.seq;
            return self.pump_all(t);
        }
        let seq = self.replica.storage.next_seq();
        self.after(t, seq, Then::Logged(entry.seq));
    }

    /// The head goes with the last entry of a turn.
    pub(in crate::mesh) fn write_log_head(&mut self) {
        if std::mem::take(&mut self.remote.is_dirty) {
            self.replica.storage.put_row(Bytes::from_static(rows::LOG_HEAD), Some(self.remote.log.encode()));
        }
    }

    /// Sends what has become durable.
    pub(in crate::mesh) fn pump_all(&mut self, t: &mut Turn<'_>) {
        if self.remote.others.is_empty() {
            return;
        }
        for region in self.remote.regions().collect::<Vec<_>>() {
            self.pump(t, region);
        }
    }

    /// Sends as much as the window takes.
    fn pump(&mut self, t: &mut Turn<'_>, region: RegionId) {
        let Some(other) = self.remote.others.get(&region) else { return };
        let (from, to) = (other.stream.cursor(), self.remote.durable);
        if from >= to || !other.stream.has_capacity() {
            return;
        }
        let capacity = WINDOW_ENTRIES - other.stream.n_under_way();
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let (first, end) = (rows::log(from + 1), rows::log(to + 1));
        self.replica.storage.scan(t.rows, &first, &end, &mut |_, value| {
            entries.push(value.clone());
            bytes += value.len();
            entries.len() < capacity && bytes < WINDOW_BYTES
        });
        let mut leaving = Vec::new();
        for bytes in entries {
            let entry = LogEntry::decode(bytes.clone()).expect("a row that we wrote can be read");
            let keeper = self.remote.replica_in(&mut self.membership.peers, t.now.at, region, &entry.key);
            let Some(other) = self.remote.others.get_mut(&region) else { return };
            if keeper.is_none() || !other.stream.has_capacity() {
                break;
            }
            other.stream.sent(entry.seq, entry.prev, entry.stamp, bytes.len());
            leaving.push((entry, bytes));
        }
        self.send_entries(t, region, leaving);
    }

    /// Sends entries; those that cannot be sent now are tried again a little later.
    fn send_entries(&mut self, t: &mut Turn<'_>, region: RegionId, entries: Vec<(LogEntry, Bytes)>) {
        for Bundle { seqs, bytes, first, .. } in bundles(entries) {
            match self.remote.replica_in(&mut self.membership.peers, t.now.at, region, &first.key) {
                Some(to) => self.send_to_region(t, RegionSendOp { region, seqs, to }, bytes),
                None => self.remote.retry_at(region, &seqs, t.now.at.after(AGAIN_AFTER)),
            }
        }
    }

    fn send_to_region(&mut self, t: &mut Turn<'_>, region_send_op: RegionSendOp, entry: Bytes) {
        let to = region_send_op.to;
        let id = self.coordinator.begin(
            t,
            Operation::SendToRegion(region_send_op),
            t.now.at.after(self.params.timeout),
        );
        self.send(t, to, Frame::Replicate { id, entry });
    }

    /// A quorum of the other region has it.
    pub(in crate::mesh) fn region_send_stored(&mut self, t: &mut Turn<'_>, id: OpId, outcome: StoreOutcome) {
        let Some(Operation::SendToRegion(done)) =
            self.coordinator.finish(id).map(|pending| pending.operation)
        else {
            return;
        };
        for seq in done.seqs {
            let Some(other) = self.remote.others.get_mut(&done.region) else { return };
            if other.stream.acknowledge(seq) {
                self.add_reached(t, done.region, seq, outcome);
            }
        }
        self.pump(t, done.region);
    }

    pub(in crate::mesh) fn decline_region_send(&mut self, t: &mut Turn<'_>, id: OpId) {
        if let Some(Operation::SendToRegion(failed)) =
            self.coordinator.finish(id).map(|pending| pending.operation)
        {
            self.remote.retry_at(failed.region, &failed.seqs, t.now.at.after(AGAIN_AFTER));
        }
    }

    pub(in crate::mesh) fn expire_region_send(&mut self, t: &mut Turn<'_>, region_send_op: RegionSendOp) {
        self.membership.peers.mark_unanswered(region_send_op.to, t.now.at);
        self.remote.retry_at(region_send_op.region, &region_send_op.seqs, t.now.at);
    }

    /// The connection to a node broke: entries in flight to it are sent again, to any node that answers, without waiting for
    /// their timeout. Entries that have arrived all the same are merged twice, which changes nothing.
    pub(in crate::mesh) fn resend_entries_of(&mut self, t: &mut Turn<'_>, node: NodeId) {
        if self.remote.region_of(node).is_none() {
            return;
        }
        let lost =
            |operation: &Operation| matches!(operation, Operation::SendToRegion(one) if one.to == node);
        let lost = self.coordinator.operations.iter().filter(|(_, pending)| lost(&pending.operation));
        for id in lost.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.decline_region_send(t, id);
        }
    }

    pub(in crate::mesh) fn step_streams(&mut self, t: &mut Turn<'_>) {
        for region in self.remote.regions().collect::<Vec<_>>() {
            self.resend_overdue(t, region);
            self.pump(t, region);
            self.compare_with_region(t, region);
        }
        if t.now.at >= self.remote.save_at {
            self.remote.save_at = t.now.at.after(SAVE_INTERVAL);
            self.trim(t);
            self.save_streams();
        }
    }

    fn resend_overdue(&mut self, t: &mut Turn<'_>, region: RegionId) {
        let Some(other) = self.remote.others.get_mut(&region) else { return };
        let mut entries = Vec::new();
        for seq in other.stream.overdue(t.now.at) {
            let bytes = self.replica.storage.get(t.rows, &rows::log(seq)).0;
            match bytes.and_then(|bytes| Some((LogEntry::decode(bytes.clone())?, bytes))) {
                Some(found) => entries.push(found),
                None => self.remote.retry_at(region, &[seq], t.now.at.after(AGAIN_AFTER)),
            }
        }
        self.send_entries(t, region, entries);
    }

    /// Removes what every region has, and what is too much.
    fn trim(&mut self, t: &mut Turn<'_>) {
        let acked = self.remote.others.values().map(|other| other.stream.acked()).min();
        let upto = if planted(Mutant::LogCutInSilence) {
            self.remote.others.values().map(|other| other.stream.cursor()).max()
        } else {
            acked
        };
        let upto = upto.unwrap_or(self.remote.log.last);
        let mut head = self.remote.log;
        let mut found = Vec::new();
        let (first, end) = (rows::log(head.trimmed + 1), rows::log(self.remote.durable + 1));
        let limit = self.remote.log_bytes_max;
        self.replica.storage.scan(t.rows, &first, &end, &mut |row, value| {
            let Some(entry) = LogEntry::decode(value.clone()) else { return false };
            if (entry.seq > upto && head.bytes <= limit) || found.len() >= TRIM_ENTRIES {
                return false;
            }
            head.bytes = head.bytes.saturating_sub(value.len() as u64);
            (head.trimmed, head.trimmed_stamp) = (entry.seq, head.trimmed_stamp.max(entry.stamp));
            found.push(Bytes::copy_from_slice(row));
            true
        });
        if found.is_empty() {
            return;
        }
        found.into_iter().for_each(|row| self.replica.storage.put_row(row, None));
        (self.remote.log, self.remote.is_dirty) = (head, true);
        for other in self.remote.others.values_mut() {
            if planted(Mutant::LogCutInSilence) {
                other.stream = RegionStream::resume(head.trimmed, None)
            } else {
                other.stream.skip(head.trimmed, head.trimmed_stamp)
            }
        }
    }

    /// In the batch that also holds what was trimmed, so that a start never finds a hole that it does not know of.
    pub(in crate::mesh) fn save_streams(&mut self) {
        let mut changed = Vec::new();
        for (region, other) in &mut self.remote.others {
            let row = other.stream.encode();
            if row != other.saved {
                other.saved = row.clone();
                changed.push((rows::stream(*region), row));
            }
        }
        changed.into_iter().for_each(|(key, row)| self.replica.storage.put_row(key, Some(row)));
    }

    /// Compares shards of this node with another region, one after the other, always.
    fn compare_with_region(&mut self, t: &mut Turn<'_>, region: RegionId) {
        let now = t.now.at;
        let is_due = |other: &RemoteRegion| other.exchanges.len() < EXCHANGES_MAX && now >= other.round_at;
        let due = self.remote.others.get(&region).is_some_and(is_due);
        if !due || self.replica.floor == Stamp::ZERO || planted(Mutant::RegionsNotCompared) {
            return;
        }
        let shards: Vec<_> =
            self.membership.all_shards().filter(|shard| self.membership.is_settled(*shard)).collect();
        for _ in 0..LOOKS_PER_TICK.min(shards.len()) {
            let Some(other) = self.remote.others.get_mut(&region) else { return };
            if !is_due(other) {
                return;
            }
            let shard = shards[other.cursor % shards.len()];
            other.cursor = (other.cursor + 1) % shards.len();
            if other.cursor == 0 {
                other.round_at = t.now.at.after(self.params.round_every);
            }
            if self.replica.shards.is_built(shard.partition)
                && let Some(peer) = self.peer_in_region(t.now.at, region, shard)
            {
                self.start_exchange(t, shard, peer);
            }
        }
    }

    /// Another region has compared: entries that were cut from the log may be known to be there.
    pub(in crate::mesh) fn close_gap(&mut self, region: RegionId) {
        let here = self.params.actor.region;
        if self.remote.others.get(&region).is_none_or(|other| other.stream.gap().is_none()) {
            return;
        }
        let there = |shard| {
            self.replica.shards.marks_of_region(shard, region).map_or(Stamp::ZERO, |marks| marks.of(here))
        };
        let upto =
            self.membership.all_shards().filter(|shard| self.membership.is_settled(*shard)).map(there).min();
        if let (Some(upto), Some(other)) = (upto, self.remote.others.get_mut(&region)) {
            other.stream.compared(upto);
        }
    }
}
