//! What the coord of each region keeps and does: documents that are compared and set, and a leader, who may be replaced
//! and learns of it a little later. Coord's own worlds show it to be that. Members hear of documents sooner or later.

use super::{Event, MS, MeshCluster, host};
use base::{FormatLevel, NodeId};
use bytes::Bytes;
use mesh::{MeshPlan, RegionId, Regions, documents};
use mesh_node::{CoordMembers, Document, DriverSettings, Input};
use std::collections::{BTreeMap, BTreeSet};

/// Until a node that runs knows that it leads, or that it was replaced. The election of homes counts on less than a
/// quarter of their lease.
const LEADER_KNOWN_AFTER: u64 = 200 * MS;

pub(crate) struct RegionCoord {
    pub name: String,
    /// What its configuration says of other regions.
    pub regions: Regions,
    documents: BTreeMap<String, Document>,
    pub leader: NodeId,
    pub members: BTreeSet<NodeId>,
}

impl RegionCoord {
    pub fn new(name: &str, regions: Regions, members: BTreeSet<NodeId>) -> RegionCoord {
        let leader = *members.first().expect("a region has nodes");
        let mut new =
            RegionCoord { name: name.to_owned(), regions, documents: BTreeMap::new(), leader, members };
        let level = Bytes::copy_from_slice(&FormatLevel::NEWEST.encode());
        new.replace(FormatLevel::DOCUMENT, 0, level);
        new
    }

    pub fn document(&self, name: &str) -> Option<&Document> {
        self.documents.get(name)
    }

    pub fn plan(&self) -> Option<MeshPlan> {
        MeshPlan::decode(self.document(documents::PLAN)?.bytes.clone())
    }

    /// Replaces a document that still has this version.
    pub fn replace(&mut self, name: &str, expect: u64, bytes: Bytes) -> bool {
        let is_expected = self.document(name).map_or(0, |document| document.version) == expect;
        if is_expected {
            let document = Document { name: name.to_owned(), version: expect + 1, bytes };
            self.documents.insert(name.to_owned(), document);
        }
        is_expected
    }
}

impl MeshCluster {
    pub fn region_coord(&mut self, region: RegionId) -> &mut RegionCoord {
        self.region_coords.get_mut(&region).expect("it is there")
    }

    pub(super) fn settings(&self, node: NodeId) -> DriverSettings {
        let region_coord = &self.region_coords[&self.hosts[&node].region];
        host::settings(node, &region_coord.name, region_coord.regions.clone())
    }

    /// Cut off from all others in its region.
    pub(crate) fn is_isolated(&self, node: NodeId) -> bool {
        let mut nodes = self.nodes_of(self.hosts[&node].region).into_iter();
        nodes.all(|other| other == node || self.cut.contains(&(node, other)))
    }

    /// What its coord has comes to every member in the region that is not cut off, sooner or later.
    pub(super) fn read_documents(&mut self, node: NodeId, pid: u64) {
        if self.is_isolated(node) {
            return self.after(100 * MS, Event::Documents(node, pid));
        }
        let region_coord = &self.region_coords[&self.hosts[&node].region];
        let documents = region_coord.documents.values().cloned().collect();
        self.step(node, Input::Documents(documents));
    }

    /// Who belongs to coord, and who else there is.
    pub(super) fn members(&self, node: NodeId) -> CoordMembers {
        let region = self.hosts[&node].region;
        let voters = self.region_coords[&region].members.clone();
        let peers = self.nodes_of(region).into_iter().filter(|other| *other != node).collect();
        CoordMembers { voters, peers, ..CoordMembers::default() }
    }

    /// Whether a node takes itself for the leader.
    pub(super) fn leads(&mut self, node: NodeId) -> bool {
        let leads = self.region_coords[&self.hosts[&node].region].leader == node && !self.is_isolated(node);
        let (now, span) = (self.now, self.rng.between(0, LEADER_KNOWN_AFTER));
        let host = self.host(node);
        if host.leads == leads {
            host.learns_at = None;
        } else if *host.learns_at.get_or_insert(now + span) <= now {
            (host.leads, host.learns_at) = (leads, None);
        }
        host.leads
    }

    pub(super) fn replace(&mut self, region: RegionId, name: &str, expect: u64, bytes: Bytes) {
        let Some(region_coord) = self.region_coords.get_mut(&region) else { return };
        if region_coord.replace(name, expect, bytes) {
            self.spread_documents(region);
        }
    }

    pub fn spread_documents(&mut self, region: RegionId) {
        for node in self.nodes_of(region) {
            let (span, pid) = (self.rng.between(MS, 40 * MS), self.hosts[&node].pid);
            self.after(span, Event::Documents(node, pid));
        }
    }
}
