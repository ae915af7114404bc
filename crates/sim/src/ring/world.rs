//! One ring of nodes on the stage, and clients that ask whichever they meet.

use super::answer_times::{AnswerTimes, BOUND, DEADLINE};
use super::clients::{CLIENTS, Clients};
use super::scenario::Scenario;
use crate::mesh_cluster::{ClusterWorld, MS, MeshCluster, PATIENCE, RegionCoord, TIMEOUT, WorldEvent};
use base::{FormatLevel, NodeId, Rng};
use mesh::{
    RegionId, Regions, Reply, Request, documents,
    namespaces::{self, Namespace, Namespaces},
};
use std::collections::BTreeSet;
use std::time::Duration;

const TIMEOUT_MICROS: u64 = TIMEOUT.as_micros() as u64;

/// How many copies of a key a world has: mostly as many as the default.
const COPIES: [u8; 8] = [3, 3, 3, 3, 1, 2, 4, 5];

pub struct World {
    pub scenario: &'static Scenario,
    pub cluster: MeshCluster,
    pub region: RegionId,
    pub clients: Clients,
    /// Of the clients' keys.
    pub copies: u8,
    pub answer_times: AnswerTimes,
}

impl World {
    pub fn new(scenario: &'static Scenario, seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let copies = *rng.pick(if scenario.judges_answer_times { &[3] } else { &COPIES[..] });
        let n = rng.between(3, 7).max(copies.into());
        let members: BTreeSet<NodeId> = (1..=n).map(NodeId).collect();
        let (mut cluster, region) = (MeshCluster::new(rng), RegionId::of("here"));
        members.iter().for_each(|node| cluster.add(*node, region));
        let mut region_coord = RegionCoord::new("here", Regions::default(), members);
        let mut namespaces = Namespaces::default();
        let name = if copies == namespaces::COPIES_DEFAULT { namespaces::DEFAULT } else { "few-or-many" };
        let namespace = Namespace { copies, ..Namespace::default() };
        namespaces.set(name, namespace, region).expect("a lawful namespace");
        region_coord.replace(documents::NAMESPACES, 0, namespaces.encode(FormatLevel::NEWEST));
        cluster.region_coords.insert(region, region_coord);
        (0..CLIENTS).for_each(|client| cluster.schedule(1_500 * MS, WorldEvent::Client(client)));
        cluster.schedule(2_000 * MS, WorldEvent::Fault);
        let (clients, answer_times) =
            (Clients::new(scenario, namespaces::id_of(name)), AnswerTimes::default());
        World { scenario, cluster, region, clients, copies, answer_times }
    }

    pub fn region_coord(&mut self) -> &mut RegionCoord {
        self.cluster.region_coord(self.region)
    }

    fn ask_next(&mut self, client: usize) {
        let pause = self.cluster.rng.between(MS, 30 * MS);
        self.cluster.schedule(pause, WorldEvent::Client(client));
        if self.clients.is_busy(client) {
            return;
        }
        let Some(node) = self.cluster.any_running_node() else { return };
        let now = self.cluster.now;
        let (nth, request) = self.clients.next(&mut self.cluster.rng, client);
        let is_impatient = self.cluster.rng.chance(300_000);
        let patience = if is_impatient { self.cluster.rng.between(MS, TIMEOUT_MICROS) } else { PATIENCE };
        // Where late writes are judged, every other request says how long its client waits; the others outlive it.
        let says_so = self.scenario.judges_late_writes && nth % 2 == 0;
        let timeout = if says_so { patience.min(TIMEOUT_MICROS) } else { TIMEOUT_MICROS };
        let (patience, timeout) =
            if self.scenario.judges_answer_times { (BOUND, DEADLINE) } else { (patience, timeout) };
        self.answer_times.ask(nth, node, now);
        self.clients.sent(nth, now, now + timeout);
        self.cluster.schedule(patience, WorldEvent::GiveUp(nth));
        self.cluster.ask_within(node, nth, request, Duration::from_micros(timeout));
    }

    fn give_up(&mut self, nth: usize) {
        if !self.clients.give_up(nth) {
            return;
        }
        self.cluster.counts.unknown += 1;
        if self.scenario.judges_answer_times
            && let Some(wrong) = self.answer_times.judge(nth)
        {
            self.cluster.violation.get_or_insert(wrong);
        }
    }

    /// The judge asks.
    pub fn ask(&mut self, node: NodeId, nth: usize, request: Request) {
        let now = self.cluster.now;
        self.clients.sent(nth, now, now + TIMEOUT_MICROS);
        self.cluster.schedule(PATIENCE, WorldEvent::GiveUp(nth));
        self.cluster.ask(node, nth, request);
    }

    /// Nothing goes wrong any more, clocks included.
    pub fn calm(&mut self) {
        self.cluster.calm();
        self.cluster.hosts.values_mut().for_each(|host| host.skew_ms = 0);
    }
}

impl ClusterWorld for World {
    fn cluster(&mut self) -> &mut MeshCluster {
        &mut self.cluster
    }

    fn on_world_event(&mut self, on_world_event: WorldEvent) {
        self.answer_times.look(&self.cluster);
        match on_world_event {
            WorldEvent::Client(client) => self.ask_next(client),
            WorldEvent::GiveUp(nth) => self.give_up(nth),
            WorldEvent::Fault => self.strike(),
            WorldEvent::Evict => unreachable!("there is one region"),
        }
    }

    fn hear(&mut self, nth: usize, reply: Reply) {
        let made = self.clients.hear(nth, self.cluster.now, &reply);
        self.cluster.count(made, &reply);
    }
}
