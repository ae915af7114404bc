//! Builds the release before this one from its commit, for tests of upgrades, and keeps it below `target`.

use std::path::Path;
use std::process::{Command, ExitCode};

pub const HELP: &str = "
  old-release
             builds release 0.1.0 from its commit, once, and prints the path of its binary (OLD_ALTHING of the tests)
";

/// The last commit of 0.1.0.
const COMMIT: &str = "2fd2a6f1";

pub fn run(root: &Path) -> ExitCode {
    let home = root.join("target/release-0.1.0");
    let source = home.join("source");
    let binary = home.join("build/debug/althing");
    if !binary.exists() {
        let mut check_out = Command::new("git");
        check_out.current_dir(root).args(["worktree", "add", "--detach", "--force"]).arg(&source).arg(COMMIT);
        let mut build = Command::new("cargo");
        build.current_dir(&source).args(["build", "--locked", "--package", "althing"]);
        build.env("CARGO_TARGET_DIR", home.join("build"));
        let steps = [(!source.exists()).then_some(check_out), Some(build)];
        for mut step in steps.into_iter().flatten() {
            if !step.status().is_ok_and(|status| status.success()) {
                eprintln!("old-release: {step:?} failed; a clone without history lacks the commit {COMMIT}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{}", binary.display());
    ExitCode::SUCCESS
}
