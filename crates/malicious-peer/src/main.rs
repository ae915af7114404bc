//! `malicious-peer --althing PATH [--minutes N] [--frames M] [--seed S]`: one run against four members of that binary.
//! The exit code is 1 when a member ended or something acknowledged is gone, and 2 for a mistake of the caller.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program speaks on its streams")]

use malicious_peer::{AttackCounts, Limit, Trouble};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
Usage: malicious-peer --althing PATH [--minutes N] [--frames M] [--seed S]

Starts members of that binary, lies to them on their peer ports until N minutes are over or M frames were sent, and looks
that none ends, that they serve again, and that nothing is gone that was acknowledged. Data lies in $TMPDIR.
";
const TELL_EVERY: Duration = Duration::from_secs(10);

struct Plan {
    althing: PathBuf,
    limit: Limit,
    seed: u64,
}

fn main() -> ExitCode {
    let plan = match plan(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(problem) => {
            eprint!("malicious-peer: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut told = began;
    let tell = |counts: &AttackCounts| {
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            eprintln!("{:.0} s: {counts:?}", began.elapsed().as_secs_f64());
        }
    };
    match malicious_peer::run(&plan.althing, plan.seed, plan.limit, tell) {
        Ok(report) => {
            println!(
                "{:.0} s, seed {}: {report:?}; no member ended",
                began.elapsed().as_secs_f64(),
                plan.seed
            );
            ExitCode::SUCCESS
        }
        Err(Trouble(trouble)) => {
            println!("seed {}: {trouble}", plan.seed);
            ExitCode::FAILURE
        }
    }
}

fn plan(mut words: impl Iterator<Item = String>) -> Result<Plan, String> {
    let (mut althing, mut minutes, mut frames, mut seed) = (None, 30.0, u64::MAX, 1);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let wrong = || format!("{flag} {value}: not a number");
        let number = || value.replace('_', "").parse::<u64>().map_err(|_| wrong());
        match flag.as_str() {
            "--althing" => althing = Some(PathBuf::from(&value)),
            "--minutes" => minutes = value.parse::<f64>().ok().filter(|n| *n > 0.0).ok_or_else(wrong)?,
            "--frames" => frames = number()?,
            "--seed" => seed = number()?,
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    let althing = althing.ok_or("--althing must name Althing's binary")?;
    Ok(Plan { althing, limit: Limit { frames, time: Duration::from_secs_f64(minutes * 60.0) }, seed })
}
