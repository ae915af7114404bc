//! `sim`: runs seeds of the simulated world and says what it found.
//! The last line is `violations: N`; the exit code is 1 unless N is zero. A seed that failed is replayed with
//! `--seed S`, and gives the same trace hash every time.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program speaks on its streams")]

use base::mutant::PlantedBug;
use sim::campaign::{self, CampaignPlan, Summary};
use sim::mesh_cluster;
use sim::mutants;
use sim::regions;
use sim::ring;
use sim::run::Report;
use sim::scenario::{self, Scenario};
use sim::soak::{self, SoakPlan};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
Runs the real member code in a seeded world of faulty networks, disks and clocks, and judges what happened.

Usage: sim [OPTIONS]

  --seeds N       how many seeds to run, in order from the first (default 200)
  --seed S        run seed S alone, twice, and show that both runs were the same
  --first S       the first seed of a campaign (default 1)
  --minutes M     stop starting new seeds after M minutes
  --threads T     worlds at a time (default: the number of cores)
  --locks         every world is about locks, not every fourth
  --auth          every world has auth on, and users with few permissions
  --mesh          worlds of the data plane instead; with --seed, --seeds, --first, --mutant, --mutants
  --world NAME    with --mesh: storm (default), late-writes, conditional-writes, counted-once, damaged-logs or answer-times
  --regions       worlds of two or three regions of the data plane; with the same
  --power-cuts    with --seed: the power goes at the point of upkeep that the seed chooses
  --mutant NAME   plant a bug; the run must find it
  --mutants       plant every bug in turn, and print which check found it after how many seeds
  --scenario NAME a world with a bias; the run must meet what it is about
  --scenarios     every such world in turn
  --soak          every world and every planted bug in turn, and one table; --seeds of each world (default 200),
                  --minutes for all worlds together
  --mutant-seeds N  with --soak: seeds in which a planted bug must show (default 2000); 0 plants none
  --help          this text

Examples:
  cargo run --release -p sim -- --seeds 2000
  cargo run --release -p sim -- --seed 76
  cargo run --release -p sim -- --mutants --seeds 2000
  cargo run --release -p sim -- --mesh --seeds 500
  cargo run --release -p sim -- --regions --seeds 300
";

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("sim: {complaint}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    // Assertions that fail are findings and are reported with their seed; where one of them is looked at, it may
    // say where it was.
    if options.seed.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    if options.soak {
        return soak(&options);
    }
    if options.mesh {
        let scenario = options.world;
        let flags = format!("--mesh --world {}", scenario.name);
        let hunts = options.mutants;
        let campaign = |first, seeds, threads, planted: Option<PlantedBug>| {
            let ground = planted.filter(|_| hunts).map(ring::scenario::hunting_ground);
            ring::campaign(ground.unwrap_or(scenario), first, seeds, threads, planted)
        };
        return mesh(&options, &flags, campaign, &mutants::FOUND_BY_RINGS);
    }
    if options.regions {
        return mesh(&options, "--regions", regions::campaign, &mutants::FOUND_BY_REGIONS);
    }
    if options.mutants {
        return hunt_all(&options);
    }
    if options.scenarios {
        return play_all(&options);
    }
    if let Some(seed) = options.seed {
        return replay(&options, seed);
    }
    campaign_of(&options)
}

