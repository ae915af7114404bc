//! What the coord of each region keeps and does: documents that are compared and set, and a leader, who may be replaced
//! and learns of it a little later. Coord's own worlds show it to be that. Members hear of documents sooner or later.

use super::{Event, MS, Stage, host};
use base::NodeId;
use bytes::Bytes;
use mesh::plan::{self, Plan};
use mesh::{RegionId, Regions};
use mesh_node::{Coord, Document, Input, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// Until a node that runs knows that it leads, or that it was replaced. The election of homes counts on less than a
/// quarter of their lease.
const LEADER_KNOWN_AFTER: u64 = 200 * MS;

pub(crate) struct Realm {
    pub name: String,
    /// What its configuration says of other regions.
    pub regions: Regions,
    documents: BTreeMap<String, Document>,
    pub leader: NodeId,
    pub members: BTreeSet<NodeId>,
}

impl Realm {
    pub fn new(name: &str, regions: Regions, members: BTreeSet<NodeId>) -> Realm {
        let leader = *members.first().expect("a region has nodes");
        Realm { name: name.to_owned(), regions, documents: BTreeMap::new(), leader, members }
    }

    pub fn document(&self, name: &str) -> Option<&Document> {
        self.documents.get(name)
    }

    pub fn plan(&self) -> Option<Plan> {
        Plan::decode(self.document(plan::DOCUMENT)?.bytes.clone())
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

impl Stage {
    pub fn realm(&mut self, region: RegionId) -> &mut Realm {
        self.realms.get_mut(&region).expect("it is there")
    }

    pub(super) fn settings(&self, node: NodeId) -> Settings {
        let realm = &self.realms[&self.hosts[&node].region];
        host::settings(node, &realm.name, realm.regions.clone())
    }

    /// Cut off from all others in its region.
    pub(super) fn is_isolated(&self, node: NodeId) -> bool {
        let mut nodes = self.nodes_of(self.hosts[&node].region).into_iter();
        nodes.all(|other| other == node || self.cut.contains(&(node, other)))
    }

    /// What its coord has comes to every member in the region that is not cut off, sooner or later.
    pub(super) fn read_documents(&mut self, node: NodeId, life: u64) {
        if self.is_isolated(node) {
            return self.after(100 * MS, Event::Documents(node, life));
        }
        let realm = &self.realms[&self.hosts[&node].region];
        let documents = realm.documents.values().cloned().collect();
        self.step(node, Input::Documents(documents));
    }

    /// Who belongs to coord, and who else there is.
    pub(super) fn members(&self, node: NodeId) -> Coord {
        let region = self.hosts[&node].region;
        let voters = self.realms[&region].members.clone();
        let peers = self.nodes_of(region).into_iter().filter(|other| *other != node).collect();
        Coord { voters, peers, ..Coord::default() }
    }

    /// Whether a node takes itself for the leader.
    pub(super) fn leads(&mut self, node: NodeId) -> bool {
        let leads = self.realms[&self.hosts[&node].region].leader == node && !self.is_isolated(node);
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
        let Some(realm) = self.realms.get_mut(&region) else { return };
        if realm.replace(name, expect, bytes) {
            self.spread_documents(region);
        }
    }

    pub fn spread_documents(&mut self, region: RegionId) {
        for node in self.nodes_of(region) {
            let (span, life) = (self.rng.between(MS, 40 * MS), self.hosts[&node].life);
            self.after(span, Event::Documents(node, life));
        }
    }
}
