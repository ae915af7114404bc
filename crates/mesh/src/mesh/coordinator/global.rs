//! Reads over several regions: a quorum in a majority of the regions (in both of two), or in every region, answers. Their
//! records are merged, and regions that lack part of the result are repaired before the client receives it. Together with
//! writes that wait for as many regions, a read returns the last write acknowledged that way, or a later one.

use crate::actor::RegionId;
use crate::context::Context;
use crate::frame::{Frame, OpId};
use crate::key::Key;
use crate::log::{self, LogEntry};
use crate::mesh::coordinator::Coordinator;
use crate::mesh::remote_regions::apply_remote::ApplyClient;
use crate::mesh::{Client, Mesh, Operation, Then, Turn};
use crate::record::Record;
use crate::request::{Level, Missing, Reply};
use crate::session::Session;
use base::Instant;

#[derive(Debug)]
pub(in crate::mesh) struct GlobalReadOp {
    client: Client,
    key: Key,
    needed: usize,
    heard: Vec<(RegionId, Option<Record>)>,
    /// The merge of all replies, once enough have arrived.
    merged: Option<Option<Box<Record>>>,
    /// The regions that have it.
    agreed: Vec<RegionId>,
    /// The regions that lack part of it.
    behind: Vec<RegionId>,
}

impl Coordinator {
    fn global_read_op(&mut self, id: OpId) -> Option<&mut GlobalReadOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::GlobalRead(globally)) => Some(globally),
            _ => None,
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_global_read(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        key: Key,
        level: Level,
        deadline: Instant,
    ) {
        let needed = self.remote.table.needed(level, self.params.actor.region);
        let missing = self.remote.unreachable(t.now.at);
        let regions = self.remote.others.len() + 1;
        if regions - missing.len() < needed {
            let (acks, needed) = ((regions - missing.len()) as u8, needed as u8);
            let missing = Missing::regions(missing);
            return self.reply(t, client, Reply::Unavailable { acks, needed, missing });
        }
        let (heard, agreed, behind) = (Vec::new(), Vec::new(), Vec::new());
        let globally = GlobalReadOp { client, key: key.clone(), needed, heard, merged: None, agreed, behind };
        let id = self.coordinator.begin(t, Operation::GlobalRead(Box::new(globally)), deadline);
        for region in self.remote.regions().collect::<Vec<_>>() {
            if let Some(to) = self.remote.replica_in(&mut self.membership.peers, t.now.at, region, &key) {
                let session = Session::default().encode();
                self.send(t, to, Frame::RemoteRead { id, key: key.clone(), session });
            }
        }
        self.start_read(t, Client::GlobalRead(id), key, None, deadline);
    }

    /// What this region has.
    pub(in crate::mesh) fn global_read_local(&mut self, t: &mut Turn<'_>, id: OpId, reply: Reply) {
        match reply {
            Reply::Found(record) => {
                self.global_read_answer(t, self.params.actor.region, id, record.map(|record| *record));
            }
            Reply::Refused(_) => {
                let Some(client) = self.coordinator.global_read_op(id).map(|globally| globally.client) else {
                    return;
                };
                self.coordinator.finish(id);
                self.reply(t, client, reply);
            }
            _ => {}
        }
    }

    pub(in crate::mesh) fn global_read_answer(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        id: OpId,
        record: Option<Record>,
    ) {
        let Some(globally) = self.coordinator.global_read_op(id) else { return };
        if globally.merged.is_some() || globally.heard.iter().any(|(other, _)| *other == region) {
            return;
        }
        globally.heard.push((region, record));
        if globally.heard.len() < globally.needed {
            return;
        }
        let (key, heard) = (globally.key.clone(), std::mem::take(&mut globally.heard));
        let (merged, seq) = self.replica.join(t, &key, heard.iter().filter_map(|(_, record)| record.clone()));
        let (same, behind): (Vec<_>, Vec<_>) = heard.into_iter().partition(|(_, record)| *record == merged);
        let Some(globally) = self.coordinator.global_read_op(id) else { return };
        globally.merged = Some(merged.map(Box::new));
        globally.agreed = same.into_iter().map(|(region, _)| region).collect();
        globally.behind = behind.into_iter().map(|(region, _)| region).collect();
        self.after(t, seq, Then::RepairRegions(id));
    }

    /// Brings those regions up to date that were heard and lack something.
    pub(in crate::mesh) fn repair_regions(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(globally) = self.coordinator.global_read_op(id) else { return };
        let (key, behind) = (globally.key.clone(), std::mem::take(&mut globally.behind));
        if let Some(merged) = globally.merged.clone().flatten() {
            behind.into_iter().for_each(|region| self.repair_region(t, region, id, &key, &merged));
        }
        self.try_finish_global_read(t, id);
    }

    fn repair_region(&mut self, t: &mut Turn<'_>, region: RegionId, id: OpId, key: &Key, merged: &Record) {
        let bytes = merged.encode();
        if region == self.params.actor.region {
            return self.apply_remote(t, ApplyClient::GlobalRead(id), key.clone(), merged, bytes);
        }
        let Some(to) = self.remote.replica_in(&mut self.membership.peers, t.now.at, region, key) else {
            return;
        };
        let entry = LogEntry {
            seq: 0,
            prev: 0,
            operation: log::LogOperation::Update,
            key: key.clone(),
            old: Context::default(),
            stamp: merged.header.stamp,
            at_ms: t.now.wall_ms,
            record: bytes,
        };
        self.send(t, to, Frame::Replicate { id, entry: entry.encode() });
    }

    pub(in crate::mesh) fn global_read_stored(&mut self, t: &mut Turn<'_>, region: RegionId, id: OpId) {
        if let Some(globally) = self.coordinator.global_read_op(id)
            && !globally.agreed.contains(&region)
        {
            globally.agreed.push(region);
        }
        self.try_finish_global_read(t, id);
    }

    fn try_finish_global_read(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(globally) = self.coordinator.global_read_op(id) else { return };
        let nothing = globally.merged == Some(None);
        if globally.merged.is_some() && (nothing || globally.agreed.len() >= globally.needed) {
            let (client, merged) = (globally.client, globally.merged.take().flatten());
            self.coordinator.finish(id);
            self.reply(t, client, Reply::Found(merged));
        }
    }

    pub(in crate::mesh) fn expire_global_read(&mut self, t: &mut Turn<'_>, globally: GlobalReadOp) {
        let answered: Vec<RegionId> =
            globally.heard.iter().map(|(region, _)| *region).chain(globally.agreed).collect();
        let acks = globally.heard.len().max(answered.len() - globally.heard.len()) as u8;
        let here = self.params.actor.region;
        let all_regions = self.remote.regions().chain([here]);
        let missing = Missing::regions(all_regions.filter(|region| !answered.contains(region)).collect());
        self.reply(t, globally.client, Reply::Unavailable { acks, needed: globally.needed as u8, missing });
    }
}
