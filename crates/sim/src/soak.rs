//! Every world and every planted bug in one run: what `cargo xtask soak` and the tests draw from.
//! A world gives one verdict a seed; a hunt is a planted bug and the world that must find it. The hunts and the tests of single crates
//! cover every planted bug, which a test of this file holds.

use crate::crash_points::Point;
use crate::{mutants, regions, ring, run, scenario};
use base::mutant::PlantedBug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A kind of world that a seed can be run in.
#[derive(Clone, Copy, Debug)]
pub enum SoakWorld {
    /// Members of the coordination store.
    Members(&'static scenario::Scenario),
    /// Members whose power goes at one point of a compaction, a snapshot or a change.
    PowerCuts,
    /// Nodes of the data plane in one region.
    Ring(&'static ring::scenario::Scenario),
    /// Nodes of the data plane in several regions.
    Regions,
}

impl SoakWorld {
    pub fn all() -> Vec<SoakWorld> {
        let members = scenario::all().into_iter().map(SoakWorld::Members);
        let rings = ring::scenario::ALL.into_iter().map(SoakWorld::Ring);
        members.chain([SoakWorld::PowerCuts]).chain(rings).chain([SoakWorld::Regions]).collect()
    }

    pub fn name(self) -> String {
        match self {
            SoakWorld::Members(scenario) => scenario.name.to_owned(),
            SoakWorld::PowerCuts => "power-cuts".to_owned(),
            SoakWorld::Ring(scenario) => format!("mesh {}", scenario.name),
            SoakWorld::Regions => "regions".to_owned(),
        }
    }

    /// What chooses this world on the simulator's command line.
    pub fn flags(self) -> String {
        match self {
            SoakWorld::Members(scenario) => format!("--scenario {}", scenario.name),
            SoakWorld::PowerCuts => "--power-cuts".to_owned(),
            SoakWorld::Ring(scenario) => format!("--mesh --world {}", scenario.name),
            SoakWorld::Regions => "--regions".to_owned(),
        }
    }

    /// The verdict on one seed: the name of the checker and what it saw.
    fn judge(self, seed: u64, planted: Option<PlantedBug>) -> Option<String> {
        match self {
            SoakWorld::Members(scenario) => told(run::run_in(scenario, seed, planted)),
            SoakWorld::PowerCuts => told(cut_power(seed, planted).0),
            SoakWorld::Ring(scenario) => ring::run(scenario, seed, planted).violation,
            SoakWorld::Regions => regions::run(seed, planted).violation,
        }
    }
}

fn told(report: run::Report) -> Option<String> {
    report.violation.map(|found| format!("{}: {}", found.checker.name(), found.what))
}

/// One seed in which the power goes at a point that follows from the seed, every time or every few times that a host is there. Also tells
/// how often it went.
pub fn cut_power(seed: u64, planted: Option<PlantedBug>) -> (run::Report, u64) {
    let points = Point::ALL.len() as u64;
    let (point, every) = (Point::ALL[(seed % points) as usize], 1 + seed / points % 5);
    run::run_to(&scenario::UPKEEP, seed, planted, Some((point, every)))
}

/// A planted bug, and the world that must find it.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    pub mutant: PlantedBug,
    pub world: SoakWorld,
}

/// Bugs that show after so many seeds, or in such slow worlds, that only a soak looks for them.
const FOUND_LATE: [(PlantedBug, &str); 26] = [
    (raft::Mutant::VoteForgotten.bug(), "votes"),
    (raft::Mutant::ResponseBeforePersist.bug(), "storm"),
    (raft::Mutant::ReadWithoutQuorum.bug(), "storm"),
    (node::Mutant::ReadContextReused.bug(), "storm"),
    (disk::Mutant::TornTailAccepted.bug(), "storm"),
    (coord::Mutant::RevokeWithoutGuard.bug(), "storm"),
    (node::Mutant::KeepAliveUnverified.bug(), "storm"),
    (coord::Mutant::UnknownSessionServed.bug(), "storm"),
    (node::Mutant::RevokeProposedOnce.bug(), "c20-elections-within-a-lease"),
    (node::Mutant::ReplacementNotFinished.bug(), "storm"),
    (node::Mutant::StartsCountedFromOne.bug(), "lost-disks"),
    (raft::Mutant::DoubtNotKept.bug(), "lost-disks"),
    (disk::Mutant::MissingSegmentAccepted.bug(), "damaged-logs"),
    (raft::Mutant::VotesInDoubt.bug(), "damaged-logs"),
    (node::Mutant::SweptBeforeIndexed.bug(), "storm"),
    (node::Mutant::OverlaySurvivesInstall.bug(), "storm"),
    (raft::Mutant::LeadsBeforeItsVote.bug(), "one-becomes-several"),
    (raft::Mutant::StandsOnOldConfig.bug(), "changes"),
    (engine::Mutant::FlushOverstated.bug(), "mesh storm"),
    (engine::Mutant::TornEndTrusted.bug(), "mesh damaged-logs"),
    (mesh::Mutant::LoserNotKept.bug(), "regions"),
    (mesh::Mutant::HomePromiseForgotten.bug(), "regions"),
    (mesh::Mutant::HomeUnconfirmed.bug(), "regions"),
    (mesh_node::Mutant::HomeHeldFromArrival.bug(), "regions"),
    (mesh::Mutant::DocumentsNotExchanged.bug(), "regions"),
    (mesh::Mutant::EvictedWaitedFor.bug(), "regions"),
];

impl Hunt {
    /// Every bug that worlds must find, in every world that must find it.
    pub fn all() -> Vec<Hunt> {
        let members = mutants::found_by_members()
            .into_iter()
            .map(|mutant| Hunt { mutant, world: SoakWorld::Members(scenario::hunting_ground(mutant)) });
        let rings = mutants::FOUND_BY_RINGS
            .into_iter()
            .map(|mutant| Hunt { mutant, world: SoakWorld::Ring(ring::scenario::hunting_ground(mutant)) });
        let regions = mutants::FOUND_BY_REGIONS.into_iter();
        let regions = regions.map(|mutant| Hunt { mutant, world: SoakWorld::Regions });
        members.chain(rings).chain(regions).collect()
    }

