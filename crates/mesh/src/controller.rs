//! Decides about the topology: the leader of coord computes the next plan from the members of coord and the reports of the
//! nodes. Reports and the present plan go in, the next plan or nothing comes out. The controller keeps nothing that another
//! leader could not learn within moments, and a plan counts only if it replaces the one it was made from.

use crate::actor::RegionId;
use crate::moves::Progress;
use crate::plan::{Enrolled, Plan};
use crate::tidings::Tidings;
use crate::topology::{Epoch, Member, Space, Standing, Topology};
use base::mutant::{Mutant, planted};
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
pub const POINTS: u32 = 64;
/// The namespace that is always there.
pub const DEFAULT_SPACE: Space = Space { id: 0, copies: 3 };

#[derive(Clone, Debug)]
struct Heard {
    tidings: Tidings,
    last: Instant,
}

#[derive(Debug)]
pub struct Controller {
    region: RegionId,
    heard: BTreeMap<NodeId, Heard>,
    /// Since when this node decides; none while another does.
    since: Option<Instant>,
}

/// The members that the topology should have.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Those with a vote: each is a node of the mesh.
    pub members: BTreeSet<NodeId>,
    pub removed: BTreeSet<NodeId>,
    /// Those that the namespaces want.
    pub spaces: Vec<Space>,
}

impl Controller {
    pub fn new(region: RegionId) -> Controller {
        Controller { region, heard: BTreeMap::new(), since: None }
    }

    /// This node decides from now on, or does not any more.
    pub fn set_leading(&mut self, now: Instant, leads: bool) {
        if leads != self.since.is_some() {
            self.since = leads.then_some(now);
        }
    }

    /// Recorded whether or not this node decides, so that the next leader has it already.
    pub fn hear(&mut self, now: Instant, from: NodeId, tidings: Tidings) {
        self.heard.insert(from, Heard { tidings, last: now });
    }

    /// The next plan, if it is time for one.
    pub fn decide(&self, now: Instant, plan: Option<&Plan>, wanted: &Wanted) -> Option<Plan> {
        let since = self.since?;
        let Some(plan) = plan else { return self.found(now, since, wanted) };
        self.enrol(plan)
            .or_else(|| self.go_on(plan, wanted))
            .or_else(|| self.wake(plan))
            .or_else(|| add_spaces(plan, wanted))
            .or_else(|| self.begin(now, plan, wanted))
            .or_else(|| self.give_up(now, since, plan))
    }

    fn tidings(&self, node: NodeId) -> Option<&Tidings> {
        self.heard.get(&node).map(|heard| &heard.tidings)
    }

    fn is_present(&self, now: Instant, node: NodeId) -> bool {
        self.heard.get(&node).is_some_and(|heard| now.since(heard.last) < PRESENT)
    }

    /// The first topology: every member, whether it runs already or not.
    fn found(&self, now: Instant, since: Instant, wanted: &Wanted) -> Option<Plan> {
        let all_heard = wanted.members.iter().all(|node| self.heard.contains_key(node));
        if wanted.members.is_empty() || !all_heard && now.since(since) < FOUND_PATIENCE {
            return None;
        }
        let member = |node: &NodeId| Member { standing: Standing::Serving, ..self.place(*node) };
        let members = wanted.members.iter().map(member).collect();
        let topology = Topology::new(Epoch(1), self.region, members, vec![DEFAULT_SPACE]);
        let nodes = wanted.members.iter().map(|node| (*node, self.introduce(*node))).collect();
        Some(Plan { topology, nodes })
    }

    /// Where a node wants to stand. One that has not told is in a zone of its own.
    fn place(&self, node: NodeId) -> Member {
        let (zone, points) = match self.tidings(node) {
            Some(tidings) => (tidings.zone, tidings.points.clamp(1, 1_024)),
            None => (node.0 as u32, POINTS),
        };
        Member { node, zone, points, standing: Standing::Joining, stale: false }
    }

    fn introduce(&self, node: NodeId) -> Enrolled {
        let Some(tidings) = self.tidings(node) else { return Enrolled::default() };
        let (incarnation, address) = (tidings.incarnation, tidings.address.clone());
        Enrolled { incarnation, address, ..Enrolled::default() }
    }

