//! `cargo xtask malicious-peer`: builds the binary and lets `malicious-peer` lie to members of it on their peer ports.
//! Its flags go through as they are; without `--althing` this workspace's binary is attacked.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub const HELP: &str = "\
  malicious-peer [--minutes N] [--frames M] [--seed S] [--althing PATH]
             lies to real members on their peer ports and looks that none ends, and that nothing acknowledged is gone
";

pub fn run(root: &Path, mut flags: Vec<String>) -> ExitCode {
    if !flags.iter().any(|flag| flag == "--althing") {
        if !cargo(root, &["build", "-p", "althing"]) {
            return ExitCode::FAILURE;
        }
        let built = target_dir(root).join("debug").join("althing");
        flags.extend(["--althing".to_owned(), built.display().to_string()]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let words = [&["run", "-p", "malicious-peer", "--"], &flags[..]].concat();
    if cargo(root, &words) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub fn cargo(root: &Path, words: &[&str]) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match Command::new(cargo).current_dir(root).args(words).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            false
        }
    }
}

pub fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