struct Options {
    seeds: u64,
    seed: Option<u64>,
    first: u64,
    minutes: Option<f64>,
    threads: usize,
    mutant: Option<PlantedBug>,
    mutants: bool,
    scenario: &'static Scenario,
    scenarios: bool,
    mesh: bool,
    /// Of a ring.
    world: &'static ring::scenario::Scenario,
    regions: bool,
    soak: bool,
    power_cuts: bool,
    mutant_seeds: u64,
    help: bool,
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            seeds: 200,
            seed: None,
            first: 1,
            minutes: None,
            threads: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            mutant: None,
            mutants: false,
            scenario: &scenario::STORM,
            scenarios: false,
            mesh: false,
            world: &ring::scenario::STORM,
            regions: false,
            soak: false,
            power_cuts: false,
            mutant_seeds: 2_000,
            help: false,
        };
        let mut seeds_given = false;
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--seeds" => {
                    options.seeds = number(&arg, &value()?)?;
                    seeds_given = true;
                }
                "--seed" => options.seed = Some(number(&arg, &value()?)?),
                "--first" => options.first = number(&arg, &value()?)?,
                "--minutes" => options.minutes = Some(number(&arg, &value()?)?),
                "--threads" => options.threads = number(&arg, &value()?)?,
                "--mutant" => options.mutant = Some(mutant(&value()?)?),
                "--mutants" => options.mutants = true,
                "--scenario" => options.scenario = named(&value()?)?,
                "--scenarios" => options.scenarios = true,
                "--mesh" => options.mesh = true,
                "--world" => options.world = ring_world(&value()?)?,
                "--regions" => options.regions = true,
                "--soak" => options.soak = true,
                "--power-cuts" => options.power_cuts = true,
                "--mutant-seeds" => options.mutant_seeds = number(&arg, &value()?)?,
                "--locks" => options.scenario = &scenario::LOCKS,
                "--auth" => options.scenario = &scenario::AUTH,
                "--help" | "-h" => options.help = true,
                _ => return Err(format!("there is no option {arg}")),
            }
        }
        if options.minutes.is_some() && !seeds_given {
            options.seeds = u64::MAX / 2;
        }
        if options.threads == 0 {
            return Err("--threads must be at least 1".into());
        }
        Ok(options)
    }

    fn plan(&self, planted: Option<PlantedBug>) -> CampaignPlan {
        CampaignPlan {
            first: self.first,
            seeds: self.seeds,
            until: self.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0)),
            threads: self.threads,
            planted,
            scenario: self.scenario,
            stop_at_first: planted.is_some(),
        }
    }
}

fn number<N: std::str::FromStr>(name: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{name} takes a number, not {text:?}"))
}

fn mutant(name: &str) -> Result<PlantedBug, String> {
    mutants::by_name(name).ok_or_else(|| {
        let names: Vec<_> = mutants::all().into_iter().map(PlantedBug::name).collect();
        format!("there is no mutant {name:?}; there are {}", names.join(", "))
    })
}

fn named(name: &str) -> Result<&'static Scenario, String> {
    scenario::by_name(name).ok_or_else(|| {
        let names: Vec<_> = scenario::ALL.iter().map(|scenario| scenario.name).collect();
        format!("there is no scenario {name:?}; there are {}", names.join(", "))
    })
}

fn ring_world(name: &str) -> Result<&'static ring::scenario::Scenario, String> {
    ring::scenario::by_name(name).ok_or_else(|| {
        let names: Vec<_> = ring::scenario::ALL.iter().map(|world| world.name).collect();
        format!("there is no world {name:?} of the data plane; there are {}", names.join(", "))
    })
}

