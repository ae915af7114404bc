//! Writes that must know first what others have: one that may be a retry, and one whose client claims to have seen what is not
//! here. A majority of the replicas is asked, and the write is judged by what they have.

use super::apply::Stamped;
use super::{WriteStage, fetch};
use crate::frame::{OpId, StoreReason, WriteOrigin};
use crate::mesh::replica::Replica;
use crate::mesh::{Mesh, Operation, Pending, Turn};
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::request::Reply;
use base::NodeId;
use base::mutant::planted;
use bytes::Bytes;

impl Replica {
    pub(super) fn begin_gathering(&mut self, t: &Turn<'_>, origin: Option<WriteOrigin>) -> WriteStage {
        let stamp = origin.map_or_else(|| self.clock.tick(t.now.wall_ms), |origin| origin.stamp);
        WriteStage::Gathering { heard: vec![self.actor.node], stamp }
    }
}

impl Mesh {
    pub(super) fn gather(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let (write, others) = (writing.write.clone(), writing.route.read.clone());
        for node in others.into_iter().filter(|node| *node != me) {
            self.send(t, node, fetch(id, &write));
        }
        self.gathered(t, id);
    }

    pub(in crate::mesh) fn step_fetched_for(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Bytes>,
        attempts: Option<Bytes>,
    ) {
        self.record_rtt(t, from, id);
        let decode = |bytes: Option<Bytes>| match bytes {
            Some(bytes) => Record::decode(bytes).map(Some),
            None => Some(None),
        };
        if let (Some(record), Some(attempts)) = (decode(record), decode(attempts)) {
            self.write_fetched(t, from, id, record, attempts);
        }
    }

    /// What a replica has, on the way to a write that must know.
    pub(in crate::mesh) fn write_fetched(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        record: Option<Record>,
        attempts: Option<Record>,
    ) {
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let WriteStage::Gathering { heard, .. } = &mut writing.stage else { return };
        if heard.contains(&from) || !writing.route.read.contains(&from) {
            return;
        }
        heard.push(from);
        let (key, request) = (writing.write.key.clone(), writing.write.attributes.once());
        if let (Some(attempts), Some(request), Some(shard)) =
            (attempts, request, self.membership.shard_of(&key))
        {
            self.replica.absorb(t, &key.of_request(request), shard, &attempts, StoreReason::Repair);
        }
        if let (Some(record), Some(shard)) = (record, self.membership.shard_of(&key)) {
            if !self.replica.may_take(t, &key, &record, record.encode().len()) {
                return self.forward_for_space(t, id);
            }
            self.replica.absorb(t, &key, shard, &record, StoreReason::Repair);
        }
        self.gathered(t, id);
    }

    /// There is no space for what it must be judged by. Nothing was begun yet.
    fn forward_for_space(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) =
            self.coordinator.finish(id)
        else {
            return;
        };
        self.pass_on_full_disk(t, writing.client, writing.write, deadline);
    }

    fn gathered(&mut self, t: &mut Turn<'_>, id: OpId) {
        if self.coordinator.is_past_deadline(t, id) {
            return self.expire(t, id);
        }
        let Some(writing) = self.coordinator.write_op(id) else { return };
        let WriteStage::Gathering { heard, stamp } = &writing.stage else { return };
        let (stamp, heard_count) = (*stamp, heard.len());
        if heard_count < majority(writing.route.read.len()) {
            return;
        }
        let (write, client) = (writing.write.clone(), writing.client);
        let all_heard = heard_count == writing.route.read.len();
        if let Some(code) = self.replica.unknown_claim(t, &write) {
            // Another replica may know what the write claims to have seen.
            if all_heard {
                self.coordinator.finish(id);
                self.reply(t, client, Reply::Refused(code));
            }
            return;
        }
        if self.awaits_rights(t, id) {
            return;
        }
        let origin = self.coordinator.write_op(id).and_then(|writing| writing.origin);
        if let Some(origin) = origin {
            return self.apply_and_replicate(t, id, Stamped::ByOrigin(origin));
        }
        if stamp <= self.replica.promised {
            // No stamp so early may be assigned any more: the replicas are asked again.
            let stage = self.replica.begin_gathering(t, None);
            self.coordinator.write_op(id).expect("it is under way").stage = stage;
            return self.gather(t, id);
        }
        let new = planted(Mutant::RetryRestamped);
        self.apply_and_replicate(t, id, if new { Stamped::Now } else { Stamped::At(stamp) });
    }
}
