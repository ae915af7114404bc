//! Checks of the documents that people read: that links and paths lead somewhere, that the map of the crates is what
//! the Cargo files say, that pages stay short where they must, and that quoted log lines exist.

use crate::tidy::{dependencies, read, rust_files};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of pages. Decisions and formats describe the time in which they were written.
const FOLDERS: [&str; 6] = ["", "docs", "docs/guide", "docs/operations", "docs/reference", "docs/internals"];

/// Folders of which the book has every page.
const BOOK: [&str; 4] = ["guide", "operations", "reference", "internals"];

const WORDS_MAX: [(&str, usize); 2] = [("README.md", 700), ("ARCHITECTURE.md", 1_500)];
const GLOSSARY_MAX: usize = 40;

pub fn check(root: &Path, crates: &[&str], complaints: &mut Vec<String>) {
    for (page, most) in WORDS_MAX {
        let words = read(&root.join(page)).split_whitespace().count();
        if words > most {
            complaints.push(format!("{page}: {words} words, and {most} at most"));
        }
    }
    let entries = rows(&read(&root.join("docs/glossary.md"))).count().saturating_sub(1);
    if entries > GLOSSARY_MAX {
        complaints.push(format!("docs/glossary.md: {entries} words, and {GLOSSARY_MAX} at most"));
    }
    for page in pages(root) {
        check_targets(root, &page, complaints);
    }
    check_contents(root, complaints);
    check_map(root, crates, complaints);
    check_log_lines(root, complaints);
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let files =
        FOLDERS.iter().flat_map(|folder| fs::read_dir(root.join(folder)).into_iter().flatten().flatten());
    let mut pages: Vec<PathBuf> = files.map(|file| file.path()).filter(|path| is_page(path)).collect();
    pages.sort();
    pages
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Links of a page, and paths of the repository that it names.
fn check_targets(root: &Path, page: &Path, complaints: &mut Vec<String>) {
    let text = read(page);
    let shown = page.strip_prefix(root).unwrap_or(page).display();
    let folder = page.parent().unwrap_or(root);
    for target in between(&text, "](", ")") {
        let path = target.split('#').next().unwrap_or_default();
        let is_ours = !path.is_empty() && !path.contains("://") && !path.contains(' ');
        if is_ours && !folder.join(path).exists() {
            complaints.push(format!("{shown}: the link {target} leads nowhere"));
        }
    }
    for path in between(&text, "`", "`").filter(|path| is_path(path)) {
        if !root.join(path).exists() {
            complaints.push(format!("{shown}: there is no {path}"));
        }
    }
}

fn is_path(text: &str) -> bool {
    let begins = ["crates/", "xtask/", "docs/"].iter().any(|folder| text.starts_with(folder));
    begins && !text.contains([' ', '*', '{', '<'])
}

/// What stands between two marks, on one line.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter(|line| !line.starts_with("```")).flat_map(move |line| {
        let mut found = Vec::new();
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((inside, behind)) = after.split_once(close) else { break };
            found.push(inside);
            rest = behind;
        }
        found
    })
}

/// The book lists each of its pages.
fn check_contents(root: &Path, complaints: &mut Vec<String>) {
    let contents = read(&root.join("docs/SUMMARY.md"));
    for folder in BOOK {
        for file in fs::read_dir(root.join("docs").join(folder)).into_iter().flatten().flatten() {
            let name = format!("{folder}/{}", file.file_name().to_string_lossy());
            if is_page(&file.path()) && !contents.contains(&format!("({name})")) {
                complaints.push(format!("docs/SUMMARY.md: {name} is not listed"));
            }
        }
    }
}

/// The last column of the map in ARCHITECTURE.md is what the Cargo files say, for our own crates.
fn check_map(root: &Path, crates: &[&str], complaints: &mut Vec<String>) {
    let map = read(&root.join("ARCHITECTURE.md"));
    for name in crates {
        let manifest = read(&root.join("crates").join(name).join("Cargo.toml"));
        let used: BTreeSet<&str> = dependencies(&manifest)
            .map(|dependency| if dependency == "althing" { "cli" } else { dependency })
            .filter(|dependency| crates.contains(dependency))
            .collect();
        let row = rows(&map).find(|cells| cells.len() == 4 && cells[0] == format!("`{name}`"));
        let Some(row) = row else {
            complaints.push(format!("ARCHITECTURE.md: the map has no crate {name}"));
            continue;
        };
        let told: BTreeSet<&str> = row[3].split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if told != used {
            complaints.push(format!("ARCHITECTURE.md: {name} uses {used:?}, the map says {told:?}"));
        }
    }
}

/// Cells of the rows of all tables.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// Every log line that troubleshooting explains is one that the code can write.
fn check_log_lines(root: &Path, complaints: &mut Vec<String>) {
    let page = read(&root.join("docs/operations/troubleshooting.md"));
    let Some((_, section)) = page.split_once("## By log line") else { return };
    let section = section.split("\n## ").next().unwrap_or_default();
    let sources: Vec<String> = rust_files(&root.join("crates")).iter().map(|path| read(path)).collect();
    for cells in rows(section) {
        let Some(line) = cells[0].strip_prefix('`').and_then(|line| line.strip_suffix('`')) else { continue };
        if !sources.iter().any(|source| source.contains(&format!("\"{line}\""))) {
            complaints.push(format!("docs/operations/troubleshooting.md: no code logs \"{line}\""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_paths_and_cells_are_found() {
        let text = "see [a](b.md#c) and `crates/base/src/id.rs`, `not a path`\n| `x` | y |\n";
        assert_eq!(between(text, "](", ")").collect::<Vec<_>>(), ["b.md#c"]);
        assert_eq!(between(text, "`", "`").filter(|path| is_path(path)).count(), 1);
        assert_eq!(rows(text).next().unwrap(), ["`x`", "y"]);
    }
}
