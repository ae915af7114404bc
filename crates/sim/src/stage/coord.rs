//! What the coord of each region would keep and do: the plan of its ring, its table of regions, and whoever leads, who
//! makes the next plan. It is a register here, as coord's own world shows it to be.

use super::{Event, MS, Stage};
use base::{Instant, NodeId};
use mesh::controller::Wanted;
use mesh::plan::Plan;
use mesh::topology::Space;
use mesh::{Input, RegionId, Regions};
use std::collections::BTreeSet;

const TELL_EVERY: u64 = 300 * MS;

pub(crate) struct Realm {
    pub document: Option<Plan>,
    /// None where nobody has heard of other regions.
    pub table: Option<Regions>,
    pub leader: NodeId,
    pub members: BTreeSet<NodeId>,
    /// What the namespaces want.
    pub spaces: Vec<Space>,
}

impl Stage {
    pub fn realm(&mut self, region: RegionId) -> &mut Realm {
        self.realms.get_mut(&region).expect("it is there")
    }

    /// Cut off from everybody in its region.
    fn is_isolated(&self, node: NodeId) -> bool {
        let mut nodes = self.nodes_of(self.hosts[&node].region).into_iter();
        nodes.all(|other| other == node || self.cut.contains(&(node, other)))
    }

    pub(super) fn begin_when_known(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        let Some(process) = &mut self.host(node).process else { return };
        let had_begun = process.machine.is_some();
        match process.begin_when_known() {
            Ok(input) => {
                let begins = process.machine.is_some() && !had_begun;
                input.into_iter().for_each(|input| self.step(node, input));
                if begins {
                    self.show_table(node, region);
                }
            }
            Err(_) => self.die(node),
        }
    }

    fn show_table(&mut self, node: NodeId, region: RegionId) {
        if let Some(table) = self.realms[&region].table.clone() {
            self.step(node, Input::Regions(table));
        }
    }

    /// What its coord has comes to everybody in the region who is not cut off, sooner or later.
    pub(super) fn read_documents(&mut self, node: NodeId, life: u64) {
        if self.is_isolated(node) {
            return self.after(100 * MS, Event::Documents(node, life));
        }
        let region = self.hosts[&node].region;
        let document = self.realms[&region].document.clone();
        let Some(process) = &mut self.host(node).process else { return };
        if let Some(topology) = document.and_then(|plan| process.learn(plan)) {
            self.step(node, Input::Topology(topology));
        }
        self.begin_when_known(node);
        self.show_table(node, region);
    }

    pub(super) fn tell(&mut self, node: NodeId) {
        let (now, region) = (self.now, self.hosts[&node].region);
        let Some(process) = &mut self.host(node).process else { return };
        if process.tell_at > now {
            return;
        }
        process.tell_at = now + TELL_EVERY;
        let tidings = process.tidings.clone();
        process.controller.hear(Instant(now), node, tidings.clone());
        for to in self.nodes_of(region).into_iter().filter(|to| *to != node) {
            let span = 100 + self.rng.between(0, self.delay_max);
            self.after(span, Event::Tidings { from: node, to, tidings: tidings.clone() });
        }
    }

    /// Whoever leads coord makes the next plan of the one that it knows.
    pub(super) fn decide(&mut self, node: NodeId) {
        let (region, at) = (self.hosts[&node].region, Instant(self.now));
        let realm = &self.realms[&region];
        let leads = realm.leader == node && !self.is_isolated(node);
        let wanted =
            Wanted { members: realm.members.clone(), spaces: realm.spaces.clone(), ..Wanted::default() };
        let Some(process) = &mut self.host(node).process else { return };
        process.controller.set_leading(at, leads);
        let known = process.plan.as_ref().map_or(0, |plan| plan.epoch().0);
        if let Some(plan) = process.controller.decide(at, process.plan.as_ref(), &wanted) {
            let span = self.rng.between(MS, 10 * MS);
            self.after(span, Event::Propose { region, expect: known, plan });
        }
    }

    pub(super) fn replace(&mut self, region: RegionId, expect: u64, plan: Plan) {
        let Some(realm) = self.realms.get_mut(&region) else { return };
        if realm.document.as_ref().map_or(0, |plan| plan.epoch().0) != expect {
            return;
        }
        realm.document = Some(plan);
        self.spread_documents(region);
    }

    pub fn spread_documents(&mut self, region: RegionId) {
        for node in self.nodes_of(region) {
            let (span, life) = (self.rng.between(MS, 40 * MS), self.hosts[&node].life);
            self.after(span, Event::Documents(node, life));
        }
    }
}
