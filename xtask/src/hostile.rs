//! `cargo xtask hostile`: builds the binary and the attackers in release, and lets these attack a member of it. Flags go
//! through as they are; without `--althing` this workspace's binary is attacked.

use crate::malicious_peer::{cargo, target_dir};
use std::path::Path;
use std::process::ExitCode;

pub const HELP: &str = "
  hostile [--connections N] [--seconds S] [--tls yes] [--auth yes] [--ceiling-mib M] [--althing PATH]
             a member with N connections (2000), half of them hostile, for S seconds (20): how long honest requests take
             without and with the hostile ones; fails if the 99th percentile more than doubles, or if the member's memory exceeds M (1024)
";

pub fn run(root: &Path, mut flags: Vec<String>) -> ExitCode {
    if !flags.iter().any(|flag| flag == "--althing") {
        if !cargo(root, &["build", "--release", "-p", "althing"]) {
            return ExitCode::FAILURE;
        }
        let built = target_dir(root).join("release").join("althing");
        flags.extend(["--althing".to_owned(), built.display().to_string()]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let words = [&["run", "--release", "-p", "bench", "--example", "hostile", "--"], &flags[..]].concat();
    if cargo(root, &words) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
