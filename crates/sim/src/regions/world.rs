//! Two or three rings of nodes on one stage, each a region that knows the others, and clients that ask whichever they
//! meet.

use super::clients::{CLIENTS, Clients};
use crate::stage::{Cue, Event, MS, PATIENCE, Play, Realm, Stage, address};
use base::{NodeId, Rng};
use mesh::homes::{self, Homes, LEASE_MS_MIN, Place, Transfer};
use mesh::request::{Reply, Request};
use mesh::{Region, RegionId, Regions};
use std::collections::BTreeSet;

/// Nodes of the first region are 11, 12, 13.
const REGION_STEP: u64 = 10;
/// In place of a client's operation: the judge asks.
const JUDGE: usize = usize::MAX;

pub struct World {
    pub stage: Stage,
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
        let mut stage = Stage::new(rng);
        for (nth, name) in names.iter().enumerate() {
            let (first, n) = (first_node(nth), stage.rng.between(2, 4));
            let members: BTreeSet<NodeId> = (first..first + n).map(NodeId).collect();
            let region = RegionId::of(name);
            for node in &members {
                stage.add(*node, region);
                stage.host(*node).skew_ms = little_skew(&mut stage.rng);
            }
            stage.realms.insert(region, Realm::new(name, others(&names, nth), members));
        }
        give_home(&mut stage, RegionId::of(&names[0]));
        (0..CLIENTS).for_each(|client| stage.cue_after(1_500 * MS, Cue::Client(client)));
        stage.cue_after(2_000 * MS, Cue::Fault);
        if evicts {
            let span = stage.rng.between(6_000 * MS, 14_000 * MS);
            stage.cue_after(span, Cue::Evict);
        }
        World { stage, gone: None, clients: Clients::new(), answer: None }
    }

    pub fn regions(&self) -> Vec<RegionId> {
        self.stage.realms.keys().copied().collect()
    }

    fn ask_next(&mut self, client: usize) {
        let pause = self.stage.rng.between(MS, 60 * MS);
        self.stage.cue_after(pause, Cue::Client(client));
        if self.clients.is_busy(client) {
            return;
        }
        let Some(node) = self.stage.any_that_hears() else { return };
        let host = &self.stage.hosts[&node];
        if host.machine().is_none() {
            return;
        }
        let region = host.region;
        let (nth, request) = self.clients.next(&mut self.stage.rng, client, region);
        self.stage.cue_after(PATIENCE, Cue::GiveUp(nth));
        self.stage.ask(node, nth, request);
    }

    /// The judge asks, and waits.
    pub fn call(&mut self, node: NodeId, request: Request) -> Option<Reply> {
        self.answer = None;
        self.stage.ask(node, JUDGE, request);
        for _ in 0..600 {
            if self.answer.is_some() || self.stage.violation.is_some() {
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
fn give_home(stage: &mut Stage, region: RegionId) {
    let mut homes = Homes::default();
    let transfer = Transfer { to: region, epoch: None, lease_ms: Some(LEASE_MS_MIN) };
    homes.pass(&place(), transfer).expect("a lawful home");
    let (name, bytes) = (homes::DOCUMENT.to_owned(), homes.encode());
    stage.after(2_500 * MS, Event::Propose { region, name, expect: 0, bytes });
}

/// The keys with a home.
pub fn place() -> Place {
    Place::new("shop", "")
}

/// Clocks of nodes disagree by so many milliseconds.
pub fn little_skew(rng: &mut Rng) -> i64 {
    rng.between(0, 800) as i64 - 400
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
            Cue::Evict => self.evict(),
        }
    }

    fn hear(&mut self, nth: usize, reply: Reply) {
        if nth == JUDGE {
            self.answer = Some(reply);
            return;
        }
        let made = self.clients.hear(nth, &reply);
        self.stage.count(made, &reply);
    }
}