    /// Writes down which life of a node this is. One that had another before has lost what it vouched for.
    fn enrol(&self, plan: &Plan) -> Option<Plan> {
        let is_news = |node: NodeId| {
            let told = self.tidings(node).map(|tidings| tidings.incarnation)?;
            (plan.incarnation(node) != Some(told)).then_some((node, told))
        };
        let epoch = plan.next_epoch();
        let mut members = plan.topology.members().iter();
        let (node, incarnation) = members.find_map(|member| is_news(member.node))?;
        let lost = plan.counts_on_another(node, incarnation) && !planted(Mutant::LossUnnoticed);
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
    fn go_on(&self, plan: &Plan, wanted: &Wanted) -> Option<Plan> {
        if !plan.topology.is_moving() {
            return None;
        }
        let mut progress = Progress::default();
        for (node, heard) in &self.heard {
            heard.tidings.tell(*node, &plan.topology, &mut progress);
        }
        // A removed node never answers again, so no move waits for it.
        wanted.removed.iter().for_each(|node| progress.leave_out(*node));
        let steps = progress.steps(&plan.topology, &plan.topology.placement());
        let next = || plan.with(plan.topology.advance(plan.next_epoch(), &steps.switch, &steps.settle));
        (!steps.is_empty()).then(next)
    }

    /// A node that was without something has everything again.
    fn wake(&self, plan: &Plan) -> Option<Plan> {
        let mut stale = plan.topology.members().iter().filter(|member| member.stale);
        let is_awake = |member: &&Member| {
            let since = plan.nodes.get(&member.node).map_or(Epoch(0), |enrolled| enrolled.stale_since);
            self.tidings(member.node).is_some_and(|tidings| tidings.caught_up >= since.max(Epoch(1)))
        };
        let node = stale.find(is_awake)?.node;
        Some(plan.with(plan.topology.mark(plan.next_epoch(), node, false)))
    }

    /// Begins a move: who has come is taken in, who was removed or wants to go is let go.
    fn begin(&self, now: Instant, plan: &Plan, wanted: &Wanted) -> Option<Plan> {
        let leaves = |node: NodeId| plan.nodes.get(&node).is_some_and(|enrolled| enrolled.leaving);
        let belongs = |node: NodeId| match wanted.members.contains(&node) {
            true => !leaves(node),
            // A node without coord's data goes when it is told to.
            false => self.has_address(plan, node) && !leaves(node) && !wanted.removed.contains(&node),
        };
        let known = |node: NodeId| plan.topology.member(node).is_some();
        let is_new = |node: &NodeId| belongs(*node) && !known(*node) && self.is_present(now, *node);
        let joining: Vec<NodeId> = self.heard.keys().copied().filter(is_new).collect();
        let members = plan.topology.members().iter().map(|member| member.node);
        let leaving: Vec<NodeId> = members.filter(|node| !belongs(*node)).collect();
        if joining.is_empty() && leaving.is_empty() {
            return None;
        }
        let places: Vec<Member> = joining.iter().map(|node| self.place(*node)).collect();
        let moving = plan.topology.begin(plan.next_epoch(), &places, &leaving).ok()?;
        let mut next = plan.with(moving);
        // A node that has left is forgotten, except while it is a member of coord and would be added again.
        next.nodes.retain(|node, enrolled| {
            known(*node) || wanted.members.contains(node) || !enrolled.address.is_empty() && !enrolled.leaving
        });
        next.nodes.extend(joining.iter().map(|node| (*node, self.introduce(*node))));
        Some(next)
    }

    fn has_address(&self, plan: &Plan, node: NodeId) -> bool {
        let told = self.tidings(node).is_some_and(|tidings| !tidings.address.is_empty());
        told || plan.nodes.get(&node).is_some_and(|enrolled| !enrolled.address.is_empty())
    }

    /// A node that was away for too long is waited for no more.
    fn give_up(&self, now: Instant, since: Instant, plan: &Plan) -> Option<Plan> {
        let last = |node: NodeId| self.heard.get(&node).map_or(since, |heard| heard.last);
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
fn add_spaces(plan: &Plan, wanted: &Wanted) -> Option<Plan> {
    let epoch = plan.next_epoch();
    let is_new = |space: &&Space| plan.topology.copies(space.id).is_none();
    let mut missing = wanted.spaces.iter().filter(is_new).peekable();
    if plan.topology.is_moving() || missing.peek().is_none() {
        return None;
    }
    let add = |topology: Topology, space: &Space| topology.add_space(epoch, *space).unwrap_or(topology);
    let topology = missing.fold(plan.topology.clone(), add);
    (topology.epoch == epoch).then(|| plan.with(topology))
}

#[cfg(test)]
mod tests;
