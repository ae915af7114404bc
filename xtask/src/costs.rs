//! `cargo xtask costs`: how many instructions a put, a range and a watch event take in the pure crates, counted by
//! callgrind. The counts do not depend on what else the machine does, so a change of a few percent is one of the
//! code. They are written to `docs/costs.md`, or with `--check` compared with what is written there.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub const HELP: &str = "\
  costs [--check]
             instructions of a put, a range and a watch event, counted by valgrind, into docs/costs.md;
             --check compares with that page instead and fails where one grew by more than 5 %
";

/// How much may be due to the compiler.
const GROWTH_MAX: f64 = 1.05;
const OPERATIONS: [u64; 2] = [1_000, 3_000];

struct CostCase {
    title: &'static str,
    kind: &'static str,
    batch: u64,
    members: u64,
}

const fn case(title: &'static str, kind: &'static str, batch: u64, members: u64) -> CostCase {
    CostCase { title, kind, batch, members }
}

const CASES: &[CostCase] = &[
    case("put, one at a time, 1 member", "put", 1, 1),
    case("put, a hundred together, 1 member", "put", 100, 1),
    case("put, one at a time, 3 members", "put", 1, 3),
    case("put, a hundred together, 3 members", "put", 100, 3),
    case("linearizable range, one at a time, 1 member", "range", 1, 1),
    case("linearizable range, a hundred together, 1 member", "range", 100, 1),
    case("linearizable range, one at a time, 3 members", "range", 1, 3),
    case("linearizable range, a hundred together, 3 members", "range", 100, 3),
    case("watch event, 1,000 watchers of one key", "watch", 1, 1),
];

pub fn run(root: &Path, flags: Vec<String>) -> ExitCode {
    let outcome = match flags.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => count(root).and_then(|counted| write(root, &counted)),
        ["--check"] => count(root).and_then(|counted| check(root, &counted)),
        _ => Err(format!("these flags are not known: {}\n{HELP}", flags.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("costs: {problem}");
            ExitCode::FAILURE
        }
    }
}

type CostResult = Vec<(&'static str, f64)>;

fn count(root: &Path) -> Result<CostResult, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--profile", "dist", "-p", "server", "--example", "cost"])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("cargo could not build the program that is measured".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("dist/examples/cost");
    let mut counted = CostResult::new();
    for case in CASES {
        let [few, many] = OPERATIONS.map(|operations| instructions(&program, case, operations));
        let ((few, came_few), (many, came_many)) = (few?, many?);
        let each = (many - few) / (came_many - came_few);
        println!("{}: {each:.0} instructions", case.title);
        counted.push((case.title, each));
    }
    Ok(counted)
}

/// Of a whole run, and how many answers or events came out.
fn instructions(program: &Path, case: &CostCase, operations: u64) -> Result<(f64, f64), String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case.kind, &operations.to_string(), &case.batch.to_string(), &case.members.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let collected = collected.and_then(|(_, number)| number.trim().parse().ok());
    let came = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    collected.zip(came).ok_or_else(|| format!("valgrind said: {said}"))
}

fn page(root: &Path) -> PathBuf {
    root.join("docs/costs.md")
}

fn write(root: &Path, counted: &CostResult) -> Result<(), String> {
    let mut text = String::from(
        "# Instructions of an operation\n\nWritten by `cargo xtask costs`; do not edit. Counted by callgrind in \
         `crates/server/examples/cost.rs`: consensus and state machine of all members together, frames between members \
         encoded and decoded, keys of 32 and values of 256 bytes; no sockets, threads or disks. \
         `cargo xtask costs --check` fails where one of them grew by more than 5 %.\n\n\
         | operation | instructions |\n|---|---|\n",
    );
    for (title, each) in counted {
        let _ = writeln!(text, "| {title} | {each:.0} |");
    }
    std::fs::write(page(root), text).map_err(|error| format!("cannot write docs/costs.md: {error}"))
}

fn check(root: &Path, counted: &CostResult) -> Result<(), String> {
    let text = std::fs::read_to_string(page(root)).map_err(|error| format!("docs/costs.md: {error}"))?;
    let mut grown = String::new();
    for (title, each) in counted {
        let before = recorded(&text, title).ok_or(format!("docs/costs.md says nothing of `{title}`"))?;
        if *each > before * GROWTH_MAX {
            let _ = write!(grown, "\n  {title}: {before:.0} before, {each:.0} now");
        }
    }
    if grown.is_empty() { Ok(()) } else { Err(format!("more instructions than before:{grown}")) }
}

fn recorded(page: &str, title: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("| {title} | ")))?;
    line.trim_end_matches([' ', '|']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_found_by_its_title() {
        let page = "| put | 100 |\n| put, together | 7 |\n";
        assert_eq!(recorded(page, "put"), Some(100.0));
        assert_eq!(recorded(page, "put, together"), Some(7.0));
        assert_eq!(recorded(page, "range"), None);
    }
}
