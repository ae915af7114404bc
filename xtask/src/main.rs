//! Tools of the workspace, with the standard library alone.
//! `cargo xtask check` checks the house rules that no compiler checks; it never writes. `cargo xtask diff-etcd`
//! and `bench-vs` compare with a real etcd, `console-load` measures the console beside many keys, `costs` counts instructions, `flake` finds tests that fail now and then,
//! `fuzz` runs the fuzz targets, `malicious-peer` lies to real members on their peer ports, `hostile` measures honest clients
//! beside hostile ones, `audit` holds the dependencies against deny.toml, `reference` writes the reference pages of the
//! documents, `restarts` measures how soon a killed cluster answers, `soak` runs every world of the simulator, `dist` makes the packages, `old-release` builds the
//! release before this one for tests of upgrades.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program speaks on its streams")]

mod audit;
mod bench_vs;
mod console_load;
mod costs;
mod diff_etcd;
mod dist;
mod documents;
mod flake;
mod fuzz;
mod hostile;
mod malicious_peer;
mod old_release;
mod reference;
mod restarts;
mod soak;
mod tidy;
mod words;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <verb>

  check      the house rules that no compiler checks: what crates may depend on, headers, sizes, leftovers, documents
  diff-etcd --etcd PATH [--ops N] [--seed S] [--althing PATH] [--workers N]
             the same random requests to that etcd and to Althing; stops at the first difference
";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("audit") => audit::run(root(), std::env::args().skip(2).collect()),
        Some("bench-vs") => bench_vs::run(root(), std::env::args().skip(2).collect()),
        Some("check") => check(),
        Some("console-load") => console_load::run(root(), std::env::args().skip(2).collect()),
        Some("costs") => costs::run(root(), std::env::args().skip(2).collect()),
        Some("diff-etcd") => diff_etcd::run(root(), std::env::args().skip(2).collect()),
        Some("dist") => dist::run(root(), std::env::args().skip(2).collect()),
        Some("flake") => flake::run(root(), std::env::args().skip(2).collect()),
        Some("fuzz") => fuzz::run(root(), std::env::args().skip(2).collect()),
        Some("old-release") => old_release::run(root()),
        Some("malicious-peer") => malicious_peer::run(root(), std::env::args().skip(2).collect()),
        Some("reference") => reference::run(root()),
        Some("restarts") => restarts::run(root(), std::env::args().skip(2).collect()),
        Some("soak") => soak::run(root(), std::env::args().skip(2).collect()),
        Some("hostile") => hostile::run(root(), std::env::args().skip(2).collect()),
        Some("--help" | "-h") => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{}", help());
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    [
        HELP,
        audit::HELP,
        bench_vs::HELP,
        console_load::HELP,
        costs::HELP,
        dist::HELP,
        flake::HELP,
        fuzz::HELP,
        malicious_peer::HELP,
        old_release::HELP,
        hostile::HELP,
        reference::HELP,
        restarts::HELP,
        soak::HELP,
    ]
    .concat()
}

fn check() -> ExitCode {
    let complaints = tidy::complaints(root());
    complaints.iter().for_each(|complaint| println!("{complaint}"));
    println!("{} complaints", complaints.len());
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
