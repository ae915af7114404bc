//! `althing etcd`, or a binary or link called `etcd`: a member that is started with etcd's own flags.
//! The command line and the `ETCD_…` variables go in; a member runs on etcd's defaults, or everything that
//! cannot be honoured is refused at once. What is accepted without effect is named in one warning.

mod file;
mod flags;
mod help;
pub mod line;
pub mod translate;
mod urls;

use crate::config::check::{CheckedConfig, Problems};
use crate::serve;
use line::{GivenFlag, ParsedLine};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// The flag that names a file instead of all other flags.
const CONFIG_FILE: &str = "config-file";
/// The address of the data API, which etcd does not have.
const HTTP_ADDR: &str = "ALTHING_HTTP_ADDR";

/// True when the process was started under the name `etcd`.
pub fn is_called(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "etcd")
}

/// Runs with the arguments after the name.
pub fn run(args: Vec<String>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let given = match line::read(&args, &variable) {
        Ok(ParsedLine::Help) => return print_text(&help::text()),
        Ok(ParsedLine::Version) => return print_text(&help::version()),
        Ok(ParsedLine::Flags(given)) => given,
        Err(problem) => return refuse(&Problems(vec![problem])),
    };
    let (given, warning) = match from_file(given) {
        Ok(given) => given,
        Err(problems) => return refuse(&Problems(problems)),
    };
    match translate::translate(&given) {
        Ok(mut checked) => {
            checked.warnings.extend(warning);
            if let Some(text) = variable(HTTP_ADDR).filter(|text| !text.is_empty()) {
                let Ok(address) = text.parse() else { return refuse(&bad_http_addr(&text)) };
                checked.http_addr = Some(address);
            }
            start(checked)
        }
        Err(problems) => refuse(&problems),
    }
}

/// With `--config-file` the file's settings alone count, as in etcd; what else was given is named in a warning.
fn from_file(given: Vec<GivenFlag>) -> Result<(Vec<GivenFlag>, Option<String>), Vec<String>> {
    let Some(path) = given.iter().find(|flag| flag.name == CONFIG_FILE && !flag.value.is_empty()) else {
        return Ok((given, None));
    };
    let others: Vec<&str> =
        given.iter().filter(|flag| flag.name != CONFIG_FILE).map(|flag| flag.origin.as_str()).collect();
    let warning = (!others.is_empty())
        .then(|| format!("{} is read alone; without effect beside it: {}", path.origin, others.join(", ")));
    Ok((file::read(&path.value)?, warning))
}

fn bad_http_addr(text: &str) -> Problems {
    Problems(vec![format!(
        "{HTTP_ADDR} is \"{text}\"; it must be an IP address and a port, as 127.0.0.1:8080"
    )])
}

fn start(checked: CheckedConfig) -> ExitCode {
    let data_dir = &checked.config.data_dir;
    if data_dir.join("member").exists() {
        return refuse(&Problems(vec![format!(
            "the data directory {0} was written by etcd, in a format that only etcd reads; give another one with \
             --data-dir, and copy the keys from the running etcd",
            data_dir.display()
        )]));
    }
    serve::run(checked)
}

fn print_text(text: &str) -> ExitCode {
    let written = std::io::stdout().write_all(text.as_bytes());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refuse(Problems(problems): &Problems) -> ExitCode {
    let mut text = String::from("etcd (althing): cannot start with these flags\n");
    for problem in problems {
        text.push_str(&format!("  - {problem}\n"));
    }
    text.push_str("`althing etcd --help` lists the flags.\n");
    // When standard error is closed, the exit code is enough.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(crate::args::USAGE)
}
