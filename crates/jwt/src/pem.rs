//! The blocks of a PEM file (RFC 7468): text goes in, a label and bytes for each block come out. Text between blocks
//! is ignored, as usual; a block that is not whole makes the file unreadable.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub label: String,
    pub bytes: Vec<u8>,
}

pub(crate) fn blocks(text: &str) -> Option<Vec<Block>> {
    let mut lines = text.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(label) = lines.by_ref().find_map(|line| between(line, "-----BEGIN ")) {
        let mut letters = String::new();
        loop {
            let line = lines.next()?;
            if let Some(end) = between(line, "-----END ") {
                if end != label {
                    return None;
                }
                break;
            }
            letters.push_str(line);
        }
        // An encrypted key of the old kind has headers here, which are no base64: it is refused with the rest.
        found.push(Block { label: label.to_owned(), bytes: STANDARD.decode(letters).ok()? });
    }
    Some(found)
}

fn between<'a>(line: &'a str, opening: &str) -> Option<&'a str> {
    line.strip_prefix(opening)?.strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_other_text() {
        let text = "bag attributes\n-----BEGIN A KEY-----\r\nAQI\nD\n-----END A KEY-----\n\n-----BEGIN B-----\n-----END B-----\n";
        let found = blocks(text).unwrap();
        assert_eq!(found[0], Block { label: "A KEY".to_owned(), bytes: vec![1, 2, 3] });
        assert_eq!(found[1], Block { label: "B".to_owned(), bytes: vec![] });
        assert_eq!(blocks("").unwrap(), []);
    }

    #[test]
    fn a_block_that_is_not_whole_is_refused() {
        for text in [
            "-----BEGIN A-----\nAQID\n",
            "-----BEGIN A-----\nAQID\n-----END B-----\n",
            "-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\n\nAQID\n-----END A-----\n",
        ] {
            assert_eq!(blocks(text), None, "{text}");
        }
    }
}
