//! Kills a whole cluster of real processes again and again, and measures until it takes writes: 1.2 s on
//! a machine that has nothing else to do. Beside other work no bound holds, so the test suite only tells the times; this fails if the quickest is above the bound.

use std::path::Path;
use std::process::{Command, ExitCode};

pub const HELP: &str = "
  restarts [--runs N] [--max-ms MS]
             kills all members of a cluster under load N times (10), and measures from their start to the first write; fails if
             the quickest takes longer than MS (1200). For a machine that has nothing else to do
";

const TEST: &str = "chaos::killing_all_at_once_loses_nothing_that_was_acknowledged";

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    let (runs, max_ms) = match parse(&arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("restarts: {problem}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let mut test = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    test.current_dir(root).args(["test", "--locked", "-p", "althing", "--test", "it", "--"]);
    test.args(["--exact", TEST, "--nocapture"]);
    test.env("CHAOS_BLACKOUTS", runs.to_string()).env("CHAOS_RESTART_MAX_MS", max_ms.to_string());
    if test.status().is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Result<(u64, u64), String> {
    let (mut runs, mut max_ms) = (10, 1_200);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = value.parse().map_err(|_| format!("{name} takes a number, not {value}"))?;
        match name.as_str() {
            "--runs" if number > 0 => runs = number,
            "--max-ms" => max_ms = number,
            _ => return Err(format!("there is no {name} {value}")),
        }
    }
    Ok((runs, max_ms))
}
