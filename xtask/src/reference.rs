//! `cargo xtask reference`: writes `docs/reference` from the tables in the code, by a hidden command of the program.
//! `cargo test -p althing` fails while the pages there are others than this writes.

use std::path::Path;
use std::process::{Command, ExitCode};

pub const HELP: &str = "  reference  writes docs/reference from the tables in the code\n";

pub fn run(root: &Path) -> ExitCode {
    let pages = root.join("docs/reference");
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["run", "-q", "-p", "althing", "--", "reference"]).arg(pages);
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
