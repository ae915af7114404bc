//! `cargo xtask diff-etcd`: builds what is needed with optimisations, and lets `differ` ask etcd and Althing the
//! same random things. Its flags go through as they are; without `--althing` this workspace's binary is asked.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub fn run(root: &Path, mut flags: Vec<String>) -> ExitCode {
    if !flags.iter().any(|flag| flag == "--etcd") {
        eprintln!("diff-etcd: --etcd must name etcd's binary");
        return ExitCode::from(2);
    }
    if !flags.iter().any(|flag| flag == "--althing") {
        if !cargo(root, &["build", "--release", "-p", "althing"]) {
            return ExitCode::FAILURE;
        }
        let built = target_dir(root).join("release").join("althing");
        flags.extend(["--althing".to_owned(), built.display().to_string()]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let words = [&["run", "--release", "-p", "differ", "--"], &flags[..]].concat();
    if cargo(root, &words) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cargo(root: &Path, words: &[&str]) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match Command::new(cargo).current_dir(root).args(words).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("diff-etcd: cargo cannot be run: {error}");
            false
        }
    }
}

fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
