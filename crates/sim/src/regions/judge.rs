//! The judgement over regions: all hold the same, counts are exact, nothing removed is back, nothing acknowledged is lost
//! without a trace, and logs are let go of. What only a region knew that is gone for good is not asked for.

use super::clients::{COUNT, SET, SharedWrite, key};
use super::world::{World, home_scope};
use crate::mesh_cluster::{ClusterWorld, Host, MS, PATIENCE, ROUND, RegionCoord, WorldEvent};
use base::NodeId;
use bytes::Bytes;
use mesh::{
    Body, Context, Dot, Homes, Key, ListConflicts, Record, RegionId, Reply, Request, documents,
    namespaces::Namespaces,
};
use std::collections::{BTreeMap, BTreeSet};

/// How long after the storm regions may differ, in rounds of comparing.
const ROUNDS_MAX: u64 = 8;
const PAGE: usize = 256;

/// Writes of registers that are known, and what each had seen.
type Known = BTreeMap<(Bytes, Dot), Context>;

impl World {
    pub fn judge_end(&mut self) -> Option<String> {
        self.cluster.drop_world_events(|on_world_event| !matches!(on_world_event, WorldEvent::GiveUp(_)));
        self.run(2 * PATIENCE);
        self.cluster
            .violation
            .take()
            .or_else(|| self.judge_convergence())
            .or_else(|| self.judge_home())
            .or_else(|| self.judge_counts())
            .or_else(|| self.judge_set())
            .or_else(|| self.judge_shared())
    }

    fn judge_convergence(&mut self) -> Option<String> {
        let end = self.cluster.now + ROUNDS_MAX * ROUND.as_micros() as u64;
        loop {
            let wrong = self.cluster.differ(|_| true).or_else(|| self.kept_logs());
            let wrong = wrong.or_else(|| self.differing_namespaces());
            if wrong.is_none() || self.cluster.now >= end || self.cluster.violation.is_some() {
                return self.cluster.violation.take().or(wrong);
            }
            self.run(100 * MS);
        }
    }

    /// In a calm some region owns the place, unless all regions that had heard of it are gone.
    fn judge_home(&self) -> Option<String> {
        let is_known = |region_coord: &RegionCoord| {
            let document = region_coord.document(documents::HOMES);
            let homes = document.and_then(|document| Homes::decode(document.bytes.clone()));
            homes.is_some_and(|homes| homes.get(&home_scope()).is_some())
        };
        let is_owned = self.cluster.owner(&home_scope()).is_some();
        let is_known = self.cluster.region_coords.values().any(is_known);
        (is_known && !is_owned).then(|| "homes: no region owns the place in a calm".to_owned())
    }

    /// All regions have the same namespaces, each with the same version.
    fn differing_namespaces(&self) -> Option<String> {
        let of = |region_coord: &RegionCoord| {
            let document = region_coord.document(documents::NAMESPACES);
            document.and_then(|document| Namespaces::decode(document.bytes.clone())).unwrap_or_default()
        };
        let mut region_coords = self.cluster.region_coords.values();
        let first = region_coords.next()?;
        let other = region_coords.find(|region_coord| of(region_coord) != of(first))?;
        Some(format!("namespaces: regions {} and {} have different ones", first.name, other.name))
    }

    /// All regions have everything: no log keeps anything.
    fn kept_logs(&self) -> Option<String> {
        let kept = |(node, host): (&NodeId, &Host)| {
            let bytes = host.machine()?.status().log_bytes;
            (bytes > 0).then(|| format!("logs: node {} keeps {bytes} bytes that no region needs", node.0))
        };
        self.cluster.hosts.iter().find_map(kept)
    }

    /// Asks one node after another until one answers.
    fn ask_in(&mut self, region: RegionId, request: &Request) -> Result<Reply, String> {
        for node in self.cluster.nodes_of(region).into_iter().cycle().take(8) {
            match self.call(node, request.clone()) {
                Some(Reply::Refused(_) | Reply::Unavailable { .. }) | None => self.run(50 * MS),
                Some(reply) => return Ok(reply),
            }
        }
        Err(format!("liveness: no node in region {} answers in a calm", region.0))
    }

    fn read(&mut self, region: RegionId, key: &Key) -> Result<Option<Record>, String> {
        match self.ask_in(region, &Request::Read { key: key.clone(), r: None })? {
            Reply::Found(record) => Ok(record.map(|record| *record)),
            other => Err(format!("answer: {other:?} answers another question")),
        }
    }