    /// The hunts that are short enough for every test run.
    pub fn quick() -> Vec<Hunt> {
        Hunt::all().into_iter().filter(|hunt| !hunt.is_late()).collect()
    }

    fn is_late(&self) -> bool {
        FOUND_LATE.iter().any(|(mutant, world)| *mutant == self.mutant && *world == self.world.name())
    }
}

/// Which seeds to run, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct SeedRange {
    pub first: u64,
    pub seeds: u64,
    pub threads: usize,
    /// No seed begins later.
    pub until: Option<Instant>,
}

/// What a range of seeds showed.
#[derive(Debug)]
pub struct SoakResult {
    pub seeds: u64,
    pub elapsed: Duration,
    /// In the order of their seeds.
    pub violations: Vec<(u64, String)>,
}

impl SoakResult {
    /// The name of the checker that found the first violation.
    pub fn checker(&self) -> Option<&str> {
        self.violations.first().map(|(_, what)| what.split(':').next().unwrap_or(what))
    }
}

/// Runs seeds of a world in order. With a bug planted it ends with the first that shows it.
pub fn run_seeds(world: SoakWorld, range: SeedRange, planted: Option<PlantedBug>) -> SoakResult {
    let started = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let done: Mutex<(u64, Vec<(u64, String)>)> = Mutex::default();
    let is_over = || stop.load(Ordering::Relaxed) || range.until.is_some_and(|until| Instant::now() >= until);
    let work = || {
        while !is_over() {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= range.seeds {
                break;
            }
            let seed = range.first + nth;
            let violation = world.judge(seed, planted);
            let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            done.0 += 1;
            stop.fetch_or(planted.is_some() && violation.is_some(), Ordering::Relaxed);
            done.1.extend(violation.map(|what| (seed, what)));
        }
    };
    thread::scope(|scope| (0..range.threads).for_each(|_| drop(scope.spawn(work))));
    let (seeds, mut violations) = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    violations.sort();
    SoakResult { seeds, elapsed: started.elapsed(), violations }
}

/// How much a soak runs.
#[derive(Clone, Copy, Debug)]
pub struct SoakPlan {
    pub first: u64,
    /// Of each world.
    pub seeds: u64,
    /// Of each planted bug, at most. None: only worlds are run.
    pub mutant_seeds: Option<u64>,
    /// For all worlds together, in equal shares; then as many seeds as fit. Hunts end by their seeds alone.
    pub time: Option<Duration>,
    pub threads: usize,
}

