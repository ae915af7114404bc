//! Checks of the documents that people read: that links and paths lead somewhere, that the map of the crates is what
//! the Cargo files say, that pages stay short where they must, and that quoted log lines exist.

use crate::tidy::{dependencies, read, rust_files};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of pages. Decisions and formats describe the time in which they were written.
const FOLDERS: [&str; 6] = ["", "docs", "docs/guide", "docs/operations", "docs/reference", "docs/internals"];

/// The page of the walks, and how many files one of them may cross.
const WALKS: &str = "docs/internals/walks.md";
const WALK_FILES_MAX: usize = 25;

/// Folders of which the book has every page.
const BOOK: [&str; 7] = ["", "guide", "operations", "reference", "internals", "formats", "adr"];
/// The index of the decisions.
const DECISIONS: &str = "docs/adr/README.md";

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
    check_decisions(root, complaints);
    check_map(root, crates, complaints);
    check_log_lines(root, complaints);
    check_walks(root, complaints);
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

/// A source file is always named from the root of the repository.
fn is_path(text: &str) -> bool {
    let begins = ["crates/", "xtask/", "docs/"].iter().any(|folder| text.starts_with(folder));
    let is_source = text.contains('/') && text.ends_with(".rs");
    (begins || is_source) && !text.contains([' ', '*', '{', '<'])
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
            let name = name.trim_start_matches('/');
            if name == "SUMMARY.md" {
                continue;
            }
            if is_page(&file.path()) && !contents.contains(&format!("({name})")) {
                complaints.push(format!("docs/SUMMARY.md: {name} is not listed"));
            }
        }
    }
}

/// The index of the decisions has each of them, in the order of their numbers.
fn check_decisions(root: &Path, complaints: &mut Vec<String>) {
    let index = read(&root.join(DECISIONS));
    let numbers: Vec<u32> = rows(&index).filter_map(|cells| cells[0].parse().ok()).collect();
    if !numbers.is_sorted_by(|one, next| one < next) {
        complaints.push(format!("{DECISIONS}: the numbers are not in their order"));
    }
    for file in fs::read_dir(root.join("docs/adr")).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let number = name.split('-').next().and_then(|number| number.parse().ok());
        if number.is_some_and(|number: u32| number > 0 && !numbers.contains(&number)) {
            complaints.push(format!("{DECISIONS}: {name} is not listed"));
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

/// Each function that a row of a walk names is in a file that the row names, and a walk crosses few files. A row that
/// says "as for a put, from `x` to `y`", or "on", stands for those files of that walk.
fn check_walks(root: &Path, complaints: &mut Vec<String>) {
    let mut walks: Vec<(String, Vec<String>)> = Vec::new();
    for walk in read(&root.join(WALKS)).split("\n## ").skip(1) {
        let title = walk.lines().next().unwrap_or_default();
        let mut crossed: Vec<String> = Vec::new();
        for cells in rows(walk).filter(|cells| cells.len() == 3) {
            let paths: Vec<&str> = between(cells[0], "`", "`").collect();
            let files = match cells[0].strip_prefix("as for ") {
                None => paths.iter().map(|path| (*path).to_owned()).collect(),
                Some(other) => part_of_walk(&walks, other, &paths).unwrap_or_else(|| {
                    complaints
                        .push(format!("{WALKS}: {title}: there is no such part of a walk: {}", cells[0]));
                    Vec::new()
                }),
            };
            let sources: Vec<String> = files.iter().map(|path| read(&root.join(path))).collect();
            for name in between(cells[1], "`", "`") {
                if !sources.iter().any(|source| defines(source, name)) {
                    complaints.push(format!("{WALKS}: {title}: no function {name} in {}", cells[0]));
                }
            }
            for file in files {
                if !crossed.contains(&file) {
                    crossed.push(file);
                }
            }
        }
        if crossed.len() > WALK_FILES_MAX {
            complaints.push(format!("{WALKS}: {title} crosses {} files", crossed.len()));
        }
        walks.push((title.to_lowercase(), crossed));
    }
}

/// The files of a walk above from one to another, or to its end.
fn part_of_walk(walks: &[(String, Vec<String>)], title: &str, ends: &[&str]) -> Option<Vec<String>> {
    let title = title.split(',').next().unwrap_or_default();
    let (_, files) = walks.iter().find(|(other, _)| other == title)?;
    let at = |wanted: &str| files.iter().position(|file| file == wanted);
    match ends {
        [first] => Some(files[at(first)?..].to_vec()),
        [first, last] => files.get(at(first)?..=at(last)?).map(<[String]>::to_vec),
        _ => None,
    }
}

fn defines(source: &str, function: &str) -> bool {
    let begin = format!("fn {function}");
    source.match_indices(&begin).any(|(at, _)| source[at + begin.len()..].starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        assert!(defines("pub fn run<F>(order: F) {}", "run"));
        assert!(!defines("fn run_once() {}", "run"));
        assert!(!defines("run();", "run"));
    }

    #[test]
    fn a_part_of_a_walk_is_told_by_its_ends() {
        let files = ["a", "b", "c"].map(str::to_owned).to_vec();
        let walks = [("a put".to_owned(), files)];
        let part = |ends: &[&str]| part_of_walk(&walks, "a put, from `x` on", ends);
        assert_eq!(part(&["b"]).unwrap(), ["b", "c"]);
        assert_eq!(part(&["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!([part(&["d"]), part(&["c", "a"]), part(&[])], [None, None, None]);
        assert_eq!(part_of_walk(&walks, "a lock, from `a` on", &["a"]), None);
    }

    #[test]
    fn links_paths_and_cells_are_found() {
        let text = "see [a](b.md#c) and `crates/base/src/id.rs`, `not a path`\n| `x` | y |\n";
        assert_eq!(between(text, "](", ")").collect::<Vec<_>>(), ["b.md#c"]);
        assert_eq!(between(text, "`", "`").filter(|path| is_path(path)).count(), 1);
        assert_eq!(rows(text).next().unwrap(), ["`x`", "y"]);
    }
}
