//! The world of regions: seeds that must pass, runs that must repeat, and planted bugs that it must find.

use base::mutant::Mutant;
use sim::regions;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

#[test]
fn regions_that_were_cut_apart_lose_nothing_in_silence_and_end_in_agreement() {
    let summary = regions::campaign(1, 8, threads(), None);
    let told: Vec<_> = summary.violations.iter().map(|report| (report.seed, &report.violation)).collect();
    assert!(told.is_empty(), "{told:#?}");
    // The world must have been as bad as it claims to be.
    let counts = summary.counts;
    assert!(counts.acknowledged > 3_000 && counts.conflicts > 50, "{counts:?}");
    assert!(
        counts.crashes > 30 && counts.wipes > 4 && counts.splits > 10 && counts.full_disks > 4,
        "{counts:?}"
    );
}

#[test]
fn a_seed_of_regions_gives_the_same_run() {
    assert_eq!(regions::run(1, None).trace, regions::run(1, None).trace);
}

/// Those that show within a few seeds; `sim --regions --mutants` hunts all.
#[test]
fn bugs_planted_between_regions_are_found() {
    for mutant in [
        Mutant::RegionsNotCompared,
        Mutant::DeltasAddedUp,
        Mutant::LogCutInSilence,
        Mutant::LoserNotKept,
        Mutant::FullAcknowledged,
        Mutant::DocumentsNotExchanged,
    ] {
        let summary = regions::campaign(1, 60, threads(), Some(mutant));
        assert!(!summary.violations.is_empty(), "{} was not found in {}", mutant.name(), summary.seeds);
    }
}