/// What a soak showed: one table, and how many seeds and hunts failed.
#[derive(Debug, Default)]
pub struct SoakReport {
    pub table: String,
    pub failures: u64,
}

/// Runs every world and every hunt, and reports each as soon as it ends.
pub fn soak(plan: &SoakPlan, progress: &mut dyn FnMut(&str)) -> SoakReport {
    let mut report = SoakReport::default();
    report.line("| world | planted | seeds | seconds | result |");
    report.line("|---|---|---|---|---|");
    let started = Instant::now();
    let worlds = SoakWorld::all();
    for (nth, world) in worlds.iter().enumerate() {
        let share = plan.time.map(|time| time * (nth as u32 + 1) / worlds.len() as u32);
        let range = plan.range(plan.seeds, share.map(|share| started + share));
        report.world(*world, &run_seeds(*world, range, None), progress);
    }
    let hunts = if plan.mutant_seeds.is_some() { Hunt::all() } else { Vec::new() };
    for hunt in hunts {
        let range = plan.range(plan.mutant_seeds.unwrap_or_default(), None);
        report.hunt(&hunt, &run_seeds(hunt.world, range, Some(hunt.mutant)), progress);
    }
    report
}

impl SoakPlan {
    fn range(&self, seeds: u64, until: Option<Instant>) -> SeedRange {
        SeedRange { first: self.first, seeds, threads: self.threads, until }
    }
}

impl SoakReport {
    fn world(&mut self, world: SoakWorld, result: &SoakResult, progress: &mut dyn FnMut(&str)) {
        for (seed, what) in &result.violations {
            progress(&format!("seed {seed}: {what}"));
            progress(&format!("replay with: cargo run --release -p sim -- {} --seed {seed}", world.flags()));
        }
        self.failures += result.violations.len() as u64 + u64::from(result.seeds == 0);
        let seeds = result.violations.iter().map(|(seed, _)| seed.to_string()).collect::<Vec<_>>();
        let verdict = match seeds.len() {
            _ if result.seeds == 0 => "not run".to_owned(),
            0 => "lawful".to_owned(),
            count => format!("{count} violations: {}", seeds.join(", ")),
        };
        self.row(&world.name(), "", result, &verdict, progress);
    }

    fn hunt(&mut self, hunt: &Hunt, result: &SoakResult, progress: &mut dyn FnMut(&str)) {
        self.failures += u64::from(result.violations.is_empty());
        let verdict =
            result.checker().map_or("not found".to_owned(), |checker| format!("found by {checker}"));
        self.row(&hunt.world.name(), hunt.mutant.name(), result, &verdict, progress);
    }

    fn row(
        &mut self,
        world: &str,
        planted: &str,
        result: &SoakResult,
        verdict: &str,
        progress: &mut dyn FnMut(&str),
    ) {
        let seconds = result.elapsed.as_secs_f64();
        let row = format!("| {world} | {planted} | {} | {seconds:.1} | {verdict} |", result.seeds);
        progress(&row);
        self.line(&row);
    }

    fn line(&mut self, text: &str) {
        self.table.push_str(text);
        self.table.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunts_that_only_a_soak_makes_exist() {
        for (mutant, world) in FOUND_LATE {
            let is_it = |hunt: &Hunt| hunt.mutant == mutant && hunt.world.name() == world;
            assert!(Hunt::all().iter().any(is_it), "{} is not hunted in {world}", mutant.name());
        }
    }

    #[test]
    fn worlds_have_names_of_their_own() {
        let mut names: Vec<String> = SoakWorld::all().into_iter().map(SoakWorld::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }

    #[test]
    fn a_soak_reports_every_world_and_counts_what_failed() {
        let plan = SoakPlan { first: 1, seeds: 0, mutant_seeds: None, time: None, threads: 1 };
        let mut lines = 0;
        let report = soak(&plan, &mut |_| lines += 1);
        assert_eq!((lines, report.failures), (SoakWorld::all().len(), SoakWorld::all().len() as u64));
        assert!(report.table.lines().skip(2).all(|line| line.ends_with("| not run |")), "{}", report.table);
    }
}
