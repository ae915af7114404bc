//! House rules about words: what is not written in code, comments and documents, and which type names exist once.
//! The files of the workspace go in; complaints come out. Words are compared without their case, also inside of identifiers and over the
//! end of a line.

use crate::tidy::{read, rust_files};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that hide the subject of a sentence: say the caller, the leader, the replica. A full stop stands for any end of a clause.
const BANNED: [&str; 28] = [
    "whoever",
    "whomever",
    "somebody",
    "nobody",
    "everybody",
    "anew",
    "sees to it",
    "see to it",
    "of before",
    "brings about",
    "that one .",
    "that one s",
    "that one is",
    "that one was",
    "that one has",
    "that one had",
    // What the field has other words for: worker, queue, delivery, report, batch, lease clock, discovery, cache, metrics.
    "lane",
    "lanes",
    "postman",
    "tidings",
    "errand",
    "errands",
    "lessor",
    "docket",
    "scout",
    "farewell",
    // Say crate, disk space, capacity.
    "room",
    "rooms",
];

/// Paths where a banned word is the word of the field, or data that is compared byte for byte.
const ALLOWED: [(&str, &str); 3] = [
    // This list.
    ("xtask/src/words.rs", ""),
    // The subject of a certificate that lies beside it.
    ("crates/tls/tests/pem/make.sh", "nobody"),
    // It quotes the texts of the release before.
    ("CHANGELOG.md", "room"),
];

/// Names of types that would mean several things in an import line: each exists once in the workspace, or not at all.
const ONCE: [&str; 20] = [
    "Admission",
    "Answer",
    "Board",
    "Call",
    "Counts",
    "Desk",
    "Entry",
    "Facts",
    "Figures",
    "Handle",
    "Item",
    "Journal",
    "Note",
    "Place",
    "Settings",
    "Status",
    "Tally",
    "Waiting",
    "Word",
    "Work",
];

/// Crates in which modules may have types of the same name: verbs of the command line, and worlds beside each other.
const NAMESAKES: [&str; 2] = ["cli", "sim"];

const KINDS: [&str; 6] = ["rs", "md", "toml", "proto", "sh", "html"];

pub fn check(root: &Path, complaints: &mut Vec<String>) {
    check_words(root, complaints);
    check_types(root, complaints);
}

fn check_words(root: &Path, complaints: &mut Vec<String>) {
    for path in files(root) {
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for (line, phrase) in banned_in(&read(&path)) {
            let is_allowed =
                |(file, word): &(&str, &str)| *file == shown && (word.is_empty() || *word == phrase);
            if !ALLOWED.iter().any(is_allowed) {
                let phrase = phrase.trim_end_matches(" .");
                complaints.push(format!("{shown}:{line}: `{phrase}`: say it in plain words (docs/style.md)"));
            }
        }
    }
}

/// Text that people write: sources, documents and manifests, also of the fuzzer.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz", "docs", ".ci"] {
        gather(&root.join(folder), &mut files);
    }
    let top = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(top.filter(|path| path.is_file() && is_text(path)));
    files.sort();
    files
}

fn gather(dir: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.ends_with("target") {
            gather(&path, files);
        } else if is_text(&path) {
            files.push(path);
        }
    }
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| KINDS.iter().any(|kind| extension == *kind))
}

/// Lines and the banned phrases that begin there.
fn banned_in(text: &str) -> Vec<(usize, &'static str)> {
    let words = words(text);
    let mut found = Vec::new();
    for phrase in BANNED {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let places = words
            .windows(wanted.len())
            .filter(|place| place.iter().map(|(_, word)| word.as_str()).eq(wanted.iter().copied()));
        found.extend(places.map(|place| (place[0].0, phrase)));
    }
    found.sort();
    found
}

/// The words of a text in lower case with their lines, those of identifiers apart; the end of a clause is a full stop.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let mut word = String::new();
        let mut end = |word: &mut String| {
            if !word.is_empty() {
                words.push((line + 1, std::mem::take(word).to_lowercase()));
            }
        };
        let mut before = ' ';
        for letter in text.chars() {
            let begins = letter.is_uppercase() && before.is_lowercase();
            if begins || !letter.is_alphanumeric() {
                end(&mut word);
            }
            if letter.is_alphanumeric() {
                word.push(letter);
            } else if ".,;:!?)".contains(letter) {
                word.push('.');
                end(&mut word);
            }
            before = letter;
        }
        end(&mut word);
    }
    words
}

fn check_types(root: &Path, complaints: &mut Vec<String>) {
    let mut everywhere = BTreeMap::<String, Vec<String>>::new();
    for krate in fs::read_dir(root.join("crates")).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = krate.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut here = BTreeMap::<String, Vec<String>>::new();
        for path in rust_files(&krate.join("src")).into_iter().filter(|path| !is_test(path)) {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            for declared in types(&read(&path)) {
                here.entry(declared.to_owned()).or_default().push(shown.clone());
            }
        }
        for (declared, files) in &here {
            if files.len() > 1 && !NAMESAKES.contains(&name.as_str()) {
                complaints.push(format!("{}: a type named {declared} twice in a crate", files.join(", ")));
            }
            everywhere.entry(declared.clone()).or_default().extend(files.iter().cloned());
        }
    }
    for name in ONCE {
        let files = everywhere.get(name).map_or(&[][..], Vec::as_slice);
        if files.len() > 1 {
            complaints.push(format!("{}: a type named {name} may exist once", files.join(", ")));
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

/// The types of a file's modules, private ones included. Types that only its tests have are left out.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let mut is_for_tests = false;
    let product = text.lines().take_while(move |line| {
        let ends = is_for_tests && line.starts_with("mod ") && line.ends_with('{');
        is_for_tests = *line == "#[cfg(test)]";
        !ends
    });
    product.filter_map(declared_type)
}

/// The name of a type that is declared on this line, at the top of a file.
fn declared_type(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let mut words = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_type = ["struct", "enum", "trait", "type"].contains(&words.next()?);
    words.next().filter(|_| is_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_identifiers_and_over_lines() {
        let phrases = |text: &str| banned_in(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(phrases("fn opened_anew() {}\nCaller::Nobody"), [1, 2]);
        assert_eq!(phrases("/// the answer of\n/// before"), [1]);
        assert_eq!(phrases("if that one, too"), [1]);
        assert_eq!(phrases("and that one's turn"), [1]);
        assert!(phrases("the leases that one stream may name; a new one").is_empty());
    }

    #[test]
    fn types_are_those_of_modules_without_their_tests() {
        let text = "#[cfg(test)]\nmod tests;\npub struct A(u8);\npub(in crate::a) enum B<T> {}\nstruct C;\n    type D = u8;\n\
                    #[cfg(test)]\nmod more {\nstruct E;";
        assert_eq!(types(text).collect::<Vec<_>>(), ["A", "B", "C"]);
    }
}
