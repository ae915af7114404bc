//! The worlds of the mesh: seeds that must pass, runs that must repeat, and planted bugs that only files can show.

use crate::{hunt, threads};
use sim::ring;
use sim::ring::scenario::{
    ANSWER_TIMES, CONDITIONAL_WRITES, COUNTED_ONCE, DAMAGED_LOGS, LATE_WRITES, STORM, Scenario,
};
use sim::soak::SoakWorld;

#[test]
fn storms_over_real_files_lose_nothing_and_end_in_agreement() {
    let summary = ring::campaign(&STORM, 1, 6, threads(), None);
    let told: Vec<_> = summary.violations.iter().map(|report| (report.seed, &report.violation)).collect();
    assert!(told.is_empty(), "{told:#?}");
    // The world must have been as bad as it claims to be.
    let counts = summary.counts;
    assert!(counts.acknowledged > 7_000 && counts.read > 5_000, "{counts:?}");
    assert!(counts.crashes > 35 && counts.wipes > 2 && counts.moves > 5 && counts.splits > 7, "{counts:?}");
    assert!(counts.disk_errors > 3 && counts.full_disks > 3 && counts.pauses > 3, "{counts:?}");
}

/// The worlds that judge one promise more.
const JUDGED: [&Scenario; 5] =
    [&LATE_WRITES, &CONDITIONAL_WRITES, &COUNTED_ONCE, &DAMAGED_LOGS, &ANSWER_TIMES];

#[test]
fn worlds_that_judge_one_promise_more_are_lawful() {
    for scenario in JUDGED {
        let summary = ring::campaign(scenario, 1, 4, threads(), None);
        let told: Vec<_> = summary.violations.iter().map(|report| (report.seed, &report.violation)).collect();
        assert!(told.is_empty(), "{}: {told:#?}", scenario.name);
    }
}

#[test]
fn every_world_of_the_mesh_is_run() {
    let known: Vec<&str> = JUDGED.iter().map(|scenario| scenario.name).collect();
    for scenario in ring::scenario::ALL {
        assert!(
            scenario.name == STORM.name || known.contains(&scenario.name),
            "{} is not run",
            scenario.name
        );
    }
}

#[test]
fn a_seed_of_the_mesh_gives_the_same_run() {
    assert_eq!(ring::run(&STORM, 1, None).trace, ring::run(&STORM, 1, None).trace);
}

#[test]
fn bugs_planted_in_the_files_of_the_mesh_are_found() {
    hunt(|world| matches!(world, SoakWorld::Ring(_)));
}
