//! The shell's side of the topology: what this node tells of itself, what it has heard of others, and, while it leads
//! coord, the next plan, proposed as a document that replaces the one it was made from. Nodes that hold nothing of
//! coord are sent the plan.

use crate::core::Core;
use crate::mesh::node::Settings;
use crate::mesh::wire;
use crate::peer::Peers;
use base::{Instant, NodeId};
use coord::{Command, SetDocument};
use mesh::Topology;
use mesh::controller::{Controller, Wanted};
use mesh::moves::Report;
use mesh::namespaces::{self, Namespace, Namespaces};
use mesh::plan::{DOCUMENT, Plan};
use mesh::tidings::Tidings;
use mesh::topology::{Epoch, Space};
use node::Work;
use std::sync::Arc;
use std::time::Duration;

/// How often a node tells of itself when nothing has changed.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// And how soon after something has.
const TELL_SOON: Duration = Duration::from_millis(50);
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
}

impl Decider {
    pub fn new(core: Arc<Core>, settings: &Settings, incarnation: u32) -> Decider {
        let Settings { me, region, zone, points, .. } = *settings;
        Decider {
            core,
            me,
            controller: Controller::new(region),
            tidings: Tidings { incarnation, zone, points, ..Tidings::default() },
            plan: None,
            tell_at: Instant::ZERO,
            decide_at: Instant::ZERO,
            proposed: None,
        }
    }

    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The plan as coord has it here. Its version is its epoch; one that says otherwise is not ours.
    pub fn read_document(&self) -> Option<Plan> {
        let document = self.core.documents.get(DOCUMENT)?;
        let plan = Plan::decode(document.bytes).filter(|plan| plan.epoch().0 == document.version);
        if plan.is_none() {
            tracing::error!(version = document.version, "the topology of the mesh cannot be read");
        }
        plan
    }

    /// True if it is newer than what was known.
    pub fn follow(&mut self, peers: &Peers, plan: Plan) -> bool {
        if self.plan.as_ref().is_some_and(|known| known.epoch() >= plan.epoch()) {
            return false;
        }
        self.plan = Some(plan);
        self.tell_at = Instant::ZERO;
        self.tell_followers(peers);
        true
    }

    /// Those who do not hold the document are sent it.
    fn tell_followers(&self, peers: &Peers) {
        let Some(plan) = &self.plan else { return };
        let followers = plan.nodes.iter().filter(|(_, enrolled)| !enrolled.address.is_empty());
        for (node, _) in followers.filter(|(node, _)| **node != self.me) {
            peers.send_data(*node, vec![wire::plan_frame(plan)]);
        }
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
        self.controller.hear(now, from, tidings);
    }

    pub fn greet(&mut self, peers: &Peers, peer: NodeId) {
        peers.send_data(peer, vec![wire::tidings_frame(&self.tidings)]);
        let follows = |plan: &Plan| plan.nodes.get(&peer).is_some_and(|node| !node.address.is_empty());
        if let Some(plan) = self.plan.as_ref().filter(|plan| follows(plan)) {
            peers.send_data(peer, vec![wire::plan_frame(plan)]);
        }
    }

    pub fn tick(&mut self, now: Instant, peers: &Peers) {
        if self.tell_at <= now {
            self.tell_at = now.after(TELL_EVERY);
            self.controller.hear(now, self.me, self.tidings.clone());
            let frame = wire::tidings_frame(&self.tidings);
            let members = self.core.members.list().into_iter().map(|member| member.id);
            for id in members.filter(|id| *id != self.me) {
                // What is lost is told again.
                peers.send_data(id, vec![frame.clone()]);
            }
        }
        if self.decide_at <= now {
            self.decide_at = now.after(DECIDE_EVERY);
            self.decide(now);
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
            self.propose(now, known, &next);
        }
    }

    fn spaces(&self) -> Vec<Space> {
        let document = self.core.documents.get(namespaces::DOCUMENT);
        let namespaces = document.and_then(|document| Namespaces::decode(document.bytes)).unwrap_or_default();
        let space = |(name, namespace): (&str, Namespace)| Space {
            id: namespaces::id_of(name),
            copies: namespace.copies,
        };
        namespaces.iter().map(space).collect()
    }

    fn propose(&self, now: Instant, expect: u64, next: &Plan) {
        tracing::info!(
            epoch = next.epoch().0,
            nodes = next.topology.members().len(),
            moving = next.topology.is_moving(),
            "proposing a topology of the mesh"
        );
        let set = SetDocument { name: DOCUMENT.to_owned(), expect, bytes: next.encode() };
        let mut bytes = Vec::new();
        Command::Document(set).encode(&mut bytes);
        self.core.submit(now.after(PROPOSAL_TIMEOUT), Work::Propose(bytes.into()));
    }
}
