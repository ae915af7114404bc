//! Runs every world of the simulator and hunts every planted bug, in a release build: what takes too long for `cargo test`.
//! The simulator reports each world as it ends, prints one table, and fails on a violation or a bug that escaped.

use std::path::Path;
use std::process::{Command, ExitCode};

pub const HELP: &str = "
  soak [--seeds N] [--minutes M] [--mutant-seeds N] [--first S] [--threads T]
             every world of the simulator in a release build: N seeds of each (200), or as many as fit into M minutes for all
             worlds together; then every planted bug in at most N seeds (2000; 0 for none); fails on a violation, and on a
             planted bug that no seed shows
";

const OPTIONS: [&str; 5] = ["--seeds", "--minutes", "--mutant-seeds", "--first", "--threads"];

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    if let Err(problem) = check(&arguments) {
        eprintln!("soak: {problem}\n{HELP}");
        return ExitCode::from(2);
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root)
        .args(["run", "--release", "--locked", "-p", "sim", "--", "--soak"])
        .args(&arguments);
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(arguments: &[String]) -> Result<(), String> {
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        if !OPTIONS.contains(&name.as_str()) {
            return Err(format!("unknown option {name}"));
        }
        if !value.parse::<f64>().is_ok_and(|number| number >= 0.0) {
            return Err(format!("{name} takes a number, not {value}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_before_anything_is_built() {
        let checked = |text: &str| check(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(checked("--seeds 3 --minutes 0.5"), Ok(()));
        assert!(checked("--seeds three").is_err());
        assert!(checked("--seeds").is_err());
        assert!(checked("--worlds 3").is_err());
    }
}
