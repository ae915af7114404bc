//! The topology as this node knows it, and, while the node leads coord, the next plan: proposed as a document that
//! replaces the one it was made from. Also the first table of regions, from the configuration.

use crate::documents::Documents;
use crate::messages::{CoordMembers, DocumentProposal, DriverEvent, Output};
use base::{Instant, NodeId};
use mesh::{
    Controller, DesiredMembers, EnrolledNode, Epoch, MeshPlan, NodeReport, RegionId, Regions, Topology,
    documents,
};
use std::collections::BTreeMap;
use std::time::Duration;

const DECIDE_EVERY: Duration = Duration::from_millis(100);
/// How long a proposal may take before another is made.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Planner {
    controller: Controller,
    /// The newest that is known.
    plan: Option<MeshPlan>,
    decide_at: Instant,
    /// The proposed epoch, until it is agreed or has timed out.
    proposed: Option<(Epoch, Instant)>,
    /// What the table of regions is founded with, and when that is proposed again.
    regions: Regions,
    regions_proposed: Instant,
}

impl Planner {
    pub fn new(region: RegionId, regions: Regions) -> Planner {
        Planner {
            controller: Controller::new(region),
            plan: None,
            decide_at: Instant::ZERO,
            proposed: None,
            regions,
            regions_proposed: Instant::ZERO,
        }
    }

    pub fn plan(&self) -> Option<&MeshPlan> {
        self.plan.as_ref()
    }

    pub fn receive(&mut self, now: Instant, from: NodeId, report: NodeReport) {
        self.controller.record_report(now, from, report);
    }

    /// Takes in the plan that the documents hold, and answers its topology if it is newer than what was known.
    pub fn follow(&mut self, documents: &Documents, out: &mut Output) -> Option<Topology> {
        let (version, bytes) = documents.get(documents::PLAN)?;
        if self.plan.as_ref().is_some_and(|known| known.epoch().0 >= version) {
            return None;
        }
        // Its version is its epoch; one that says otherwise is not ours.
        let Some(plan) = MeshPlan::decode(bytes).filter(|plan| plan.epoch().0 == version) else {
            out.events.push(DriverEvent::Unreadable { name: documents::PLAN, version });
            return None;
        };
        let topology = plan.topology.clone();
        out.nodes = Some(nodes_without_coord(&plan));
        self.plan = Some(plan);
        Some(topology)
    }

    /// Nodes that hold nothing of coord, and are sent the documents.
    pub fn data_only_nodes(&self) -> Vec<NodeId> {
        self.plan.as_ref().map(|plan| nodes_without_coord(plan).into_keys().collect()).unwrap_or_default()
    }

    pub fn tick(
        &mut self,
        now: Instant,
        leads: bool,
        documents: &Documents,
        coord: &CoordMembers,
        out: &mut Output,
    ) {
        if self.decide_at > now {
            return;
        }
        self.decide_at = now.after(DECIDE_EVERY);
        self.controller.set_leading(now, leads);
        if leads {
            self.decide(now, documents, coord, out);
            self.propose_first_regions(now, documents, out);
        }
    }

    fn decide(&mut self, now: Instant, documents: &Documents, coord: &CoordMembers, out: &mut Output) {
        let known = documents.version(documents::PLAN);
        let plan = self.plan.as_ref();
        // What coord has here is what the next one replaces; a plan that cannot be read is not replaced.
        if plan.map_or(0, |plan| plan.epoch().0) != known {
            return;
        }
        if self.proposed.is_some_and(|(epoch, until)| epoch.0 > known && now < until) {
            return;
        }
        let CoordMembers { voters, removed, .. } = coord.clone();
        let desired =
            DesiredMembers { members: voters, removed, namespace_copies: documents.namespace_copies() };
        if let Some(next) = self.controller.decide(now, plan, &desired) {
            self.proposed = Some((next.epoch(), now.after(PROPOSAL_TIMEOUT)));
            let (n_nodes, is_moving) = (next.topology.members().len(), next.topology.is_moving());
            out.events.push(DriverEvent::ProposesPlan { epoch: next.epoch(), n_nodes, is_moving });
            out.propose.push(DocumentProposal { name: documents::PLAN, expect: known, bytes: next.encode() });
        }
    }

    /// The configuration says which regions there are until the cluster has a table; from then on that alone does.
    fn propose_first_regions(&mut self, now: Instant, documents: &Documents, out: &mut Output) {
        let n_regions = self.regions.iter().count();
        if n_regions == 0 || documents.version(documents::REGIONS) > 0 || now < self.regions_proposed {
            return;
        }
        self.regions_proposed = now.after(PROPOSAL_TIMEOUT);
        out.events.push(DriverEvent::ProposesRegions { n_regions });
        out.propose.push(DocumentProposal {
            name: documents::REGIONS,
            expect: 0,
            bytes: self.regions.encode(),
        });
    }
}

fn nodes_without_coord(plan: &MeshPlan) -> BTreeMap<NodeId, String> {
    let alone = |(node, enrolled): (&NodeId, &EnrolledNode)| {
        (!enrolled.address.is_empty()).then(|| (*node, enrolled.address.clone()))
    };
    plan.nodes.iter().filter_map(alone).collect()
}
