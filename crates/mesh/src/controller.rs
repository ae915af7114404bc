//! Decides about the topology: the leader of coord computes the next plan from the members of coord and the reports of the
//! nodes. Reports and the present plan go in, the next plan or nothing comes out. The controller keeps nothing that another
//! leader could not learn within moments, and a plan counts only if it replaces the one it was made from.

use crate::actor::RegionId;
use crate::moves::MoveProgress;
use crate::mutant::Mutant;
use crate::node_report::NodeReport;
use crate::plan::{EnrolledNode, MeshPlan};
use crate::topology::{Epoch, Member, MemberState, NamespaceCopies, Topology};
use base::mutant::planted;
use base::{Instant, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the first topology waits for all members to tell in which zone they are.
const FOUND_PATIENCE: Duration = Duration::from_secs(5);
/// A node away for longer holds up the forgetting of deletes no more; it catches up before it serves again.
const AWAY_MAX: Duration = Duration::from_secs(3 * 3_600);
/// A node whose report is newer than this is present.
const PRESENT: Duration = Duration::from_secs(10);
/// Points on the ring of a member that has not told what it wants.
pub const POINTS_DEFAULT: u32 = 64;
/// The namespace that is always there.
pub const DEFAULT_NAMESPACE: NamespaceCopies = NamespaceCopies { id: 0, copies: 3 };

#[derive(Clone, Debug)]
struct LastReport {
    report: NodeReport,
    last: Instant,
}

#[derive(Debug)]
pub struct Controller {
    region: RegionId,
    reports: BTreeMap<NodeId, LastReport>,
    /// Since when this node decides; none while another does.
    since: Option<Instant>,
}

/// The members that the topology should have.
#[derive(Clone, Debug, Default)]
pub struct DesiredMembers {
    /// The members with a vote: each is a node of the mesh.
    pub members: BTreeSet<NodeId>,
    pub removed: BTreeSet<NodeId>,
    /// The numbers of copies that the namespaces want.
    pub namespace_copies: Vec<NamespaceCopies>,
}

impl Controller {
    pub fn new(region: RegionId) -> Controller {
        Controller { region, reports: BTreeMap::new(), since: None }
    }

    /// This node decides from now on, or does not any more.
    pub fn set_leading(&mut self, now: Instant, leads: bool) {
        if leads != self.since.is_some() {
            self.since = leads.then_some(now);
        }
    }

    /// Recorded whether or not this node decides, so that the next leader has it already.
    pub fn record_report(&mut self, now: Instant, from: NodeId, report: NodeReport) {
        self.reports.insert(from, LastReport { report, last: now });
    }

    /// The next plan, if it is time for one.
    pub fn decide(
        &self,
        now: Instant,
        plan: Option<&MeshPlan>,
        desired: &DesiredMembers,
    ) -> Option<MeshPlan> {
        let since = self.since?;
        let Some(plan) = plan else { return self.first_plan(now, since, desired) };
        self.enrol(plan)
            .or_else(|| self.advance_move(plan, desired))
            .or_else(|| self.mark_caught_up(plan))
            .or_else(|| add_namespaces(plan, desired))
            .or_else(|| self.begin_move(now, plan, desired))
            .or_else(|| self.mark_away(now, since, plan))
    }

    fn report(&self, node: NodeId) -> Option<&NodeReport> {
        self.reports.get(&node).map(|reports| &reports.report)
    }

    fn is_present(&self, now: Instant, node: NodeId) -> bool {
        self.reports.get(&node).is_some_and(|reports| now.since(reports.last) < PRESENT)
    }

    /// The first topology: every member, whether it runs already or not.
    fn first_plan(&self, now: Instant, since: Instant, desired: &DesiredMembers) -> Option<MeshPlan> {
        let all_heard = desired.members.iter().all(|node| self.reports.contains_key(node));
        if desired.members.is_empty() || !all_heard && now.since(since) < FOUND_PATIENCE {
            return None;
        }
        let member = |node: &NodeId| Member { state: MemberState::Serving, ..self.member_for(*node) };
        let members = desired.members.iter().map(member).collect();
        let topology = Topology::new(Epoch(1), self.region, members, vec![DEFAULT_NAMESPACE]);
        let nodes = desired.members.iter().map(|node| (*node, self.enrolled_entry(*node))).collect();
        Some(MeshPlan { topology, nodes })
    }

    /// The place that a node wants in the ring. A node that has not reported is in a zone of its own.
    fn member_for(&self, node: NodeId) -> Member {
        let (zone, points) = match self.report(node) {
            Some(report) => (report.zone, report.points.clamp(1, 1_024)),
            None => (node.0 as u32, POINTS_DEFAULT),
        };
        Member { node, zone, points, state: MemberState::Joining, stale: false }
    }

    fn enrolled_entry(&self, node: NodeId) -> EnrolledNode {
        let Some(report) = self.report(node) else { return EnrolledNode::default() };
        let (incarnation, address) = (report.incarnation, report.address.clone());
        EnrolledNode { incarnation, address, ..EnrolledNode::default() }
    }

    /// Writes down which incarnation of a node this is. One that had another before has lost what it vouched for.
    fn enrol(&self, plan: &MeshPlan) -> Option<MeshPlan> {
        let is_news = |node: NodeId| {
            let told = self.report(node).map(|report| report.incarnation)?;
            (plan.incarnation(node) != Some(told)).then_some((node, told))
        };
        let epoch = plan.next_epoch();
        let mut members = plan.topology.members().iter();
        let (node, incarnation) = members.find_map(|member| is_news(member.node))?;
        let lost = plan.has_other_incarnation(node, incarnation) && !planted(Mutant::LossUnnoticed);
        let stale = lost || plan.topology.member(node).is_some_and(|member| member.stale);
        let mut next = plan.with(plan.topology.mark(epoch, node, stale));
        let enrolled = next.nodes.entry(node).or_default();
        enrolled.incarnation = incarnation;
        if lost {
            enrolled.stale_since = epoch;
        }
        Some(next)
    }

    /// Takes a move as far as the nodes have come.
    fn advance_move(&self, plan: &MeshPlan, desired: &DesiredMembers) -> Option<MeshPlan> {
        if !plan.topology.is_moving() {
            return None;
        }
        let mut progress = MoveProgress::default();
        for (node, reports) in &self.reports {
            reports.report.record_progress(*node, &plan.topology, &mut progress);
        }
        // A removed node never answers again, so no move waits for it.
        desired.removed.iter().for_each(|node| progress.leave_out(*node));
        let steps = progress.steps(&plan.topology, &plan.topology.placement());
        let next = || plan.with(plan.topology.advance(plan.next_epoch(), &steps.switch, &steps.settle));
        (!steps.is_empty()).then(next)
    }

    /// A node that was without something has everything again.
    fn mark_caught_up(&self, plan: &MeshPlan) -> Option<MeshPlan> {
        let mut stale = plan.topology.members().iter().filter(|member| member.stale);
        let is_awake = |member: &&Member| {
            let since = plan.nodes.get(&member.node).map_or(Epoch(0), |enrolled| enrolled.stale_since);
            self.report(member.node).is_some_and(|report| report.caught_up >= since.max(Epoch(1)))
        };
        let node = stale.find(is_awake)?.node;
        Some(plan.with(plan.topology.mark(plan.next_epoch(), node, false)))
    }

    /// Begins a move: who has come is taken in, who was removed or wants to go is let go.
    fn begin_move(&self, now: Instant, plan: &MeshPlan, desired: &DesiredMembers) -> Option<MeshPlan> {
        let leaves = |node: NodeId| plan.nodes.get(&node).is_some_and(|enrolled| enrolled.leaving);
        let belongs = |node: NodeId| {
            if desired.members.contains(&node) {
                !leaves(node)
            } else {
                // A node without coord's data goes when it is told to.
                self.has_address(plan, node) && !leaves(node) && !desired.removed.contains(&node)
            }
        };
        let known = |node: NodeId| plan.topology.member(node).is_some();
        let is_new = |node: &NodeId| belongs(*node) && !known(*node) && self.is_present(now, *node);
        let joining: Vec<NodeId> = self.reports.keys().copied().filter(is_new).collect();
        let members = plan.topology.members().iter().map(|member| member.node);
        let leaving: Vec<NodeId> = members.filter(|node| !belongs(*node)).collect();
        if joining.is_empty() && leaving.is_empty() {
            return None;
        }
        let joined: Vec<Member> = joining.iter().map(|node| self.member_for(*node)).collect();
        let moving = plan.topology.begin(plan.next_epoch(), &joined, &leaving).ok()?;
        let mut next = plan.with(moving);
        // A node that has left is forgotten, except while it is a member of coord and would be added again.
        next.nodes.retain(|node, enrolled| {
            known(*node)
                || desired.members.contains(node)
                || !enrolled.address.is_empty() && !enrolled.leaving
        });
        next.nodes.extend(joining.iter().map(|node| (*node, self.enrolled_entry(*node))));
        Some(next)
    }

    fn has_address(&self, plan: &MeshPlan, node: NodeId) -> bool {
        let told = self.report(node).is_some_and(|report| !report.address.is_empty());
        told || plan.nodes.get(&node).is_some_and(|enrolled| !enrolled.address.is_empty())
    }

    /// A node that was away for too long is waited for no more.
    fn mark_away(&self, now: Instant, since: Instant, plan: &MeshPlan) -> Option<MeshPlan> {
        let last = |node: NodeId| self.reports.get(&node).map_or(since, |reports| reports.last);
        let is_away = |member: &&Member| !member.stale && now.since(last(member.node)) > AWAY_MAX;
        let node = plan.topology.members().iter().find(is_away)?.node;
        let epoch = plan.next_epoch();
        let mut next = plan.with(plan.topology.mark(epoch, node, true));
        next.nodes.entry(node).or_default().stale_since = epoch;
        Some(next)
    }
}

/// Namespaces that were created since get their place in the ring. Not while partitions move: who has what is counted by
/// the numbers of copies that there were when the move began.
fn add_namespaces(plan: &MeshPlan, desired: &DesiredMembers) -> Option<MeshPlan> {
    let epoch = plan.next_epoch();
    let is_new = |namespace: &&NamespaceCopies| plan.topology.copies(namespace.id).is_none();
    let mut missing = desired.namespace_copies.iter().filter(is_new).peekable();
    if plan.topology.is_moving() || missing.peek().is_none() {
        return None;
    }
    let add = |topology: Topology, namespace: &NamespaceCopies| {
        topology.add_namespace(epoch, *namespace).unwrap_or(topology)
    };
    let topology = missing.fold(plan.topology.clone(), add);
    (topology.epoch == epoch).then(|| plan.with(topology))
}

#[cfg(test)]
mod tests;
