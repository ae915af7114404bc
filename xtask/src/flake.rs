//! Runs the tests of the workspace many times, every other time beside busy loops, and lists the tests that failed.
//! A test that fails in one run of many depends on chance, load or time, and is fixed, not run again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub const HELP: &str = "
  flake [--runs N] [--busy LOOPS] [--package CRATE] [--filter NAME]
             the tests of the workspace, or of one crate, N times (10), every other time beside LOOPS busy loops (4), only
             those whose name contains NAME if one is given; lists each that failed, how often, and where its output lies
";

struct FlakeOptions {
    runs: usize,
    busy: usize,
    package: Option<String>,
    filter: Option<String>,
}

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    let options = match parse(&arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("flake: {problem}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let logs = root.join("target/flake");
    if let Err(error) = std::fs::create_dir_all(&logs) {
        eprintln!("flake: {}: {error}", logs.display());
        return ExitCode::FAILURE;
    }
    if !tests(root, &options).arg("--no-run").status().is_ok_and(|status| status.success()) {
        eprintln!("flake: the tests do not build");
        return ExitCode::FAILURE;
    }
    let mut failures = BTreeMap::<String, Vec<usize>>::new();
    for nth in 1..=options.runs {
        let failed = match run_once(root, &options, nth, &logs) {
            Ok(failed) => failed,
            Err(error) => {
                eprintln!("flake: run {nth}: {error}");
                return ExitCode::FAILURE;
            }
        };
        failed.into_iter().for_each(|name| failures.entry(name).or_default().push(nth));
    }
    report(&failures, options.runs, &logs)
}

fn parse(arguments: &[String]) -> Result<FlakeOptions, String> {
    let mut options = FlakeOptions { runs: 10, busy: 4, package: None, filter: None };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<usize>().map_err(|_| format!("{name} takes a number, not {value}"));
        match name.as_str() {
            "--runs" => options.runs = number()?,
            "--busy" => options.busy = number()?,
            "--package" => options.package = Some(value.clone()),
            "--filter" => options.filter = Some(value.clone()),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

fn tests(root: &Path, options: &FlakeOptions) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["test", "--no-fail-fast"]);
    match &options.package {
        Some(package) => command.args(["--package", package]),
        None => command.arg("--workspace"),
    };
    command.args(&options.filter);
    command
}

/// Runs all tests and returns the names of those that failed.
fn run_once(
    root: &Path,
    options: &FlakeOptions,
    nth: usize,
    logs: &Path,
) -> Result<Vec<String>, std::io::Error> {
    let path = log_of(logs, nth);
    let log = File::create(&path)?;
    let loops = if nth.is_multiple_of(2) { options.busy } else { 0 };
    let began = Instant::now();
    let busy = BusyLoops::start(loops);
    let mut command = tests(root, options);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let status = command.status()?;
    drop(busy);
    let text = std::fs::read_to_string(&path)?;
    let mut failed = failed_tests(&text);
    if !status.success() && failed.is_empty() {
        failed.push("(a test binary ended without naming a test)".to_owned());
    }
    let seconds = began.elapsed().as_secs();
    println!("run {nth} of {}: {} failed, {loops} busy loops, {seconds} s", options.runs, failed.len());
    Ok(failed)
}

/// The names in lines of the form `test NAME ... FAILED`.
fn failed_tests(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix("FAILED")?.split(" ... ").next()?;
        Some(name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

fn log_of(logs: &Path, nth: usize) -> PathBuf {
    logs.join(format!("run-{nth}.log"))
}

fn report(failures: &BTreeMap<String, Vec<usize>>, runs: usize, logs: &Path) -> ExitCode {
    for (name, nths) in failures {
        println!("{name}: failed in {} of {runs} runs", nths.len());
        nths.iter().for_each(|nth| println!("    {}", log_of(logs, *nth).display()));
    }
    println!("{} tests failed in {runs} runs", failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Threads that use a core each until they are dropped.
struct BusyLoops(Arc<AtomicBool>);

impl BusyLoops {
    fn start(count: usize) -> BusyLoops {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..count {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        BusyLoops(stop)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_read_from_the_output_of_a_run() {
        let text = "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest d - should panic ... FAILED\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(failed_tests(text), ["a::c", "d - should panic"]);
    }

    #[test]
    fn options_are_checked() {
        let parsed = |text: &str| parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parsed("--runs 3 --busy 2").map(|options| (options.runs, options.busy)), Ok((3, 2)));
        assert!(parsed("--runs three").is_err());
        assert!(parsed("--runs").is_err());
        assert!(parsed("--often 3").is_err());
    }
}
