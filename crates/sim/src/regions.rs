//! The world of regions: two or three of them, each a ring of two or three real nodes over their real files, cut apart
//! for long under writes of every sort, with disks that tear, forget and are lost, clocks that disagree, and sometimes a
//! region that is gone for good and evicted. One seed is a storm, a calm, and then the judgement.

mod clients;
mod judge;
mod nemesis;
mod world;

use crate::mesh_cluster::{ClusterWorld, MeshCounts, Report, Summary, campaign_of, caught};
use base::mutant::PlantedBug;
use world::World;

const STORM_US: u64 = 16_000_000;
/// Within it all nodes are back, sent entries have arrived, and rounds of anti-entropy between regions are over.
const CALM_US: u64 = 8_000_000;

/// One seed.
pub fn run(seed: u64, planted: Option<PlantedBug>) -> Report {
    caught(seed, planted, play)
}

/// With a bug planted it ends when that is found.
pub fn campaign(first: u64, seeds: u64, threads: usize, planted: Option<PlantedBug>) -> Summary {
    campaign_of(run, first, seeds, threads, planted)
}

fn play(seed: u64) -> Report {
    let mut world = World::new(seed);
    world.run(STORM_US);
    world.cluster.calm();
    world.run(CALM_US);
    let violation = world.cluster.violation.take().or_else(|| world.judge_end());
    let counts = MeshCounts { conflicts: world.cluster.n_losers() as u64, ..world.cluster.counts };
    Report { seed, trace: world.cluster.trace, counts, violation }
}
