//! The world of the mesh: real nodes of it over their real files, on disks that tear, forget and are lost, with clocks
//! that disagree and a network that loses and splits. Who decides about the topology is the product's own controller;
//! coord is a register here, as its own world shows it to be. One seed is a storm, a calm, and then the judgement.

mod answer_times;
mod cas_history;
mod clients;
mod counter_history;
mod creation_history;
mod history;
mod judge;
mod nemesis;
pub mod scenario;
mod world;

use crate::mesh_cluster::{ClusterWorld, Report, Summary, campaign_of, caught};
use base::mutant::PlantedBug;
use scenario::Scenario;
use world::World;

const STORM_US: u64 = 20_000_000;
/// Within it all nodes are back, moves are finished, and three rounds of anti-entropy are over.
const CALM_US: u64 = 12_000_000;

/// One seed.
pub fn run(scenario: &'static Scenario, seed: u64, planted: Option<PlantedBug>) -> Report {
    caught(seed, planted, |seed| play(scenario, seed))
}

/// With a bug planted it ends when that is found.
pub fn campaign(
    scenario: &'static Scenario,
    first: u64,
    seeds: u64,
    threads: usize,
    planted: Option<PlantedBug>,
) -> Summary {
    campaign_of(|seed, planted| run(scenario, seed, planted), first, seeds, threads, planted)
}

fn play(scenario: &'static Scenario, seed: u64) -> Report {
    let mut world = World::new(scenario, seed);
    world.run(STORM_US);
    world.calm();
    world.run(CALM_US);
    let violation = world.cluster.violation.take().or_else(|| world.judge_end());
    Report { seed, trace: world.cluster.trace, counts: world.cluster.counts, violation }
}
