//! Many seeds of a world of the mesh, handed out in order to all cores.

use super::{MeshCounts, Report};
use base::mutant::PlantedBug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

pub struct Summary {
    pub seeds: u64,
    pub counts: MeshCounts,
    /// In the order of their seeds.
    pub violations: Vec<Report>,
}

/// With a bug planted it ends when that is found.
pub(crate) fn campaign_of(
    run: impl Fn(u64, Option<PlantedBug>) -> Report + Sync,
    first: u64,
    seeds: u64,
    threads: usize,
    planted: Option<PlantedBug>,
) -> Summary {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let done: Mutex<Summary> =
        Mutex::new(Summary { seeds: 0, counts: MeshCounts::default(), violations: Vec::new() });
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= seeds {
                        break;
                    }
                    let report = run(first + nth, planted);
                    let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    done.seeds += 1;
                    done.counts.add(&report.counts);
                    if report.violation.is_some() {
                        stop.fetch_or(planted.is_some(), Ordering::Relaxed);
                        done.violations.push(report);
                    }
                }
            });
        }
    });
    let mut summary = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    summary.violations.sort_by_key(|report| report.seed);
    summary
}
