//! Writes the seeds of every target below a folder, and says the targets' names: one folder each.

#![allow(clippy::print_stdout, reason = "a command line program speaks on its streams")]

use fuzz_targets::TARGETS;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root: PathBuf = env::args().nth(1).map(PathBuf::from).ok_or(io::ErrorKind::InvalidInput)?;
    for target in TARGETS {
        let folder = root.join(target.name);
        fs::create_dir_all(&folder)?;
        for (nth, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{nth}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
