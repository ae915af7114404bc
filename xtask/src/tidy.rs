//! House rules as a test: which crate may depend on which, how a file begins, how long it may grow, and what
//! must not be left behind.

use crate::{documents, words};
use std::fs;
use std::path::{Path, PathBuf};

/// The dependencies that each crate may have, tests aside. A new one is a change of architecture: write an
/// ADR first.
const CRATES: [(&str, &[&str]); 24] = [
    ("base", &["bytes", "crc32fast", "hashbrown", "xxhash-rust"]),
    ("raft", &["base", "bytes", "raft-rs", "slog"]),
    ("coord", &["base", "bytes"]),
    ("mesh", &["base", "bytes", "md5"]),
    ("mesh-node", &["base", "bytes", "mesh"]),
    ("node", &["base", "bytes", "coord", "raft"]),
    ("http2", &["base", "bytes"]),
    ("bbolt", &[]),
    ("disk", &["base", "bytes", "redb", "rustix", "thiserror"]),
    (
        "engine",
        &["base", "bbolt", "bytes", "coord", "crc32c", "disk", "mesh", "node", "raft", "ring", "thiserror"],
    ),
    ("proto", &["base", "bytes", "prost", "prost-reflect", "tonic", "tonic-prost"]),
    (
        "server",
        &[
            "base",
            "bcrypt",
            "bytes",
            "coord",
            "disk",
            "engine",
            "jwt",
            "mesh",
            "mesh-node",
            "node",
            "prometheus-client",
            "raft",
            "rhai",
            "ring",
            "rustix",
            "rustls",
            "thiserror",
            "tls",
            "tokio",
            "tracing",
        ],
    ),
    ("jwt", &["base64", "ring", "serde", "serde_json", "thiserror"]),
    ("tls", &["base", "ring", "rustls", "thiserror", "tracing"]),
    ("memory", &["mimalloc"]),
    ("api", ANYTHING),
    (
        "backup",
        &[
            "base",
            "bytes",
            "http",
            "http-body-util",
            "hyper",
            "hyper-util",
            "ring",
            "serde",
            "serde_json",
            "thiserror",
            "tls",
            "tokio",
            "tokio-rustls",
            "zstd",
        ],
    ),
    ("bench", ANYTHING),
    ("client", &["base", "proto", "thiserror", "tokio", "tonic"]),
    ("cli", ANYTHING),
    (
        "differ",
        &[
            "base",
            "base64",
            "bytes",
            "client",
            "prost",
            "proto",
            "serde_json",
            "tempfile",
            "thiserror",
            "tokio",
            "tonic",
        ],
    ),
    ("fuzz-targets", ANYTHING),
    ("malicious-peer", ANYTHING),
    ("sim", &["base", "bytes", "coord", "disk", "engine", "mesh", "mesh-node", "mimalloc", "node", "raft"]),
];

/// Crates at the edge choose their own dependencies.
const ANYTHING: &[&str] = &["*"];

/// Crates that decide and do not act: each must carry the list of what is denied to it.
const PURE: [&str; 8] = ["base", "bbolt", "raft", "coord", "mesh", "mesh-node", "node", "http2"];

const LINES_MAX: usize = 700;

/// Marks of unfinished work. Written in two pieces, so that this file does not complain
/// about itself.
const LEFTOVERS: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[", "ignore"),
    concat!("db", "g!("),
];

pub fn complaints(root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for (krate, allowed) in CRATES {
        check_dependencies(root, krate, allowed, &mut complaints);
    }
    check_denials(root, &mut complaints);
    for path in rust_files(&root.join("crates")).into_iter().chain(rust_files(&root.join("xtask"))) {
        check_file(root, &path, &mut complaints);
    }
    documents::check(root, &CRATES.map(|(krate, _)| krate), &mut complaints);
    words::check(root, &mut complaints);
    complaints
}

fn check_dependencies(root: &Path, krate: &str, allowed: &[&str], complaints: &mut Vec<String>) {
    let manifest = root.join("crates").join(krate).join("Cargo.toml");
    let text = read(&manifest);
    for name in dependencies(&text) {
        if allowed != ANYTHING && !allowed.contains(&name) {
            complaints.push(format!("crates/{krate}/Cargo.toml: {krate} may not depend on {name}"));
        }
    }
}

/// The names under `[dependencies]`.
pub fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=']).next().map(str::trim))
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
}

fn check_denials(root: &Path, complaints: &mut Vec<String>) {
    let list = |krate: &str| read(&root.join("crates").join(krate).join("clippy.toml"));
    let model = list(PURE[0]);
    for krate in PURE {
        if list(krate) != model || !model.contains("disallowed-methods") {
            complaints.push(format!(
                "crates/{krate}/clippy.toml: must deny what crates/{}/clippy.toml denies",
                PURE[0]
            ));
        }
    }
}

fn check_file(root: &Path, path: &Path, complaints: &mut Vec<String>) {
    let text = read(path);
    let shown = path.strip_prefix(root).unwrap_or(path).display();
    // Tests that lie beside their code are explained by it.
    let explained = path.ends_with("tests.rs") || text.starts_with("//!");
    if !explained {
        complaints
            .push(format!("{shown}: must begin with `//!`: what it is, what goes in and out, what holds"));
    }
    if text.lines().count() > LINES_MAX {
        complaints.push(format!("{shown}: more than {LINES_MAX} lines: one noun per file"));
    }
    for (number, line) in text.lines().enumerate() {
        for word in LEFTOVERS.iter().filter(|word| line.contains(**word)) {
            complaints.push(format!("{shown}:{}: {word}", number + 1));
        }
    }
}

pub fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_in_order() {
        let complaints = complaints(crate::root());
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn dependencies_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\n# why\nbase.workspace = true\nredb = \"4\"\n\n[lints]\nworkspace = true\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["base", "redb"]);
    }
}
