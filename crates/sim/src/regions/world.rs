//! Two or three rings of nodes on one stage, each a region that knows the others, and clients that ask whichever they
//! meet.

use super::clients::{CLIENTS, Clients};
use crate::mesh_cluster::{ClusterWorld, Event, MS, MeshCluster, PATIENCE, RegionCoord, WorldEvent, address};
use base::{NodeId, Rng};
use mesh::{
    HOME_LEASE_MS_MIN, HomeScope, HomeTransfer, Homes, Region, RegionId, Regions, Reply, Request, documents,
};
use std::collections::BTreeSet;

/// Nodes of the first region are 11, 12, 13.
const REGION_STEP: u64 = 10;
/// In place of a client's operation: the judge asks.
const JUDGE: usize = usize::MAX;

pub struct World {
    pub cluster: MeshCluster,
    /// For good.
    pub gone: Option<RegionId>,
    pub clients: Clients,
    /// What the judge asked.
    answer: Option<Reply>,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let n_regions = rng.between(2, 4);
        let names: Vec<String> = (1..=n_regions).map(|n| format!("r{n}")).collect();
        let evicts = n_regions == 3 && rng.chance(300_000);
        let mut cluster = MeshCluster::new(rng);
        for (nth, name) in names.iter().enumerate() {
            let (first, n) = (first_node(nth), cluster.rng.between(2, 4));
            let members: BTreeSet<NodeId> = (first..first + n).map(NodeId).collect();
            let region = RegionId::of(name);
            for node in &members {
                cluster.add(*node, region);
                cluster.host(*node).skew_ms = little_skew(&mut cluster.rng);
            }
            cluster.region_coords.insert(region, RegionCoord::new(name, others(&names, nth), members));
        }
        give_home(&mut cluster, RegionId::of(&names[0]));
        (0..CLIENTS).for_each(|client| cluster.schedule(1_500 * MS, WorldEvent::Client(client)));
        cluster.schedule(2_000 * MS, WorldEvent::Fault);
        if evicts {
            let span = cluster.rng.between(6_000 * MS, 14_000 * MS);
            cluster.schedule(span, WorldEvent::Evict);
        }
        World { cluster, gone: None, clients: Clients::new(), answer: None }
    }

    pub fn regions(&self) -> Vec<RegionId> {
        self.cluster.region_coords.keys().copied().collect()
    }

    fn ask_next(&mut self, client: usize) {
        let pause = self.cluster.rng.between(MS, 60 * MS);
        self.cluster.schedule(pause, WorldEvent::Client(client));
        if self.clients.is_busy(client) {
            return;
        }
        let Some(node) = self.cluster.any_running_node() else { return };
        let host = &self.cluster.hosts[&node];
        if host.machine().is_none() {
            return;
        }
        let region = host.region;
        let (nth, request) = self.clients.next(&mut self.cluster.rng, client, region);
        self.cluster.schedule(PATIENCE, WorldEvent::GiveUp(nth));
        self.cluster.ask(node, nth, request);
    }

    /// The judge asks, and waits.
    pub fn call(&mut self, node: NodeId, request: Request) -> Option<Reply> {
        self.answer = None;
        self.cluster.ask(node, JUDGE, request);
        for _ in 0..600 {
            if self.answer.is_some() || self.cluster.violation.is_some() {
                break;
            }
            self.run(MS);
        }
        self.answer.take()
    }
}

fn first_node(nth_region: usize) -> u64 {
    REGION_STEP * (nth_region as u64 + 1) + 1
}

/// What the configuration of a region says of the others: their names, and two nodes of each.
fn others(names: &[String], here: usize) -> Regions {
    let others = names.iter().enumerate().filter(|(nth, _)| *nth != here);
    others.fold(Regions::default(), |table, (nth, name)| {
        let seeds = (first_node(nth)..first_node(nth) + 2).map(|node| address(NodeId(node))).collect();
        table.with(Region::new(name, seeds)).expect("a lawful name")
    })
}

/// An operator gives a place to a region, with a lease.
fn give_home(cluster: &mut MeshCluster, region: RegionId) {
    let mut homes = Homes::default();
    let transfer = HomeTransfer { to: region, epoch: None, lease_ms: Some(HOME_LEASE_MS_MIN) };
    homes.transfer(&home_scope(), transfer).expect("a lawful home");
    let (name, bytes) = (documents::HOMES.to_owned(), homes.encode());
    cluster.after(2_500 * MS, Event::Propose { region, name, expect: 0, bytes });
}

/// The keys with a home.
pub fn home_scope() -> HomeScope {
    HomeScope::new("shop", "")
}

/// Clocks of nodes disagree by so many milliseconds.
pub fn little_skew(rng: &mut Rng) -> i64 {
    rng.between(0, 800) as i64 - 400
}

impl ClusterWorld for World {
    fn cluster(&mut self) -> &mut MeshCluster {
        &mut self.cluster
    }

    fn on_world_event(&mut self, on_world_event: WorldEvent) {
        match on_world_event {
            WorldEvent::Client(client) => self.ask_next(client),
            WorldEvent::GiveUp(nth) => self.cluster.counts.unknown += u64::from(self.clients.give_up(nth)),
            WorldEvent::Fault => self.strike(),
            WorldEvent::Evict => self.evict(),
        }
    }

    fn hear(&mut self, nth: usize, reply: Reply) {
        if nth == JUDGE {
            self.answer = Some(reply);
            return;
        }
        let made = self.clients.hear(nth, &reply);
        self.cluster.count(made, &reply);
    }
}
