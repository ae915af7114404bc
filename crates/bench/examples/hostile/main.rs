//! Honest clients beside hostile ones: a member, many connections of which half are hostile, and how long the honest ones
//! wait without and with them. The hostile send heads and bodies a byte at a time, are idle, flood with pings and
//! settings, open requests that never become complete, ask for large answers and do not read them, guess tokens and passwords,
//! begin handshakes and questions of peers, and reconnect when they are cut. It fails if honest clients wait too long or the member grows too large.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command: its report is what was asked for")]

mod attack;
mod honest;
mod target;
mod wire;

use attack::Attacker;
use honest::Report;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use target::{PEM, Security, TestMember};
use wire::Dialler;

/// Threads of each side.
const HONEST_THREADS: usize = 4;
const HOSTILE_THREADS: usize = 4;
const HONEST_ADDRESS: [u8; 4] = [127, 0, 0, 1];
const HOSTILE_ADDRESS: [u8; 4] = [127, 0, 0, 2];
const HONEST_PATIENCE: Duration = Duration::from_secs(30);
const HOSTILE_PATIENCE: Duration = Duration::from_secs(5);
/// By how much the 99th percentile of honest requests may grow.
const GROWTH_MAX: f64 = 2.0;

struct HostileOptions {
    connections: usize,
    seconds: u64,
    althing: PathBuf,
    security: Security,
    /// The most memory that the member may have.
    ceiling_mib: u64,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1).collect()).and_then(|options| measure(&options)) {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            faults.iter().for_each(|fault| eprintln!("hostile: {fault}"));
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("hostile: {problem}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: Vec<String>) -> Result<HostileOptions, String> {
    let security = Security { tls: false, auth: false };
    let mut options = HostileOptions {
        connections: 2_000,
        seconds: 20,
        althing: PathBuf::new(),
        security,
        ceiling_mib: 1_024,
    };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<usize>().map_err(|_| format!("{name} takes a number, not {value}"));
        let choice = || match value.as_str() {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(format!("{name} takes yes or no, not {value}")),
        };
        match name.as_str() {
            "--connections" => options.connections = number()?.max(16),
            "--seconds" => options.seconds = number()?.max(1) as u64,
            "--ceiling-mib" => options.ceiling_mib = number()? as u64,
            "--tls" => options.security.tls = choice()?,
            "--auth" => options.security.auth = choice()?,
            "--althing" => options.althing = value.into(),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    if options.althing.is_file() { Ok(options) } else { Err("give --althing PATH, a program".to_owned()) }
}

/// What was not as it must be.
fn measure(options: &HostileOptions) -> Result<Vec<String>, String> {
    raise_file_limit(options.connections)?;
    let authority = options.security.tls.then(|| Path::new(PEM).join("ca.pem"));
    let honest = Dialler::new(HONEST_ADDRESS, HONEST_PATIENCE, authority.as_deref())?;
    let hostile = Dialler::new(HOSTILE_ADDRESS, HOSTILE_PATIENCE, authority.as_deref())?;
    let member = TestMember::start(&options.althing, options.security, &honest)?;
    let half = options.connections / 2;
    let without = honest_for(options, &member, &honest, half)?;
    println!("without: {without}, {} MiB", member.memory_mib("VmRSS:"));

    let stop = Arc::new(AtomicBool::new(false));
    let cut = Arc::new(AtomicUsize::new(0));
    let attackers: Vec<_> = (0..HOSTILE_THREADS)
        .map(|nth| {
            let (target, dialler) = (member.target.clone(), hostile.clone());
            let attacker = Attacker { target, dialler, connections: half / HOSTILE_THREADS, nth };
            let (stop, cut) = (stop.clone(), cut.clone());
            std::thread::spawn(move || attacker.run(&stop, &cut))
        })
        .collect();
    let with = honest_for(options, &member, &honest, half);
    stop.store(true, Ordering::Relaxed);
    let mut opened = 0;
    for attacker in attackers {
        opened += attacker.join().map_err(|_| "an attacker panicked")?;
    }
    let (with, most_mib) = (with?, member.memory_mib("VmHWM:"));
    println!(
        "with {half} hostile: {with}, {} MiB, {most_mib} MiB at most; {opened} hostile connections were opened, and {} cut",
        member.memory_mib("VmRSS:"),
        cut.load(Ordering::Relaxed)
    );
    if opened < half / HOSTILE_THREADS * HOSTILE_THREADS {
        return Err(format!("of {half} hostile connections {opened} could be opened"));
    }
    let faults = faults_of(&without, &with, most_mib, options.ceiling_mib);
    println!("p99 {:.2} times", growth(&without, &with));
    Ok(faults)
}

fn growth(without: &Report, with: &Report) -> f64 {
    with.quantile(99.0).as_secs_f64() / without.quantile(99.0).as_secs_f64().max(1e-9)
}

fn faults_of(without: &Report, with: &Report, most_mib: u64, ceiling_mib: u64) -> Vec<String> {
    let (growth, mut faults) = (growth(without, with), Vec::new());
    if with.is_empty() || growth > GROWTH_MAX {
        faults.push(format!(
            "the 99th percentile of honest requests is {growth:.2} times, at most {GROWTH_MAX}"
        ));
    }
    if most_mib > ceiling_mib || most_mib == 0 {
        faults.push(format!("the member had {most_mib} MiB, at most {ceiling_mib}"));
    }
    faults
}

/// This process and the member, which inherits it, need a descriptor for each connection.
fn raise_file_limit(connections: usize) -> Result<(), String> {
    let most = getrlimit(Resource::Nofile).maximum;
    if most.is_some_and(|most| most < connections as u64 + 1_024) {
        return Err(format!(
            "{connections} connections need more than the hard limit on open files, {most:?}"
        ));
    }
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).map_err(|error| error.to_string())
}

/// Honest requests for the time of one measurement, spread over so many connections.
fn honest_for(
    options: &HostileOptions,
    member: &TestMember,
    dialler: &Dialler,
    connections: usize,
) -> Result<Report, String> {
    let time = Duration::from_secs(options.seconds);
    let threads: Vec<_> = (0..HONEST_THREADS)
        .map(|nth| {
            let (target, dialler) = (member.target.clone(), dialler.clone());
            let each = connections / HONEST_THREADS;
            std::thread::spawn(move || honest::run(&dialler, &target, nth % 2 == 1, each, time))
        })
        .collect();
    let mut report = Report::default();
    for thread in threads {
        report.add(thread.join().map_err(|_| "an honest client panicked")?);
    }
    report.sort();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_doubles_passes_and_more_of_it_or_of_memory_does_not() {
        let report = |millis| Report::of_times(vec![Duration::from_millis(millis)]);
        assert_eq!(faults_of(&report(1), &report(2), 100, 100), Vec::<String>::new());
        assert_eq!(faults_of(&report(1), &report(3), 100, 100).len(), 1);
        assert_eq!(faults_of(&report(1), &report(2), 101, 100).len(), 1);
        assert_eq!(faults_of(&report(1), &Report::default(), 0, 100).len(), 2, "nothing was measured");
    }
}
