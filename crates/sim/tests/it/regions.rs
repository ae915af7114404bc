//! The world of regions: seeds that must pass, runs that must repeat, and planted bugs that it must find.

use crate::{hunt, threads};
use sim::regions;
use sim::soak::SoakWorld;

#[test]
fn regions_that_were_cut_apart_lose_nothing_in_silence_and_end_in_agreement() {
    let summary = regions::campaign(1, 5, threads(), None);
    let told: Vec<_> = summary.violations.iter().map(|report| (report.seed, &report.violation)).collect();
    assert!(told.is_empty(), "{told:#?}");
    // The world must have been as bad as it claims to be.
    let counts = summary.counts;
    assert!(counts.acknowledged > 1_500 && counts.conflicts > 25, "{counts:?}");
    assert!(
        counts.crashes > 15 && counts.wipes > 2 && counts.splits > 5 && counts.full_disks > 2,
        "{counts:?}"
    );
}

#[test]
fn a_seed_of_regions_gives_the_same_run() {
    assert_eq!(regions::run(1, None).trace, regions::run(1, None).trace);
}

#[test]
fn bugs_planted_between_regions_are_found() {
    hunt(|world| matches!(world, SoakWorld::Regions));
}
