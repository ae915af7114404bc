//! The shell's side of the topology: what this node tells of itself, what it has heard of others, and, while it leads
//! coord, the next plan, proposed as a document that replaces the one it was made from. Nodes that hold nothing of
//! coord are sent the plan.

use crate::auth::AUTH_NOTE;
use crate::consensus;
use crate::core::Core;
use crate::mesh::node::Settings;
use crate::mesh::wire;
use crate::peer::Peers;
use base::{Instant, NodeId};
use bytes::Bytes;
use coord::{Command, Document, Documents, SetDocument};
use mesh::controller::{Controller, Wanted};
use mesh::moves::Report;
use mesh::namespaces::{self, Namespace, Namespaces};
use mesh::plan::{DOCUMENT, Enrolled, Plan};
use mesh::tidings::Tidings;
use mesh::topology::{Epoch, Space};
use mesh::{Regions, Topology, handler, homes, regions};
use node::Work;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a node tells of itself when nothing has changed.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// And how soon after something has.
const TELL_SOON: Duration = Duration::from_millis(50);
/// What nodes that hold nothing of coord are told.
const FOLLOWED: [&str; 5] =
    [DOCUMENT, namespaces::DOCUMENT, regions::DOCUMENT, handler::DOCUMENT, homes::DOCUMENT];
const DECIDE_EVERY: Duration = Duration::from_millis(100);
/// How long a proposal may take before another is made.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Decider {
    core: Arc<Core>,
    me: NodeId,
    controller: Controller,
    tidings: Tidings,
    /// The newest that is known.
    plan: Option<Plan>,
    tell_at: Instant,
    decide_at: Instant,
    /// What was proposed, until it is seen or its time is up.
    proposed: Option<(Epoch, Instant)>,
    /// What the table of regions is founded with, and when that is proposed again.
    regions: Regions,
    regions_proposed: Instant,
}

impl Decider {
    pub fn new(core: Arc<Core>, settings: &Settings, incarnation: u32) -> Decider {
        let Settings { me, region, zone, points, address, abroad, regions, .. } = settings.clone();
        core.mesh.atlas.learn(me, &abroad);
        Decider {
            core,
            me,
            controller: Controller::new(region),
            tidings: Tidings { incarnation, zone, points, address, abroad, ..Tidings::default() },
            plan: None,
            tell_at: Instant::ZERO,
            decide_at: Instant::ZERO,
            proposed: None,
            regions,
            regions_proposed: Instant::ZERO,
        }
    }

    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Takes in what the cluster has agreed on, as far as it is known here, and answers the topology if it is newer than
    /// what was known.
    pub fn read_documents(&mut self, peers: &Peers) -> Option<Topology> {
        let topology = self.read_plan().and_then(|plan| self.follow(plan));
        self.tell_followers(peers);
        topology
    }

    fn follow(&mut self, plan: Plan) -> Option<Topology> {
        if self.plan.as_ref().is_some_and(|known| known.epoch() >= plan.epoch()) {
            return None;
        }
        let alone = |(node, enrolled): (&NodeId, &Enrolled)| {
            (!enrolled.address.is_empty()).then(|| (*node, enrolled.address.clone()))
        };
        if self.core.members.set_nodes(plan.nodes.iter().filter_map(alone).collect()) {
            self.core.consensus.queue.push(consensus::Mail::Others(self.core.members.others()));
        }
        let topology = plan.topology.clone();
        self.plan = Some(plan);
        self.tell_at = Instant::ZERO;
        Some(topology)
    }

    /// Its version is its epoch; one that says otherwise is not ours.
    fn read_plan(&self) -> Option<Plan> {
        let document = self.core.documents.get(DOCUMENT)?;
        let plan = Plan::decode(document.bytes).filter(|plan| plan.epoch().0 == document.version);
        if plan.is_none() {
            tracing::error!(version = document.version, "the topology of the mesh cannot be read");
        }
        plan
    }

    /// For a node that is no member of coord: what a member has told. True if some of it is new.
    pub fn be_told(&self, told: Vec<(String, Document)>) -> bool {
        if !self.core.data_only {
            return false;
        }
        let known = self.core.documents.all();
        let mut all: BTreeMap<String, Document> =
            known.iter().map(|(name, document)| (name.to_owned(), document.clone())).collect();
        let mut news = false;
        let followed = |name: &str| FOLLOWED.contains(&name) || name == AUTH_NOTE;
        for (name, document) in told.into_iter().filter(|(name, _)| followed(name)) {
            if all.get(&name).is_none_or(|known| known.version < document.version) {
                news = true;
                all.insert(name, document);
            }
        }
        self.core.auth.be_told(all.get(AUTH_NOTE));
        self.core.documents.set(Documents::of(all));
        news
    }

