//! Runs the examples of the README and of the book: every block that is marked for it, as a reader would type it.
//! A page becomes one script for bash, with ports of its own; what the page says is printed must be printed.
//!
//! The word behind the language of a block says what is done with it. `run` runs it. `serve` starts each of its
//! commands in the background and waits until they serve; a page that does not begin with such a block gets a single node. In a block
//! that runs, a comment that begins with `>` holds a part of what was printed since the comment before.

mod page;
mod rust_example;
mod script;

use crate::process::Plan;
use crate::tour::block_on;
use page::Page;
use script::Script;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn is_there(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Runs the examples of a page.
fn run(path: &str) {
    if !is_there("bash", &["-c", "curl --version"]) {
        return tell(&format!("SKIPPED {path}: its examples need bash and curl"));
    }
    let page = Page::parse(&std::fs::read_to_string(root().join(path)).unwrap());
    let dir = TempDir::new().unwrap();
    let script = Script::of(&page, dir.path());
    script.skipped.iter().for_each(|what| tell(&format!("SKIPPED an example of {path}: {what}")));
    let file = dir.path().join("examples.bash");
    std::fs::write(&file, &script.text).unwrap();
    let output = Command::new("bash").arg(&file).current_dir(dir.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path}: {}\n{printed}\n{complaints}", output.status);
    for (number, (wanted, part)) in script.wanted.iter().zip(script::parts(&printed)).enumerate() {
        assert!(
            page::contains(part, wanted),
            "{path}, expectation {number}: {wanted:?} is not in\n{part}\n{complaints}"
        );
    }
    assert_eq!(script.wanted.len(), script::parts(&printed).count(), "{path}: every comment was reached");
}

macro_rules! pages {
    ($($name:ident $path:literal;)*) => {
        $(#[test] fn $name() { run($path); })*

        /// A page with examples that is not in the list would never be run.
        #[test]
        fn every_page_with_examples_is_run() {
            let listed = [$($path),*];
            for path in page::markdown_files(&root()) {
                let text = std::fs::read_to_string(root().join(&path)).unwrap();
                let is_run = listed.contains(&path.as_str());
                assert_eq!(Page::parse(&text).has_examples(), is_run, "{path}");
            }
        }
    };
}

pages! {
    the_readme_works_as_written "README.md";
    keys_watches_and_leases_work_as_written "docs/guide/keys.md";
    locks_work_as_written "docs/guide/locks.md";
    the_data_plane_works_as_written "docs/guide/data.md";
    regions_work_as_written "docs/guide/regions.md";
    clients_work_as_written "docs/guide/clients.md";
    deployment_works_as_written "docs/operations/deployment.md";
    monitoring_works_as_written "docs/operations/monitoring.md";
    backups_work_as_written "docs/operations/backup.md";
}

#[test]
fn the_rust_example_works_and_is_the_one_in_the_guide() {
    let member = Plan::single().start_ready();
    block_on(rust_example::tour(&member.endpoint())).unwrap();
    let guide = std::fs::read_to_string(root().join("docs/guide/clients.md")).unwrap();
    let code = include_str!("book/rust_example.rs");
    let (_, code) = code.split_once("\n\n").unwrap();
    assert!(
        guide.contains(code.trim()),
        "docs/guide/clients.md shows another example than book/rust_example.rs"
    );
}
