//! `althing reference`: the reference pages of the book, written from the tables that the program goes by.
//! A directory goes in; a page for settings, commands, the REST API, gRPC, errors and metrics comes out. A test
//! compares the pages in `docs/reference` with what this writes, so a table that changes takes its page along.

mod commands;
mod errors;
mod grpc;
mod metrics;
mod rest;
mod settings;

use clap::{Args, Command};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct Reference {
    /// The directory of the pages, as docs/reference
    dir: PathBuf,
}

pub struct Page {
    file: &'static str,
    text: String,
}

impl Reference {
    pub fn run(&self, command: Command) -> ExitCode {
        match write(&self.dir, &pages(command)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "Error: cannot write {}: {error}", self.dir.display());
                ExitCode::FAILURE
            }
        }
    }
}

fn write(dir: &Path, pages: &[Page]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    pages.iter().try_for_each(|page| fs::write(dir.join(page.file), &page.text))
}

pub fn pages(command: Command) -> Vec<Page> {
    let page = |file, title: &str, body: String| Page {
        file,
        text: format!("<!-- Written by `cargo xtask reference`. Do not edit. -->\n\n# {title}\n\n{body}"),
    };
    vec![
        page("settings.md", "Settings", settings::render()),
        page("cli.md", "Commands", commands::render(command)),
        page("rest.md", "REST API", rest::render()),
        page("grpc.md", "gRPC services", grpc::render()),
        page("errors.md", "Errors", errors::render()),
        page("metrics.md", "Metrics", metrics::render()),
    ]
}

/// A table of Markdown. Bars inside cells would end them.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: [String; N]| {
        let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(head.map(str::to_owned));
    text.push_str(&format!("|{}\n", "---|".repeat(N)));
    text.extend(rows.into_iter().map(line));
    text
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_in_docs_are_those_that_the_tables_give() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for page in pages(crate::args::command()) {
            let written = fs::read_to_string(dir.join(page.file)).unwrap_or_default();
            assert!(
                written == page.text,
                "docs/reference/{} is stale: run `cargo xtask reference` and commit what it writes",
                page.file
            );
        }
    }

    /// Alerts on a metric that does not exist never fire.
    #[test]
    fn every_metric_that_operators_are_told_of_exists() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations");
        let known = metrics::render();
        for page in ["monitoring.md", "sizing.md", "deployment.md", "troubleshooting.md"] {
            let text = fs::read_to_string(docs.join(page)).unwrap();
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let prefixes = ["etcd_", "althing_", "process_", "os_fd_"];
            let is_metric = |word: &&str| {
                prefixes.iter().any(|prefix| word.len() > prefix.len() && word.starts_with(prefix))
            };
            for name in words.filter(is_metric) {
                let name = name.strip_suffix("_bucket").unwrap_or(name);
                assert!(known.contains(&format!("`{name}`")), "docs/operations/{page}: {name}");
            }
        }
    }

    #[test]
    fn bars_in_cells_do_not_end_them() {
        let text = table(["a", "b"], [["x|y".to_owned(), code("z")]]);
        assert_eq!(text, "| a | b |\n|---|---|\n| x\\|y | `z` |\n");
    }
}
