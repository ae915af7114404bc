//! The `althing` binary: reads the command line and hands over to the verb.
//! Exit codes: 0 when all went well, 1 for trouble, 2 when the command line or configuration is wrong.

mod args;
mod config;
mod log;
mod serve;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    args::run()
}
