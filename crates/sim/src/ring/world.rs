//! One ring of nodes on the stage, and clients that ask whichever they meet.

use super::clients::{CLIENTS, Clients};
use super::scenario::Scenario;
use crate::stage::{Cue, MS, PATIENCE, Play, Realm, Stage, TIMEOUT};
use base::{NodeId, Rng};
use mesh::namespaces::{self, Namespace, Namespaces};
use mesh::request::{Reply, Request};
use mesh::{RegionId, Regions};
use std::collections::BTreeSet;

/// How many copies of a key a world has: mostly as many as the default.
const COPIES: [u8; 8] = [3, 3, 3, 3, 1, 2, 4, 5];

pub struct World {
    pub scenario: &'static Scenario,
    pub stage: Stage,
    pub region: RegionId,
    pub clients: Clients,
    /// Of the clients' keys.
    pub copies: u8,
}

impl World {
    pub fn new(scenario: &'static Scenario, seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let copies = *rng.pick(&COPIES);
        let n = rng.between(3, 7).max(copies.into());
        let members: BTreeSet<NodeId> = (1..=n).map(NodeId).collect();
        let (mut stage, region) = (Stage::new(rng), RegionId::of("here"));
        members.iter().for_each(|node| stage.add(*node, region));
        let mut realm = Realm::new("here", Regions::default(), members);
        let mut namespaces = Namespaces::default();
        let name = if copies == namespaces::COPIES_DEFAULT { namespaces::DEFAULT } else { "few-or-many" };
        let namespace = Namespace { copies, ..Namespace::default() };
        namespaces.set(name, namespace, region).expect("a lawful namespace");
        realm.replace(namespaces::DOCUMENT, 0, namespaces.encode());
        stage.realms.insert(region, realm);
        (0..CLIENTS).for_each(|client| stage.cue_after(1_500 * MS, Cue::Client(client)));
        stage.cue_after(2_000 * MS, Cue::Fault);
        World { scenario, stage, region, clients: Clients::new(scenario, namespaces::id_of(name)), copies }
    }

    pub fn realm(&mut self) -> &mut Realm {
        self.stage.realm(self.region)
    }

    fn ask_next(&mut self, client: usize) {
        let pause = self.stage.rng.between(MS, 30 * MS);
        self.stage.cue_after(pause, Cue::Client(client));
        if self.clients.is_busy(client) {
            return;
        }
        let Some(node) = self.stage.any_that_hears() else { return };
        let (nth, request) = self.clients.next(&mut self.stage.rng, client);
        let patience = match self.stage.rng.chance(300_000) {
            // Its request outlives it.
            true => self.stage.rng.between(MS, TIMEOUT.as_micros() as u64),
            false => PATIENCE,
        };
        self.stage.cue_after(patience, Cue::GiveUp(nth));
        self.stage.ask(node, nth, request);
    }

    /// The judge asks.
    pub fn ask(&mut self, node: NodeId, nth: usize, request: Request) {
        self.stage.cue_after(PATIENCE, Cue::GiveUp(nth));
        self.stage.ask(node, nth, request);
    }

    /// Nothing goes wrong any more, clocks included.
    pub fn calm(&mut self) {
        self.stage.calm();
        self.stage.hosts.values_mut().for_each(|host| host.skew_ms = 0);
    }
}

impl Play for World {
    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn cue(&mut self, cue: Cue) {
        match cue {
            Cue::Client(client) => self.ask_next(client),
            Cue::GiveUp(nth) => self.stage.tally.unknown += u64::from(self.clients.give_up(nth)),
            Cue::Fault => self.strike(),
            Cue::Evict => unreachable!("there is one region"),
        }
    }

    fn hear(&mut self, nth: usize, reply: Reply) {
        let made = self.clients.hear(nth, &reply);
        self.stage.count(made, &reply);
    }
}
