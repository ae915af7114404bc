//! The simulator as part of every test run: some seeds of every world, seeds that once failed, runs that must repeat, and planted bugs
//! that show within few seeds. `cargo xtask soak` runs more of each, and the bugs that show late.

mod mesh;
mod regions;

use sim::campaign::{self, CampaignPlan, Summary};
use sim::crash_points::Point;
use sim::run::{run, run_in, run_to};
use sim::scenario;
use sim::soak::{self, Hunt, SeedRange, SoakWorld};

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

fn plan(first: u64, seeds: u64) -> CampaignPlan {
    CampaignPlan {
        first,
        seeds,
        until: None,
        threads: threads(),
        planted: None,
        scenario: &scenario::STORM,
        stop_at_first: true,
    }
}

fn told(summary: &Summary) -> String {
    let lines = summary.violations.iter().filter_map(|report| {
        let found = report.violation.as_ref()?;
        Some(format!("seed {}: {}: {}", report.seed, found.checker.name(), found.what))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn storms_show_no_violation() {
    let summary = campaign::run(&plan(1, 60), &|_| {});
    assert!(summary.violations.is_empty(), "{}", told(&summary));
    // The world must have been as bad as it claims to be.
    assert!(summary.counts.faults > 1_000, "{:?}", summary.counts);
    assert!(summary.counts.snapshots > 100, "{:?}", summary.counts);
    assert!(summary.counts.tails_cut > 0, "{:?}", summary.counts);
    assert!(summary.counts.answered > 20_000, "{:?}", summary.counts);
    assert!(summary.counts.watched > 20_000, "{:?}", summary.counts);
    assert!(summary.counts.fenced > 20, "{:?}", summary.counts);
    assert!(summary.counts.retries > 1_000, "{:?}", summary.counts);
    assert!(summary.counts.expired > 600, "{:?}", summary.counts);
    let locks = campaign::run(&CampaignPlan { scenario: &scenario::LOCKS, ..plan(1, 12) }, &|_| {});
    assert!(locks.violations.is_empty(), "{}", told(&locks));
    let auth = campaign::run(&CampaignPlan { scenario: &scenario::AUTH, ..plan(1, 8) }, &|_| {});
    assert!(auth.violations.is_empty(), "{}", told(&auth));
    assert!(auth.met > 200, "users were served and refused {} times", auth.met);
    assert!(summary.counts.acquired + locks.counts.acquired > 10_000, "{:?}", locks.counts);
}

/// Each of these found a bug once; crates/sim/README.md says which. What a seed means changes with the world,
/// so they are kept for what they may find again, not as proofs.
#[test]
fn seeds_that_once_failed_pass() {
    for seed in [123, 606, 660, 729, 790, 1358, 1568, 1685] {
        let report = run(seed, None);
        assert!(report.violation.is_none(), "seed {seed}: {:?}", report.violation);
    }
    for seed in [904, 1018, 1524] {
        let report = run_in(&scenario::LOCKS, seed, None);
        assert!(report.violation.is_none(), "locks {seed}: {:?}", report.violation);
    }
}

#[test]
fn every_scenario_is_lawful_and_meets_what_it_is_about() {
    for scenario in scenario::all() {
        let mut met = 0;
        // Three seeds are enough, unless what the world is about is rare.
        for first in [1, 4, 7, 10] {
            let summary = campaign::run(&CampaignPlan { scenario, ..plan(first, 3) }, &|_| {});
            assert!(summary.violations.is_empty(), "{}: {}", scenario.name, told(&summary));
            met += summary.met;
            if met >= 3 {
                break;
            }
        }
        assert!(met >= 3, "{} met what it is about {met} times", scenario.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..=3 {
        assert_eq!(run(seed, None).trace, run(seed, None).trace, "seed {seed}");
    }
}

/// In at most so many seeds, that many times what they take, so that a change of the worlds does not break it.
const HUNTED_SEEDS: u64 = 2_000;

/// Hunts the bugs of one kind of worlds that show early.
fn hunt(is_hunted: impl Fn(&SoakWorld) -> bool) {
    for Hunt { mutant, world } in Hunt::quick().into_iter().filter(|hunt| is_hunted(&hunt.world)) {
        let range = SeedRange { first: 1, seeds: HUNTED_SEEDS, threads: threads(), until: None };
        let result = soak::run_seeds(world, range, Some(mutant));
        assert!(!result.violations.is_empty(), "{} was not found in {}", mutant.name(), world.name());
    }
}

#[test]
fn bugs_planted_in_members_are_found() {
    hunt(|world| matches!(world, SoakWorld::Members(_)));
}

#[test]
fn a_power_cut_at_any_point_of_upkeep_loses_nothing() {
    for point in Point::ALL {
        let mut crashes = 0;
        for (seed, every) in [(1, 1), (2, 2), (3, 5), (5, 1)] {
            let (report, cuts) = run_to(&scenario::UPKEEP, seed, None, Some((point, every)));
            assert!(
                report.violation.is_none(),
                "{point:?}, seed {seed}, every {every}: {:?}",
                report.violation
            );
            crashes += cuts;
            if crashes > 0 && every > 1 {
                break;
            }
        }
        assert!(crashes > 0, "no host was ever at {point:?}");
    }
}
