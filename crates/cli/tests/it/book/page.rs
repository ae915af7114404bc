//! Blocks of code of a Markdown page, with what is to be done with each.

use std::path::Path;

pub struct Page {
    pub blocks: Vec<Block>,
}

pub struct Block {
    pub language: String,
    pub action: Action,
    /// A library that the example needs; of a shell, programs.
    pub library: Option<String>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Run,
    Serve,
}

impl Page {
    /// Only the blocks that something is done with.
    pub fn parse(text: &str) -> Page {
        let mut blocks = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(info) = line.strip_prefix("```") else { continue };
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            blocks.extend(Block::of(info, &body));
        }
        Page { blocks }
    }

    pub fn has_examples(&self) -> bool {
        !self.blocks.is_empty()
    }

    pub fn begins_with_serving(&self) -> bool {
        self.blocks.first().is_some_and(|block| block.action == Action::Serve)
    }
}

impl Block {
    fn of(info: &str, body: &[&str]) -> Option<Block> {
        let mut words = info.split_whitespace();
        let language = words.next()?.to_owned();
        let action = match words.next()? {
            "run" => Action::Run,
            "serve" => Action::Serve,
            _ => return None,
        };
        let library = words.find_map(|word| word.strip_prefix("lib=")).map(str::to_owned);
        Some(Block { language, action, library, text: body.join("\n") + "\n" })
    }
}

/// What a comment says is printed, if it says so.
pub fn expectation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("#> ").or_else(|| line.strip_prefix("//> "))
}

/// Whether all pieces of the pattern, cut at `…`, come in this order.
pub fn contains(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('…').map(str::trim).all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// The pages that people read, by their paths in the repository.
pub fn markdown_files(root: &Path) -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    for dir in ["docs", "docs/guide", "docs/operations"] {
        let files = std::fs::read_dir(root.join(dir)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        found.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{dir}/{name}")));
    }
    found
}

#[test]
fn blocks_are_found_with_what_is_done_with_them() {
    let text = "a\n```sh run\nx\n#> y\n```\n```sh\nnot\n```\n```python run lib=etcd3\nz\n```\n";
    let page = Page::parse(text);
    let found: Vec<(&str, Option<&str>)> =
        page.blocks.iter().map(|block| (block.language.as_str(), block.library.as_deref())).collect();
    assert_eq!(found, [("sh", None), ("python", Some("etcd3"))]);
    assert_eq!(page.blocks[0].text, "x\n#> y\n");
    assert_eq!(expectation("  #> y z"), Some("y z"));
    assert!(contains("one two three", "one … three") && !contains("one two three", "three … one"));
}