    fn judge_counts(&mut self) -> Option<String> {
        let (mut least, mut most) = (0, 0);
        for (region, counted) in &self.clients.counted {
            // What a region that is gone has counted may have left it, or not, and in part.
            let gone = self.gone == Some(*region);
            least += if gone { counted.taken } else { counted.least };
            most += if gone { counted.added } else { counted.most };
        }
        for region in self.regions() {
            let count = match self.read(region, &key(COUNT)) {
                Ok(Some(Record { body: Body::Counter(counts), .. })) => counts.value(),
                Ok(_) => 0,
                Err(wrong) => return Some(wrong),
            };
            if !(least..=most).contains(&count) {
                return Some(format!("counter: {count} is counted, not {least} to {most}"));
            }
        }
        None
    }

    fn judge_set(&mut self) -> Option<String> {
        for region in self.regions() {
            let set = match self.read(region, &key(SET)) {
                Ok(Some(Record { body: Body::Set(set), .. })) => Some(set),
                Ok(_) => None,
                Err(wrong) => return Some(wrong),
            };
            let contains = |element: &Bytes| set.as_ref().is_some_and(|set| set.contains(element));
            let counts = |region: &RegionId| self.gone != Some(*region);
            let clients = &self.clients;
            let mut removed = clients.removed.iter().filter(|(_, region)| counts(region));
            if let Some((element, _)) = removed.find(|(element, _)| contains(element)) {
                return Some(format!("set: {element:?} was removed and is back"));
            }
            let maybe = |element: &Bytes| {
                clients.removed.contains_key(element) || clients.maybe_removed.contains(element)
            };
            let mut added = clients.added.iter().filter(|(_, (region, _))| counts(region));
            if let Some((element, _)) = added.find(|(element, _)| !contains(element) && !maybe(element)) {
                return Some(format!("set: {element:?} was added and is lost"));
            }
        }
        None
    }

    /// Every acknowledged write of a shared register shows, or was overwritten by one that had seen it, or is the loser of
    /// a conflict in a log.
    fn judge_shared(&mut self) -> Option<String> {
        let (mut known, mut losers) = (Known::new(), self.cluster.losers_of_lost_disks());
        for region in self.regions() {
            if let Err(wrong) = self.list_conflicts(region, &mut known, &mut losers) {
                return Some(wrong);
            }
        }
        let keys: BTreeSet<Bytes> =
            self.clients.shared.iter().map(|write| write.key.bytes().clone()).collect();
        let mut shown = BTreeSet::new();
        let region = *self.cluster.region_coords.keys().next().expect("there is a region");
        for bytes in keys {
            let key = Key::from_bytes(bytes.clone()).expect("it was a key");
            match self.read(region, &key) {
                Ok(Some(record)) => {
                    shown.insert(record.header.dot);
                    known.insert((bytes, record.header.dot), record.context);
                }
                Ok(None) => {}
                Err(wrong) => return Some(wrong),
            }
        }
        for SharedWrite { key, dot, context, .. } in &self.clients.shared {
            known.insert((key.bytes().clone(), *dot), context.clone());
        }
        let overwritten = |write: &SharedWrite| {
            let same_key =
                known.iter().filter(|((key, dot), _)| key == write.key.bytes() && *dot != write.dot);
            same_key.into_iter().any(|(_, context)| context.covers(write.dot))
        };
        let counted = self.clients.shared.iter().filter(|write| self.gone != Some(write.region));
        let mut silent = counted.filter(|write| {
            !shown.contains(&write.dot) && !losers.contains(&write.dot) && !overwritten(write)
        });
        silent
            .next()
            .map(|write| format!("durability: {:?} was acknowledged and is lost in silence", write.dot))
    }

    fn list_conflicts(
        &mut self,
        region: RegionId,
        known: &mut Known,
        losers: &mut BTreeSet<Dot>,
    ) -> Result<(), String> {
        let mut after = None;
        loop {
            let request = Request::Conflicts(ListConflicts {
                after: after.clone(),
                limit: PAGE,
                ..ListConflicts::default()
            });
            let Reply::Listed(listed) = self.ask_in(region, &request)? else {
                return Err("answer: a list of conflicts was asked for".to_owned());
            };
            for conflict in listed.conflicts {
                losers.insert(conflict.loser.header.dot);
                for record in [conflict.winner, conflict.loser] {
                    known.insert((conflict.key.bytes().clone(), record.header.dot), record.context);
                }
            }
            after = listed.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
