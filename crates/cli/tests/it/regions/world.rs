//! Regions of real processes: each a cluster of its own, joined to the others by cables that can be cut.

use super::cable::Cables;
use crate::process::{Member, Plan, until};
use crate::rest::Rest;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct World {
    pub cables: Arc<Cables>,
    pub regions: Vec<Region>,
}

pub struct Region {
    pub name: String,
    pub members: Vec<Member>,
}

impl Region {
    pub fn rest(&self, node: usize) -> Rest {
        Rest::of(&self.members[node % self.members.len()])
    }

    pub fn rests(&self) -> Vec<Rest> {
        self.members.iter().map(Rest::of).collect()
    }
}

impl World {
    /// Ready: every region is whole and hears of every other.
    pub fn start(n_regions: usize, n_nodes: usize) -> World {
        let cables: Arc<Cables> = Arc::default();
        let name = |region: usize| format!("r{region}");
        let plans: Vec<Vec<Plan>> = (0..n_regions).map(|_| Plan::cluster(n_nodes)).collect();
        let places: Vec<Vec<String>> = plans
            .iter()
            .map(|plans| plans.iter().map(|plan| cables.lay(plan.peer_port).to_string()).collect())
            .collect();
        let others = |region: usize| {
            let others = (0..n_regions).filter(|other| *other != region);
            let listed = others.flat_map(|other| places[other].iter().map(move |place| (other, place)));
            listed.map(|(other, place)| format!("{}={place}", name(other))).collect::<Vec<_>>().join(",")
        };
        let regions = plans.iter().enumerate().map(|(region, plans)| {
            let members = plans.iter().zip(&places[region]).map(|(plan, place)| {
                let flags = [
                    "--region",
                    &name(region),
                    "--region-peers",
                    &others(region),
                    "--advertise-region",
                    place,
                ];
                plan.clone().with(&flags).start()
            });
            Region { name: name(region), members: members.collect() }
        });
        let world = World { cables: cables.clone(), regions: regions.collect() };
        for region in &world.regions {
            region.rests().into_iter().for_each(|rest| rest.wait_for_ring(n_nodes));
        }
        world.wait_until_joined();
        world
    }

    pub fn wait_until_joined(&self) {
        let n_others = self.regions.len() - 1;
        for rest in self.rests() {
            until("the regions hear of each other", || {
                let seen = rest.get("/v1/regions").json();
                let healthy = seen["regions"].as_array()?.iter().filter(|region| region["healthy"] == true);
                (healthy.count() == n_others).then_some(())
            });
        }
    }

    pub fn rests(&self) -> Vec<Rest> {
        self.regions.iter().flat_map(Region::rests).collect()
    }

    /// Over everything that each node holds; one if all hold the same.
    pub fn digests(&self) -> BTreeSet<String> {
        self.rests().into_iter().map(|rest| rest.get("/v1/regions").json()["digest"].to_string()).collect()
    }

    /// Every conflict that any node has kept.
    pub fn conflicts(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for rest in self.rests() {
            let mut page = String::new();
            loop {
                let answer = rest.get(&format!("/v1/conflicts?limit=1000{page}")).json();
                all.extend(answer["conflicts"].as_array().unwrap().clone());
                match answer["next_page"].as_str() {
                    Some(next) => page = format!("&page={next}"),
                    None => break,
                }
            }
        }
        all
    }
}
