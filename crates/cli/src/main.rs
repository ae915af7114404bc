//! The `althing` binary, with its allocator.

use std::process::ExitCode;

// A workspace build turns the simulator's planted bugs on in every crate, also in this binary.
const _: () = assert!(
    cfg!(debug_assertions) || !base::mutant::COMPILED_IN,
    "an optimised `althing` must not hold planted bugs: build it alone, with `cargo build --release`"
);

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// Names a bug to plant in this process, in builds that hold them.
const PLANTED_BUG: &str = "PLANTED_BUG";

fn main() -> ExitCode {
    if base::mutant::COMPILED_IN
        && let Ok(name) = std::env::var(PLANTED_BUG)
    {
        base::mutant::plant_everywhere(name.leak());
    }
    memory::set_purge_delay();
    althing_cli::run()
}