/// Every scenario must be lawful and meet what it is about.
fn play_all(options: &Options) -> ExitCode {
    let mut failures = 0;
    println!("| scenario | about | met | violations |");
    println!("|---|---|---|---|");
    for scenario in &scenario::ALL {
        let plan = CampaignPlan { scenario, ..options.plan(options.mutant) };
        let summary = campaign::run(&plan, &|report| print_violation(scenario, report));
        let (met, violations) = (summary.met, summary.violations.len());
        println!("| `{}` | {} | {met} | {violations} |", scenario.name, scenario.about);
        failures += violations + usize::from(met == 0);
    }
    println!("violations: {failures}");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every world and every planted bug; what failed is printed as it happens, the table in the end.
fn soak(options: &Options) -> ExitCode {
    let plan = SoakPlan {
        first: options.first,
        seeds: options.seeds,
        mutant_seeds: (options.mutant_seeds > 0).then_some(options.mutant_seeds),
        time: options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
        threads: options.threads,
    };
    let report = soak::soak(&plan, &mut |line| eprintln!("{line}"));
    print!("{}", report.table);
    println!("violations: {}", report.failures);
    if report.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn campaign_of(options: &Options) -> ExitCode {
    let ended = AtomicU64::new(0);
    let summary = campaign::run(&options.plan(options.mutant), &|report| {
        if report.violation.is_some() {
            print_violation(options.scenario, report);
        }
        let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
        if ended.is_multiple_of(250) {
            eprintln!("{ended} seeds");
        }
    });
    print_summary(&summary, options.threads);
    println!("violations: {}", summary.violations.len());
    if summary.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(options: &Options, seed: u64) -> ExitCode {
    let (scenario, planted) = (options.scenario, options.mutant);
    let run = || {
        if options.power_cuts {
            soak::cut_power(seed, planted).0
        } else {
            sim::run::run_in(scenario, seed, planted)
        }
    };
    let (first, second) = (run(), run());
    println!("seed {seed}: trace {:016x}, and again {:016x}", first.trace, second.trace);
    println!("{:?}", first.counts);
    if first.violation.is_some() {
        print_violation(scenario, &first);
    }
    let differs = first.trace != second.trace;
    if differs {
        println!("the same seed gave two different runs");
    }
    let violations = u64::from(first.violation.is_some()) + u64::from(differs);
    println!("violations: {violations}");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every planted bug must be found within the given number of seeds.
fn hunt_all(options: &Options) -> ExitCode {
    let mut escaped = 0;
    println!("| mutant | found by | after seeds |");
    println!("|---|---|---|");
    for mutant in mutants::found_by_members() {
        let scenario = scenario::hunting_ground(mutant);
        let summary = campaign::run(&CampaignPlan { scenario, ..options.plan(Some(mutant)) }, &|_| {});
        match summary.violations.first() {
            Some(Report { seed, violation: Some(found), .. }) => {
                println!("| `{}` | {} | {} |", mutant.name(), found.checker.name(), seed - options.first + 1);
            }
            _ => {
                escaped += 1;
                println!("| `{}` | nothing | {} |", mutant.name(), summary.seeds);
            }
        }
    }
    println!("violations: {escaped}");
    if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// First seed, how many, threads, and what is planted.
trait Campaign: Fn(u64, u64, usize, Option<PlantedBug>) -> mesh_cluster::Summary {}

impl<C: Fn(u64, u64, usize, Option<PlantedBug>) -> mesh_cluster::Summary> Campaign for C {}

/// The worlds of the data plane.
fn mesh(options: &Options, flag: &str, campaign: impl Campaign, mutants: &[PlantedBug]) -> ExitCode {
    if options.mutants {
        return hunt_mesh(options, campaign, mutants);
    }
    let (first, seeds) = options.seed.map_or((options.first, options.seeds), |seed| (seed, 1));
    let summary = campaign(first, seeds, options.threads, options.mutant);
    for report in &summary.violations {
        println!("seed {}: {}", report.seed, report.violation.as_deref().unwrap_or_default());
        println!("replay with: cargo run --release -p sim -- {flag} --seed {}", report.seed);
    }
    println!("seeds: {}, {:?}", summary.seeds, summary.counts);
    println!("violations: {}", summary.violations.len());
    if summary.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn hunt_mesh(options: &Options, campaign: impl Campaign, mutants: &[PlantedBug]) -> ExitCode {
    let mut escaped = 0;
    println!("| mutant | found by | after seeds |");
    println!("|---|---|---|");
    for mutant in mutants {
        let summary = campaign(options.first, options.seeds, options.threads, Some(*mutant));
        let found = summary.violations.first().and_then(|report| report.violation.as_deref());
        let by = found.map_or("nothing", |text| text.split(':').next().unwrap_or(text));
        escaped += u64::from(found.is_none());
        println!("| `{}` | {by} | {} |", mutant.name(), summary.seeds);
    }
    println!("violations: {escaped}");
    if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_violation(scenario: &Scenario, report: &Report) {
    if let Some(found) = &report.violation {
        println!("seed {}: {}: {}", report.seed, found.checker.name(), found.what);
        let is_storm = std::ptr::eq(scenario, &scenario::STORM);
        let world = if is_storm { String::new() } else { format!("--scenario {} ", scenario.name) };
        println!("replay with: cargo run --release -p sim -- {world}--seed {}", report.seed);
    }
}

fn print_summary(summary: &Summary, threads: usize) {
    let counts = &summary.counts;
    let hours = summary.simulated_hours();
    let minutes = summary.elapsed.as_secs_f64() / 60.0;
    println!("seeds: {}", summary.seeds);
    println!(
        "simulated hours: {hours:.1} ({:.1} per core-minute, {} threads)",
        hours / minutes / threads as f64,
        threads
    );
    println!(
        "operations: {} (answered {}, refused {}, of unknown fate {})",
        counts.operations(),
        counts.answered,
        counts.refused,
        counts.unknown
    );
    println!(
        "locks acquired: {} (calls cancelled {}, stale writes refused {})",
        counts.acquired, counts.cancelled, counts.fenced
    );
    println!(
        "faults: {} (processes ended {}, disk trouble {})",
        counts.faults, counts.deaths, counts.disk_errors
    );
    println!(
        "elections: {}, snapshots installed: {}, tails cut: {}, flushes: {}, messages: {}, watch responses: {}",
        counts.elections, counts.snapshots, counts.tails_cut, counts.flushes, counts.messages, counts.watched
    );
    println!("requests sent again: {}, leases expired: {}", counts.retries, counts.expired);
}
