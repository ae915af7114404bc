//! `cargo xtask audit`: the dependencies against deny.toml, by cargo-deny: licences, sources and versions that come twice from
//! what is on this machine, and known vulnerabilities from the advisory database, which must be fetched. What could not be
//! checked is said, and is no success.

use std::path::Path;
use std::process::{Command, ExitCode};

pub const HELP: &str = "  audit [--without-advisories]
             the dependencies against deny.toml: licences, sources, versions that come twice, known vulnerabilities
";

const INSTALL: &str = "\
cargo-deny is not installed, and nothing was checked. To install it:
  cargo install cargo-deny --locked
";
const NO_DATABASE: &str = "\
advisories: NOT CHECKED: the advisory database (https://github.com/RustSec/advisory-db) could not be fetched. On a machine
that reaches it, `cargo deny fetch db` keeps a copy below ~/.cargo/advisory-dbs; copy that directory here and try again, or
leave the advisories out with --without-advisories.
";

pub fn run(root: &Path, args: Vec<String>) -> ExitCode {
    let with_advisories = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => true,
        ["--without-advisories"] => false,
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    if !is_installed() {
        eprint!("{INSTALL}");
        return ExitCode::FAILURE;
    }
    let mut all_well = deny(root, &["check", "licenses", "bans", "sources"]);
    if with_advisories {
        all_well &= check_advisories(root);
    }
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_installed() -> bool {
    Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// With a database that was fetched now, or else with the one that is there.
fn check_advisories(root: &Path) -> bool {
    let fetched = Command::new("cargo").args(["deny", "fetch", "db"]).current_dir(root).output();
    if fetched.is_ok_and(|output| output.status.success()) {
        return deny(root, &["check", "advisories"]);
    }
    let has_copy = std::env::home_dir().map(|home| home.join(".cargo/advisory-dbs")).is_some_and(|dir| {
        let databases = std::fs::read_dir(dir).into_iter().flatten().flatten();
        databases.map(|entry| entry.path()).any(|path| path.join("crates").is_dir())
    });
    if !has_copy {
        eprint!("{NO_DATABASE}");
        return false;
    }
    eprintln!("advisories: the database could not be fetched again; the copy on this machine is used");
    deny(root, &["check", "--disable-fetch", "advisories"])
}

fn deny(root: &Path, args: &[&str]) -> bool {
    let mut command = Command::new("cargo");
    command.args(["deny", "--log-level", "error"]).args(args).current_dir(root);
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo deny cannot be run: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exception holds as long as the test that it names is there, and the dependency that it is about.
    #[test]
    fn every_exception_of_deny_toml_has_its_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let deny = read("deny.toml");
        for line in deny.lines().filter(|line| line.contains("RUSTSEC-") && line.contains("id =")) {
            assert!(line.contains("reason = \""), "{line}");
        }
        let lock = read("Cargo.lock");
        assert!(deny.contains("RUSTSEC-2024-0437") == lock.contains("name = \"protobuf\"\nversion = \"2."));
        let tests = read("crates/raft/src/machine/tests/parser.rs");
        assert!(tests.contains("fn nested_groups_in_entries_pass_by_the_parser_on_leaders_and_followers"));
    }

    /// The parser of protobuf 2 is reached by these words alone, and no crate of ours has them.
    #[test]
    fn no_crate_of_ours_parses_with_protobuf_2() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
        let words = ["merge_from_bytes", "parse_from_bytes", "CodedInputStream", "merge_from_reader"];
        let mut directories = vec![root];
        while let Some(directory) = directories.pop() {
            for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let found = words.iter().find(|word| text.contains(**word));
                    assert_eq!(found, None, "{}", path.display());
                }
            }
        }
    }
}
