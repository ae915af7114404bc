//! Splits a line of a transaction, or of `watch -i`, into words: bare, 'in single quotes', or "in double quotes" with Go's escapes.

use crate::output::quote::unquote;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// None when a quote is not closed.
pub fn split(line: &[u8]) -> Option<Vec<OsString>> {
    let mut words = vec![];
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        let (word, after) = match first {
            b'"' => unquote(rest)?,
            b'\'' => {
                let end = rest[1..].iter().position(|byte| *byte == b'\'')?;
                (rest[1..][..end].to_vec(), &rest[end + 2..])
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                (rest[..end].to_vec(), &rest[end..])
            }
        };
        words.push(OsString::from_vec(word));
        rest = after.trim_ascii_start();
    }
    Some(words)
}
