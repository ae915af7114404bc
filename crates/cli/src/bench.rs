//! `althing bench`: runs the load generator, shows progress, and prints the report.

use ::bench::{Load, Options};
use clap::Args;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Loads a server that speaks etcd v3, and reports throughput, latency and cost
///
/// Works against etcd as well, but for `data`, which loads the leaderless store over HTTP. With --server-pid the report says what the servers spent for each operation.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    #[command(subcommand)]
    load: Load,
    #[command(flatten)]
    options: Options,
}

const EXAMPLES: &str = "\
Examples:
  althing bench put --clients 1000 --connections 100 --value-size 256 --total 200000
  althing bench range --clients 100 --connections 10 --duration 10s --server-pid $(pidof althing)
  althing bench put --rate 200 --duration 1m --json
  althing bench watch --watchers 1000 --streams 10 --total 2000
  althing bench data put --clients 64 --value-size 100 --duration 10s --http-endpoints 127.0.0.1:8080
  althing bench lock --locks 100 --clients 100 --connections 10 --duration 10s";

impl Bench {
    #[expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is what was asked for")]
    pub fn run(&self) -> ExitCode {
        let outcome = ::bench::run(&self.load, &self.options, &show);
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        match outcome {
            Ok(report) if self.options.json => println!("{}", report.to_json()),
            Ok(report) => print!("{report}"),
            Err(error) => {
                eprintln!("althing: {error}");
                return ExitCode::FAILURE;
            }
        }
        ExitCode::SUCCESS
    }
}

/// One line that is overwritten, and nothing at all where there is no terminal.
fn show(fraction: f64, operations: u64) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        // The terminal may be gone.
        let _ = write!(err, "\r\x1b[K{:3.0} %  {operations} operations", fraction * 100.0);
        let _ = err.flush();
    }
}
