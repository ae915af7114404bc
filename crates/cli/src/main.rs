//! The `althing` binary, with its allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

fn main() -> ExitCode {
    memory::give_back_soon();
    althing_cli::run()
}
