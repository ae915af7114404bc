//! Quoting and unquoting as Go's `%q` does, which etcdctl prints and reads.
//! Bytes go in and a text in double quotes comes out, and the other way round; bytes that are not UTF-8 survive
//! both ways.

use std::fmt::Write;

pub fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_char(&mut text, c));
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a String takes every write");
        }
    }
    text + "\""
}

fn push_char(text: &mut String, c: char) {
    let short = match c {
        '"' | '\\' => Some(c),
        '\x07' => Some('a'),
        '\x08' => Some('b'),
        '\x0c' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\x0b' => Some('v'),
        _ => None,
    };
    let code = u32::from(c);
    let written = match short {
        Some(letter) => write!(text, "\\{letter}"),
        None if c == '\'' || c.escape_debug().len() == 1 => write!(text, "{c}"),
        None if code < 0x80 => write!(text, "\\x{code:02x}"),
        None if code < 0x1_0000 => write!(text, "\\u{code:04x}"),
        None => write!(text, "\\U{code:08x}"),
    };
    written.expect("a String takes every write");
}

/// Reads a string in double quotes or backquotes at the beginning; returns it and what follows.
pub fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    match text.split_first()? {
        (b'`', rest) => {
            let end = rest.iter().position(|byte| *byte == b'`')?;
            Some((rest[..end].to_vec(), &rest[end + 1..]))
        }
        (b'"', rest) => unquote_double(rest),
        _ => None,
    }
}

fn unquote_double(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut bytes = vec![];
    loop {
        match rest {
            [b'"', after @ ..] => return Some((bytes, after)),
            [b'\\', escape, after @ ..] => rest = unescape(*escape, after, &mut bytes)?,
            [b'\n', ..] | [] | [b'\\'] => return None,
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
}

fn unescape<'a>(escape: u8, after: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    let digits = |n: usize, radix: u32| {
        let digits = std::str::from_utf8(after.get(..n)?).ok()?;
        if !digits.chars().all(|c| c.is_digit(radix)) {
            return None;
        }
        u32::from_str_radix(digits, radix).ok()
    };
    let mut push_char = |code: u32| {
        let c = char::from_u32(code)?;
        bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    };
    match escape {
        b'u' => push_char(digits(4, 16)?).map(|()| &after[4..]),
        b'U' => push_char(digits(8, 16)?).map(|()| &after[8..]),
        b'x' => {
            bytes.push(u8::try_from(digits(2, 16)?).ok()?);
            Some(&after[2..])
        }
        b'0'..=b'7' => {
            let low = digits(2, 8)?;
            bytes.push(u8::try_from(u32::from(escape - b'0') * 64 + low).ok()?);
            Some(&after[2..])
        }
        _ => {
            bytes.push(match escape {
                b'a' => 7,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                b'\\' | b'"' => escape,
                _ => return None,
            });
            Some(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_quoted_as_in_go() {
        assert_eq!(quote(b"a\tb\xff\"\\ \xc3\xa9\x01'"), r#""a\tb\xff\"\\ é\x01'""#);
        assert_eq!(quote("\u{200b}\u{e0001}".as_bytes()), r#""\u200b\U000e0001""#);
    }

    #[test]
    fn every_byte_survives_both_ways() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unquote(quote(&all).as_bytes()), Some((all, &b""[..])));
    }

    #[test]
    fn what_follows_is_left_and_what_is_torn_is_refused() {
        assert_eq!(unquote(br#""a\101\u00e9") = "#), Some((b"aA\xc3\xa9".to_vec(), &b") = "[..])));
        assert_eq!(unquote(br"`a\b`c"), Some((br"a\b".to_vec(), &b"c"[..])));
        for torn in ["", "\"", "\"a", "\"\\", "\"\\q\"", "\"\\x1\"", "\"\\777\"", "a", "\"\\ud800\"", "`a"] {
            assert_eq!(unquote(torn.as_bytes()), None, "{torn}");
        }
    }
}
