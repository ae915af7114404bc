//! The world of the mesh: real nodes of it over their real files, on disks that tear, forget and are lost, with clocks
//! that disagree and a network that loses and splits. Who decides about the topology is the product's own controller;
//! coord is a register here, as its own world shows it to be. One seed is a storm, a calm, and then the judgement.

mod campaign;
mod clients;
mod host;
mod nemesis;
mod world;

pub(crate) use campaign::campaign_of;
pub use campaign::{Summary, campaign};
pub(crate) use host::{Host, ROUND, TIMEOUT};
pub(crate) use world::PATIENCE;

use base::mutant::{self, Mutant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

const STORM_US: u64 = 20_000_000;
/// Within it everybody is back, what moves has moved, and three rounds of comparing are over.
const CALM_US: u64 = 12_000_000;

/// What happened, so that a world that was too quiet is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub acknowledged: u64,
    pub unknown: u64,
    pub read: u64,
    pub crashes: u64,
    pub wipes: u64,
    pub moves: u64,
    pub splits: u64,
    pub disk_troubles: u64,
    /// Losers that were noted, and regions that went for good; of worlds with several regions.
    pub conflicts: u64,
    pub evictions: u64,
}

pub struct Report {
    pub seed: u64,
    pub trace: u64,
    pub tally: Tally,
    pub violation: Option<String>,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.read += other.read;
        self.crashes += other.crashes;
        self.wipes += other.wipes;
        self.moves += other.moves;
        self.splits += other.splits;
        self.disk_troubles += other.disk_troubles;
        self.conflicts += other.conflicts;
        self.evictions += other.evictions;
    }
}

/// One seed. An assertion of the product that fails is a finding like any other.
pub fn run(seed: u64, planted: Option<Mutant>) -> Report {
    caught(seed, planted, play)
}

pub(crate) fn caught(seed: u64, planted: Option<Mutant>, play: fn(u64) -> Report) -> Report {
    mutant::plant(planted);
    let ran = catch_unwind(AssertUnwindSafe(|| play(seed)));
    mutant::plant(None);
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Some(format!("assertion: {}", text.unwrap_or_default()));
        Report { seed, trace: 0, tally: Tally::default(), violation }
    })
}

fn play(seed: u64) -> Report {
    let mut world = World::new(seed);
    world.run(STORM_US);
    world.calm();
    world.run(CALM_US);
    let mut violation = world.violation.take();
    if violation.is_none() {
        violation = world.judge_end();
    }
    Report { seed, trace: world.trace, tally: world.tally, violation }
}
