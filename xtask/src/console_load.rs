//! The console beside many keys, watches and locks: fills a member of a release build, opens the pages in a browser, and prints
//! their first paint and what the member's processor does while a page is open. The test of the console does the work.

use std::path::Path;
use std::process::{Command, ExitCode};

pub const HELP: &str = "
  console-load [--keys N] [--watches N] [--locks N] [--seconds S]
             a member with N keys (1000000), watches (10000) and locks (1000), pages of its console in Chromium for S seconds
             (20) each: first paint, and the processor time of the member with the page open and without
";

/// What can be set, the variable of the test, and what it is otherwise.
const SETTINGS: [(&str, &str, u64); 4] = [
    ("--keys", "CONSOLE_LOAD_KEYS", 1_000_000),
    ("--watches", "CONSOLE_LOAD_WATCHES", 10_000),
    ("--locks", "CONSOLE_LOAD_LOCKS", 1_000),
    ("--seconds", "CONSOLE_LOAD_SECONDS", 20),
];

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    let outcome = parse(&arguments).and_then(|settings| test(root, &settings));
    outcome.unwrap_or_else(|problem| {
        eprintln!("console-load: {problem}\n{HELP}");
        ExitCode::FAILURE
    })
}

fn parse(arguments: &[String]) -> Result<Vec<(&'static str, u64)>, String> {
    let mut settings: Vec<(&str, u64)> = SETTINGS.map(|(_, variable, usual)| (variable, usual)).to_vec();
    for pair in arguments.chunks(2) {
        let nth = SETTINGS.iter().position(|(flag, _, _)| *flag == pair[0]);
        let nth = nth.ok_or_else(|| format!("no such option `{}`", pair[0]))?;
        let value = pair.get(1).and_then(|text| text.parse().ok());
        settings[nth].1 = value.ok_or_else(|| format!("{} needs a number", pair[0]))?;
    }
    Ok(settings)
}

fn test(root: &Path, settings: &[(&'static str, u64)]) -> Result<ExitCode, String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "--release", "--locked", "-p", "althing", "--test", "it", "--"]);
    cargo.args(["--nocapture", "console::load::"]).env("ALTHING_REQUIRE_BROWSER", "1");
    cargo.envs(settings.iter().map(|(variable, value)| (variable, value.to_string())));
    let status = cargo.status().map_err(|error| error.to_string())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(&'static str, u64)>, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_replace_what_is_usual_and_others_are_refused() {
        assert_eq!(parsed("--locks 7").unwrap()[2], ("CONSOLE_LOAD_LOCKS", 7));
        assert_eq!(parsed("").unwrap()[0].1, 1_000_000);
        assert!(parsed("--keys").is_err() && parsed("--keys x").is_err() && parsed("--size 1").is_err());
    }
}
