//! `althing man`: a page of the manual for the program and for each of its commands, from their definitions.

use clap::{Args, Command};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct ManPages {
    /// The directory of the pages, as /usr/local/share/man/man1
    dir: PathBuf,
}

impl ManPages {
    pub fn run(&self, command: Command) -> ExitCode {
        match write(&self.dir, command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "Error: cannot write {}: {error}", self.dir.display());
                ExitCode::FAILURE
            }
        }
    }
}

fn write(dir: &Path, command: Command) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(command, dir)
}