    /// Those who do not hold the documents are sent what they need of them.
    fn tell_followers(&self, peers: &Peers) {
        let Some(plan) = self.plan.as_ref().filter(|_| !self.core.data_only) else { return };
        let followers = plan.nodes.iter().filter(|(_, enrolled)| !enrolled.address.is_empty());
        followers.for_each(|(node, _)| self.tell_documents(peers, *node));
    }

    fn tell_documents(&self, peers: &Peers, node: NodeId) {
        let all = self.core.documents.all();
        let note = self.core.auth.note();
        let found = FOLLOWED.iter().filter_map(|name| Some((*name, all.get(name)?)));
        let found = found.chain([(AUTH_NOTE, &note)]);
        // What is lost is told again with the next stream or the next change; frames of the mesh tell of epochs anyway.
        wire::documents_frames(found).into_iter().for_each(|frame| {
            peers.send_data(node, vec![frame]);
        });
    }

    /// What the machine has to say about a move.
    pub fn report(&mut self, reports: &[Report], topology: &Topology) {
        let before = self.tidings.clone();
        reports.iter().for_each(|report| self.tidings.add(*report, topology));
        if self.tidings != before {
            self.tell_at = self.tell_at.min(self.core.clock.now().after(TELL_SOON));
        }
    }

    pub fn hear(&mut self, now: Instant, from: NodeId, tidings: Tidings) {
        self.core.mesh.atlas.learn(from, &tidings.abroad);
        self.controller.hear(now, from, tidings);
    }

    pub fn greet(&mut self, peers: &Peers, peer: NodeId) {
        peers.send_data(peer, vec![wire::tidings_frame(&self.tidings)]);
        let follows = |plan: &Plan| plan.nodes.get(&peer).is_some_and(|node| !node.address.is_empty());
        if !self.core.data_only && self.plan.as_ref().is_some_and(follows) {
            self.tell_documents(peers, peer);
        }
    }

    pub fn tick(&mut self, now: Instant, peers: &Peers) {
        if self.tell_at <= now {
            self.tell_at = now.after(TELL_EVERY);
            self.controller.hear(now, self.me, self.tidings.clone());
            let frame = wire::tidings_frame(&self.tidings);
            for (id, _) in self.core.members.others() {
                // What is lost is told again.
                peers.send_data(id, vec![frame.clone()]);
            }
        }
        if self.decide_at <= now {
            self.decide_at = now.after(DECIDE_EVERY);
            self.decide(now);
            self.found_regions(now);
        }
    }

    fn decide(&mut self, now: Instant) {
        let leads = self.core.board.read().is_leader;
        self.controller.set_leading(now, leads);
        let known = self.core.documents.get(DOCUMENT).map_or(0, |document| document.version);
        let plan = self.plan.as_ref();
        // What coord has here is what the next one replaces; while the two differ, news is on its way.
        if !leads || plan.map_or(0, |plan| plan.epoch().0) != known {
            return;
        }
        if self.proposed.is_some_and(|(epoch, until)| epoch.0 > known && now < until) {
            return;
        }
        let table = self.core.members.table();
        let members = table.voters().into_iter().collect();
        let wanted = Wanted { members, removed: table.removed().clone(), spaces: self.spaces() };
        if let Some(next) = self.controller.decide(now, plan, &wanted) {
            self.proposed = Some((next.epoch(), now.after(PROPOSAL_TIMEOUT)));
            tracing::info!(
                epoch = next.epoch().0,
                nodes = next.topology.members().len(),
                moving = next.topology.is_moving(),
                "proposing a topology of the mesh"
            );
            self.propose(now, DOCUMENT, known, next.encode());
        }
    }

    /// The configuration says which regions there are until the cluster has a table; from then on that alone does.
    fn found_regions(&mut self, now: Instant) {
        let wanted = self.core.board.read().is_leader && self.regions.iter().next().is_some();
        if !wanted || self.core.documents.get(regions::DOCUMENT).is_some() || now < self.regions_proposed {
            return;
        }
        self.regions_proposed = now.after(PROPOSAL_TIMEOUT);
        tracing::info!(regions = self.regions.iter().count(), "proposing the table of regions");
        self.propose(now, regions::DOCUMENT, 0, self.regions.encode());
    }

    /// What the namespaces want of the ring.
    fn spaces(&self) -> Vec<Space> {
        let document = self.core.documents.get(namespaces::DOCUMENT);
        let all = document.and_then(|document| Namespaces::decode(document.bytes)).unwrap_or_default();
        let space =
            |(name, wants): (&str, Namespace)| Space { id: namespaces::id_of(name), copies: wants.copies };
        all.iter().map(space).collect()
    }

    fn propose(&self, now: Instant, name: &str, expect: u64, document: Bytes) {
        let set = SetDocument { name: name.to_owned(), expect, bytes: document };
        let mut bytes = Vec::new();
        Command::Document(set).encode(&mut bytes);
        self.core.submit(now.after(PROPOSAL_TIMEOUT), Work::Propose(bytes.into()));
    }
}
