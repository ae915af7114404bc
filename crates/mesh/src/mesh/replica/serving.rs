//! Answers peers out of this node's rows: stores what they send, and returns what they ask for, once it is durable.

use crate::frame::{Frame, OpId, StoreOutcome, StoreReason};
use crate::key::Key;
use crate::mesh::repair::walk::{WalkClient, is_header};
use crate::mesh::replica::records::IncomingRecord;
use crate::mesh::replica::storage::Then;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::rows;
use crate::watermarks::Watermarks;
use base::NodeId;
use base::limits::MESH_OVERLAY_BYTES_MAX;
use base::mutant::planted;
use bytes::Bytes;

impl Mesh {
    pub(in crate::mesh) fn step_store(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        key: Key,
        record: Bytes,
        reason: StoreReason,
    ) {
        let has_space = self.replica.storage.bytes() <= MESH_OVERLAY_BYTES_MAX;
        let shard = self.membership.shard_of(&key).filter(|shard| self.membership.keeps(*shard) && has_space);
        let bytes = record.clone();
        let (Some(shard), Some(record)) = (shard, Record::decode(record)) else {
            return self.send(t, from, Frame::Declined { id });
        };
        if is_header(&bytes, &record) {
            return self.start_walk(t, WalkClient::Store(id), from, &key, shard);
        }
        if !self.replica.may_take(t, &key, &record, bytes.len()) {
            let told = match reason {
                _ if planted(Mutant::FullAcknowledged) => {
                    Frame::Stored { id, outcome: StoreOutcome::Applied }
                }
                StoreReason::Write => Frame::NoSpace { id },
                StoreReason::Repair => Frame::Declined { id },
            };
            return self.send(t, from, told);
        }
        let incoming = IncomingRecord { record: &record, bytes: Some(&bytes) };
        let (outcome, seq) = self.replica.absorb(t, &key, shard, incoming, reason);
        let stored = Frame::Stored { id, outcome: self.membership.reported_outcome(outcome) };
        if planted(Mutant::StoredBeforePersist) {
            return self.send(t, from, stored);
        }
        self.after(t, seq, Then::Send(from, stored));
    }

    pub(in crate::mesh) fn step_fetch(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, key: Key) {
        let Some(shard) = self.membership.shard_of(&key).filter(|_| self.membership.is_serving()) else {
            return self.send(t, from, Frame::Declined { id });
        };
        let (record, seq) = self.replica.storage.get(t.rows, &rows::record(&key));
        let marks = if record.is_none() { self.replica.shards.marks(shard) } else { Watermarks::default() };
        self.after(t, seq, Then::Send(from, Frame::Fetched { id, record, marks }));
    }

    pub(in crate::mesh) fn step_fetch_for(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        key: Key,
        request: u64,
    ) {
        if self.membership.shard_of(&key).is_none() || !self.membership.is_serving() {
            return self.send(t, from, Frame::Declined { id });
        }
        let (record, seq) = self.replica.storage.get(t.rows, &rows::record(&key));
        let (attempts, noted) = self.replica.storage.get(t.rows, &rows::record(&key.of_request(request)));
        self.after(t, seq.max(noted), Then::Send(from, Frame::FetchedFor { id, record, attempts }));
    }
}
