//! The two commands of Redis that the load on the data API is compared with, and the answers to them.
//! A key and perhaps a value go in, the bytes of a request come out; of an answer only its kind and its length are
//! parsed.

use std::io;

/// Reads the key, or sets it to the value.
pub fn ask(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    let words: &[&str] = match value {
        None => &["GET", key],
        Some(value) => &["SET", key, value],
    };
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// As an HTTP status, and the length of the answer, once it is complete enough.
pub fn measure(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let garbage = || io::Error::other("the answer is not one of Redis");
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n").map(|at| at + 2) else { return Ok(None) };
    let number = || std::str::from_utf8(&bytes[1..end - 2]).ok()?.parse::<i64>().ok();
    match bytes[0] {
        b'+' => Ok(Some((200, end))),
        b'-' => Ok(Some((500, end))),
        b'$' => match number().ok_or_else(garbage)? {
            -1 => Ok(Some((404, end))),
            len => Ok(Some((200, end + usize::try_from(len).map_err(|_| garbage())? + 2))),
        },
        _ => Err(garbage()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_those_of_redis() {
        let mut out = Vec::new();
        ask(&mut out, "k", Some("vv"));
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n");
        assert_eq!(measure(b"+OK\r\n").unwrap(), Some((200, 5)));
        assert_eq!(measure(b"$-1\r\n").unwrap(), Some((404, 5)));
        assert_eq!(measure(b"$2\r\nvv\r\n").unwrap(), Some((200, 8)));
        assert_eq!(measure(b"$2").unwrap(), None);
        assert_eq!(measure(b"-ERR\r\n").unwrap(), Some((500, 6)));
        assert!(measure(b"HTTP\r\n").is_err());
        assert!(measure(b"$-7\r\n").is_err());
    }
}
