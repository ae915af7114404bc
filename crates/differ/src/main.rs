//! `differ --etcd PATH --althing PATH --ops N [--seed S] [--workers N]`: rounds of random requests to etcd and to
//! Althing until both have got so many operations, or one was answered differently.
//! Progress goes to standard error; the exit code is 1 for a difference and 2 for a mistake of the caller.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program speaks on its streams")]

use differ::server::Server;
use differ::{Difference, round};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const USAGE: &str = "\
Usage: differ --etcd PATH --althing PATH [--ops N] [--seed S] [--workers N]

Asks an etcd and an Althing the same random things, in rounds of 10000 operations, each on fresh servers and with
a seed of its own: S, S+1, ... Stops at the first difference, and prints the request, both answers and the seed.
L rounds run side by side. Data directories lie in $TMPDIR; one in memory makes it faster.
";

/// Small, so that a difference is reproduced quickly.
const OPS_PER_ROUND: u64 = 10_000;

struct Plan {
    etcd: PathBuf,
    althing: PathBuf,
    ops: u64,
    seed: u64,
    workers: u64,
}

enum DifferError {
    Differs(Box<Difference>),
    NotStarted(std::io::Error),
}

fn main() -> ExitCode {
    let plan = match plan(std::env::args().skip(1)) {
        Ok(plan) => Arc::new(plan),
        Err(problem) => {
            eprint!("differ: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let start = Instant::now();
    let done = Arc::new(AtomicU64::new(0));
    match runtime.block_on(run(plan, done.clone())) {
        Ok(()) => {
            println!(
                "{} operations, no difference, {:.0} s",
                done.load(Ordering::Relaxed),
                start.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(DifferError::Differs(difference)) => {
            println!("{difference}\nagain: --seed {} --ops {OPS_PER_ROUND}", difference.seed);
            ExitCode::FAILURE
        }
        Err(DifferError::NotStarted(error)) => {
            eprintln!("differ: a server cannot be started: {error}");
            ExitCode::from(2)
        }
    }
}

fn plan(mut words: impl Iterator<Item = String>) -> Result<Plan, String> {
    let (mut etcd, mut althing, mut ops, mut seed, mut workers) = (None, None, OPS_PER_ROUND, 0, 4);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.replace('_', "").parse().map_err(|_| format!("{flag} {value}: not a number"));
        match flag.as_str() {
            "--etcd" => etcd = Some(PathBuf::from(value)),
            "--althing" => althing = Some(PathBuf::from(value)),
            "--ops" => ops = number()?,
            "--seed" => seed = number()?,
            "--workers" => workers = number()?.max(1),
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    let etcd = etcd.ok_or("--etcd must name etcd's binary")?;
    let althing = althing.ok_or("--althing must name Althing's binary")?;
    Ok(Plan { etcd, althing, ops, seed, workers })
}

async fn run(plan: Arc<Plan>, done: Arc<AtomicU64>) -> Result<(), DifferError> {
    let rounds = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..plan.workers {
        tasks.spawn(worker(plan.clone(), rounds.clone(), done.clone()));
    }
    let report = tokio::spawn(progress(done, plan.ops));
    while let Some(worker) = tasks.join_next().await {
        // The other workers are dropped with the set, and their servers with them.
        worker.expect("a worker does not panic")?;
    }
    report.abort();
    Ok(())
}

/// Rounds, one after the other, while there are some left.
async fn worker(plan: Arc<Plan>, rounds: Arc<AtomicU64>, done: Arc<AtomicU64>) -> Result<(), DifferError> {
    loop {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        let ops = plan.ops.saturating_sub(round * OPS_PER_ROUND).min(OPS_PER_ROUND);
        if ops == 0 {
            return Ok(());
        }
        let theirs = Server::etcd(&plan.etcd).map_err(DifferError::NotStarted)?;
        let ours = Server::althing(&plan.althing).map_err(DifferError::NotStarted)?;
        round::run(&theirs.endpoint, &ours.endpoint, plan.seed + round, ops, &done)
            .await
            .map_err(DifferError::Differs)?;
    }
}

async fn progress(done: Arc<AtomicU64>, ops: u64) {
    let mut before = 0;
    let mut beat = tokio::time::interval(Duration::from_secs(5));
    loop {
        beat.tick().await;
        let now = done.load(Ordering::Relaxed);
        eprintln!("{now} of {ops} operations, {} a second", (now - before) / 5);
        before = now;
    }
}
