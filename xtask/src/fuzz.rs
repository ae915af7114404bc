//! `cargo xtask fuzz`: builds the fuzzer with coverage and runs its targets, each for its share of the time.
//! Works with stable Rust: the instrumentation is a pass of the compiler, the library brings libFuzzer itself.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

pub const HELP: &str = "\
  fuzz --minutes N [--target NAME] [--jobs J]
             runs every fuzz target, or one, for its share of the time; inputs that fail are kept in fuzz/crashes
";

/// Coverage of every edge, comparisons included, as libFuzzer wants it.
const FLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// More than any target needs; one that takes more allocates by what it reads.
const MEMORY_MB: u32 = 2_048;
/// One input takes less, also beside busy neighbours.
const INPUT_SECONDS: u32 = 60;
const INPUT_BYTES: u32 = 4_096;

struct FuzzOptions {
    minutes: f64,
    target: Option<String>,
    jobs: u32,
}

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    let Some(options) = parse(&arguments) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    let Some(triple) = host_triple() else {
        eprintln!("rustc does not say for which machine it compiles");
        return ExitCode::FAILURE;
    };
    if let Err(missing) = find_compiler() {
        eprintln!("fuzz: {missing}");
        return ExitCode::FAILURE;
    }
    let mut names = names(root);
    if let Some(target) = &options.target {
        if !names.contains(target) {
            eprintln!("fuzz: there is no target {target}; there are {}", names.join(", "));
            return ExitCode::from(2);
        }
        names.retain(|name| name == target);
    }
    if names.is_empty() || !build(root, &triple) {
        eprintln!("fuzz: the fuzzer could not be built; what the compiler says is above");
        return ExitCode::FAILURE;
    }
    let share = Duration::from_secs_f64(options.minutes * 60.0 / names.len() as f64);
    println!(
        "{} targets, {} s for each\n\n| target | inputs | edges | outcome |\n|---|---|---|---|",
        names.len(),
        seconds(share)
    );
    let mut failed = Vec::new();
    for name in &names {
        match fuzz(root, &triple, name, share, options.jobs) {
            Ok(log) => println!("| {name} | {} | {} | held |", count(&log, INPUTS), count(&log, EDGES)),
            Err(log) => {
                println!("| {name} | {} | {} | FAILED |", count(&log, INPUTS), count(&log, EDGES));
                eprintln!("{}", end_of(&log));
                failed.push(name.clone());
            }
        }
    }
    println!("\n{} targets, {} failed {failed:?}", names.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What libFuzzer writes before the figures of the table: inputs that were run, and edges of the code that they reached.
const INPUTS: &str = "stat::number_of_executed_units:";
const EDGES: &str = "cov:";
/// Lines of a failed target's log that are shown.
const SHOWN_LINES: usize = 60;

/// The last number behind a word of the log, or nothing where it has none.
fn count<'a>(log: &'a str, word: &str) -> &'a str {
    log.rsplit_once(word).and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("")
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

/// libFuzzer counts in whole seconds, and takes 0 for no end.
fn seconds(share: Duration) -> u64 {
    share.as_secs().max(1)
}

fn parse(arguments: &[String]) -> Option<FuzzOptions> {
    let mut options = FuzzOptions { minutes: 0.0, target: None, jobs: 1 };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--minutes" => options.minutes = value.parse().ok()?,
            "--target" => options.target = Some(value.clone()),
            "--jobs" => options.jobs = value.parse().ok()?,
            _ => return None,
        }
    }
    (options.minutes > 0.0).then_some(options)
}

/// libFuzzer is compiled from its source, by the compiler that the crate `cc` would take.
fn find_compiler() -> Result<(), String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    match Command::new(&compiler).arg("--version").output() {
        Ok(out) if out.status.success() => Ok(()),
        _ => Err(format!(
            "libFuzzer needs a C++ compiler, and {compiler} does not run; install g++ or clang, or set CXX"
        )),
    }
}

fn host_triple() -> Option<String> {
    let out = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// Writes the seeds of every target, and learns the targets' names from their folders.
fn names(root: &Path) -> Vec<String> {
    let out = Command::new("cargo")
        .args(["run", "--quiet", "-p", "fuzz-targets", "--example", "write-seeds", "--"])
        .arg(root.join("fuzz/grown"))
        .current_dir(root)
        .output();
    let Ok(out) = out else { return Vec::new() };
    if !out.status.success() {
        eprint!("{}", String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect()
}

fn build(root: &Path, triple: &str) -> bool {
    let status = Command::new("cargo")
        .args(["build", "--release", "--target", triple])
        .current_dir(root.join("fuzz"))
        .env("RUSTFLAGS", FLAGS.join(" "))
        // Its own, for everything in it is instrumented.
        .env("CARGO_TARGET_DIR", root.join("fuzz/target"))
        .status();
    status.is_ok_and(|status| status.success())
}

/// Runs one target. What libFuzzer says is returned, as an error when it met an input on which the target failed.
fn fuzz(root: &Path, triple: &str, name: &str, share: Duration, jobs: u32) -> Result<String, String> {
    let folder = |kind: &str| root.join("fuzz").join(kind).join(name);
    let (grown, corpus, crashes) = (folder("grown"), folder("corpus"), folder("crashes"));
    for folder in [&grown, &corpus, &crashes] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(root.join("fuzz/target").join(triple).join("release/althing-fuzz"));
    command
        .env("FUZZ_TARGET", name)
        .arg(format!("-max_total_time={}", seconds(share)))
        .arg(format!("-rss_limit_mb={MEMORY_MB}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-max_len={INPUT_BYTES}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg("-print_final_stats=1");
    if jobs > 1 {
        command.arg(format!("-fork={jobs}"));
    }
    let out = command.arg(&grown).arg(&corpus).output().map_err(|error| error.to_string())?;
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() { Ok(log) } else { Err(log) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "#2\tINITED cov: 41 ft: 50 corp: 1/1b exec/s: 0 rss: 40Mb\n\
        #9\tDONE   cov: 57 ft: 90 corp: 4/9b lim: 4 exec/s: 4 rss: 41Mb\n\
        stat::number_of_executed_units: 9\nstat::peak_rss_mb: 41\n";

    #[test]
    fn the_last_figures_of_a_log_are_read() {
        assert_eq!((count(LOG, INPUTS), count(LOG, EDGES)), ("9", "57"));
        assert_eq!(count("killed", INPUTS), "");
    }

    #[test]
    fn a_share_below_a_second_is_one() {
        assert_eq!(seconds(Duration::from_millis(300)), 1);
        assert_eq!(seconds(Duration::from_millis(2_900)), 2);
    }
}
