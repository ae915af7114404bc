//! Reads over several regions: a quorum in a majority of the regions (in both of two), or in every region, answers. Their
//! records are merged, and regions that lack part of the result are repaired before the client receives it. Together with
//! writes that wait for as many regions, a read returns the last write acknowledged that way, or a later one.

use super::adopt::Whom;
use super::{Client, Mesh, Operation, Then, Turn};
use crate::actor::RegionId;
use crate::context::Context;
use crate::frame::{Ask, Frame};
use crate::key::Key;
use crate::log::{self, Entry};
use crate::record::Record;
use crate::request::{Level, Missing, Reply};
use crate::session::Session;
use base::Instant;

#[derive(Debug)]
pub(super) struct Globally {
    client: Client,
    key: Key,
    needed: usize,
    heard: Vec<(RegionId, Option<Record>)>,
    /// What all of them together have, once enough were heard.
    merged: Option<Option<Box<Record>>>,
    /// The regions that have it.
    agreed: Vec<RegionId>,
    /// The regions that lack part of it.
    behind: Vec<RegionId>,
}

impl Mesh {
    pub(super) fn start_global(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        key: Key,
        level: Level,
        deadline: Instant,
    ) {
        let needed = self.abroad.table.needed(level, self.params.actor.region);
        let missing = self.abroad.away(t.now.at);
        let regions = self.abroad.others.len() + 1;
        if regions - missing.len() < needed {
            let (acks, needed) = ((regions - missing.len()) as u8, needed as u8);
            let missing = Missing::regions(missing);
            return self.reply(t, client, Reply::Unavailable { acks, needed, missing });
        }
        let (heard, agreed, behind) = (Vec::new(), Vec::new(), Vec::new());
        let globally = Globally { client, key: key.clone(), needed, heard, merged: None, agreed, behind };
        let ask = self.begin(t, Operation::Global(Box::new(globally)), deadline);
        for region in self.abroad.regions().collect::<Vec<_>>() {
            if let Some(to) = self.abroad.keeper(&mut self.peers, t.now.at, region, &key) {
                let session = Session::default().encode();
                self.send(t, to, Frame::Seek { ask, key: key.clone(), session });
            }
        }
        self.start_read(t, Client::Region(ask), key, None, deadline);
    }

    fn globally(&mut self, ask: Ask) -> Option<&mut Globally> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::Global(globally)) => Some(globally),
            _ => None,
        }
    }

    /// What this region has.
    pub(super) fn global_here(&mut self, t: &mut Turn<'_>, ask: Ask, reply: Reply) {
        match reply {
            Reply::Found(record) => {
                self.global_heard(t, self.params.actor.region, ask, record.map(|record| *record));
            }
            Reply::Refused(_) => {
                let Some(client) = self.globally(ask).map(|globally| globally.client) else { return };
                self.finish(ask);
                self.reply(t, client, reply);
            }
            _ => {}
        }
    }

    pub(super) fn global_heard(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        ask: Ask,
        record: Option<Record>,
    ) {
        let Some(globally) = self.globally(ask) else { return };
        if globally.merged.is_some() || globally.heard.iter().any(|(other, _)| *other == region) {
            return;
        }
        globally.heard.push((region, record));
        if globally.heard.len() < globally.needed {
            return;
        }
        let (key, heard) = (globally.key.clone(), std::mem::take(&mut globally.heard));
        let (merged, seq) = self.join(t, &key, heard.iter().filter_map(|(_, record)| record.clone()));
        let (same, behind): (Vec<_>, Vec<_>) = heard.into_iter().partition(|(_, record)| *record == merged);
        let Some(globally) = self.globally(ask) else { return };
        globally.merged = Some(merged.map(Box::new));
        globally.agreed = same.into_iter().map(|(region, _)| region).collect();
        globally.behind = behind.into_iter().map(|(region, _)| region).collect();
        self.after(t, seq, Then::RepairRegions(ask));
    }

    /// Brings those regions up to date that were heard and lack something.
    pub(super) fn repair_regions(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(globally) = self.globally(ask) else { return };
        let (key, behind) = (globally.key.clone(), std::mem::take(&mut globally.behind));
        if let Some(merged) = globally.merged.clone().flatten() {
            behind.into_iter().for_each(|region| self.repair_region(t, region, ask, &key, &merged));
        }
        self.settle_global(t, ask);
    }

    fn repair_region(&mut self, t: &mut Turn<'_>, region: RegionId, ask: Ask, key: &Key, merged: &Record) {
        let bytes = merged.encode();
        if region == self.params.actor.region {
            return self.adopt(t, Whom::Here(ask), key.clone(), merged, bytes);
        }
        let Some(to) = self.abroad.keeper(&mut self.peers, t.now.at, region, key) else { return };
        let entry = Entry {
            seq: 0,
            prev: 0,
            operation: log::Operation::Update,
            key: key.clone(),
            old: Context::default(),
            stamp: merged.header.stamp,
            at_ms: t.now.wall_ms,
            record: bytes,
        };
        self.send(t, to, Frame::Replicate { ask, entry: entry.encode() });
    }

    pub(super) fn global_stored(&mut self, t: &mut Turn<'_>, region: RegionId, ask: Ask) {
        if let Some(globally) = self.globally(ask)
            && !globally.agreed.contains(&region)
        {
            globally.agreed.push(region);
        }
        self.settle_global(t, ask);
    }

    fn settle_global(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(globally) = self.globally(ask) else { return };
        let nothing = globally.merged == Some(None);
        if globally.merged.is_some() && (nothing || globally.agreed.len() >= globally.needed) {
            let (client, merged) = (globally.client, globally.merged.take().flatten());
            self.finish(ask);
            self.reply(t, client, Reply::Found(merged));
        }
    }

    pub(super) fn expire_global(&mut self, t: &mut Turn<'_>, globally: Globally) {
        let answered: Vec<RegionId> =
            globally.heard.iter().map(|(region, _)| *region).chain(globally.agreed).collect();
        let acks = globally.heard.len().max(answered.len() - globally.heard.len()) as u8;
        let here = self.params.actor.region;
        let everyone = self.abroad.regions().chain([here]);
        let missing = Missing::regions(everyone.filter(|region| !answered.contains(region)).collect());
        self.reply(t, globally.client, Reply::Unavailable { acks, needed: globally.needed as u8, missing });
    }
}
