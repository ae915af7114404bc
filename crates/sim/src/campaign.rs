//! Many seeds, on all cores, until a count or a time is reached.
//! Seeds are handed out in order, so a campaign of N seeds always covers the same ones.

use crate::counts::WorldCounts;
use crate::run::{self, Report};
use crate::scenario::Scenario;
use base::mutant::PlantedBug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct CampaignPlan {
    pub first: u64,
    pub seeds: u64,
    pub until: Option<Instant>,
    pub threads: usize,
    pub planted: Option<PlantedBug>,
    pub scenario: &'static Scenario,
    /// A campaign for a planted bug ends when it is found.
    pub stop_at_first: bool,
}

pub struct Summary {
    pub seeds: u64,
    pub counts: WorldCounts,
    /// How often that happened which the scenario is about.
    pub met: u64,
    pub elapsed: Duration,
    /// In the order of their seeds.
    pub violations: Vec<Report>,
}

impl Summary {
    pub fn simulated_hours(&self) -> f64 {
        self.seeds as f64 * run::SEED_US as f64 / 3.6e9
    }
}

/// Runs the plan; `progress` is told of every seed that ends.
pub fn run(plan: &CampaignPlan, progress: &(dyn Fn(&Report) + Sync)) -> Summary {
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<(u64, WorldCounts, u64, Vec<Report>)> = Mutex::default();
    let out_of_time = || plan.until.is_some_and(|until| Instant::now() >= until);
    thread::scope(|scope| {
        for _ in 0..plan.threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && !out_of_time() {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= plan.seeds {
                        break;
                    }
                    let report = run::run_in(plan.scenario, plan.first + nth, plan.planted);
                    progress(&report);
                    let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    done.0 += 1;
                    done.1.add(&report.counts);
                    done.2 += report.met;
                    if report.violation.is_some() {
                        stop.fetch_or(plan.stop_at_first, Ordering::Relaxed);
                        done.3.push(report);
                    }
                }
            });
        }
    });
    let (seeds, counts, met, mut violations) =
        done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    violations.sort_by_key(|report| report.seed);
    Summary { seeds, counts, met, elapsed: started.elapsed(), violations }
}
