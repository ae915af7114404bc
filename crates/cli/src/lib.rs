//! What the `althing` binary does: it reads the command line and hands over to the verb.
//! Exit codes: 0 when all went well, 2 for the caller's mistake, 4 for what may pass by itself, 1 for the rest.

mod args;
mod bench;
mod client;
mod completion;
mod config;
mod dev;
mod etcd;
mod exposure;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod log;
mod man;
mod output;
mod progress;
mod redact;
mod reference;
mod request_id;
mod rest;
mod serve;
mod service_manager;
mod signals;
mod transfer;
mod verbs;
mod verify;

use std::process::ExitCode;

pub fn run() -> ExitCode {
    args::run()
}
