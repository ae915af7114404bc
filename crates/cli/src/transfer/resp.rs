//! RESP, the protocol of Redis: commands are written as lists of bytes, replies are read from a stream, piece by piece.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// Redis's own bound of a value.
const BULK_BYTES_MAX: u64 = 512 * 1024 * 1024;
const LINE_BYTES_MAX: u64 = 64 * 1024;
const DEPTH_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Bytes(Vec<u8>),
    Number(i64),
    List(Vec<Reply>),
    Nothing,
    /// What Redis says of a command that it refuses.
    Refused(String),
}

impl Reply {
    pub fn text(&self) -> String {
        match self {
            Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Number(number) => number.to_string(),
            Reply::Refused(text) => text.clone(),
            Reply::List(_) | Reply::Nothing => String::new(),
        }
    }
}

pub fn encode(command: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

enum Token {
    Whole(Reply),
    List(usize),
}

/// The next reply.
pub async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Reply> {
    let mut open: Vec<(usize, Vec<Reply>)> = Vec::new();
    loop {
        let mut reply = match token(from).await? {
            Token::Whole(reply) => reply,
            Token::List(0) => Reply::List(Vec::new()),
            Token::List(_) if open.len() == DEPTH_MAX => return Err(malformed("its lists are too deep")),
            Token::List(n) => {
                open.push((n, Vec::new()));
                continue;
            }
        };
        while let Some((left, mut list)) = open.pop() {
            list.push(reply);
            if left > 1 {
                open.push((left - 1, list));
                reply = Reply::Nothing;
                break;
            }
            reply = Reply::List(list);
        }
        if open.is_empty() {
            return Ok(reply);
        }
    }
}

async fn token(from: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Token> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let text = line.strip_suffix(b"\r\n").ok_or_else(|| malformed("a line does not end"))?;
    let (kind, rest) = text.split_first().ok_or_else(|| malformed("a line is empty"))?;
    let number = || {
        let number = std::str::from_utf8(rest).ok().and_then(|digits| digits.parse::<i64>().ok());
        number.ok_or_else(|| malformed("a number is none"))
    };
    match (kind, number()) {
        (b'+', _) => Ok(Token::Whole(Reply::Bytes(rest.to_vec()))),
        (b'-', _) => Ok(Token::Whole(Reply::Refused(String::from_utf8_lossy(rest).into_owned()))),
        (b':', number) => Ok(Token::Whole(Reply::Number(number?))),
        (b'$' | b'*', Ok(-1)) => Ok(Token::Whole(Reply::Nothing)),
        (b'$', number) => bulk(from, u64::try_from(number?).unwrap_or(u64::MAX)).await,
        (b'*', number) => {
            usize::try_from(number?).map(Token::List).map_err(|_| malformed("a list has no length"))
        }
        _ => Err(malformed("a reply has an unknown type")),
    }
}

async fn bulk(from: &mut (impl AsyncBufRead + Unpin), length: u64) -> std::io::Result<Token> {
    if length > BULK_BYTES_MAX {
        return Err(malformed("a value is too long"));
    }
    let mut bytes = Vec::new();
    from.take(length + 2).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 != length + 2 || !bytes.ends_with(b"\r\n") {
        return Err(malformed("a value is cut off"));
    }
    bytes.truncate(bytes.len() - 2);
    Ok(Token::Whole(Reply::Bytes(bytes)))
}

fn malformed(what: &str) -> std::io::Error {
    std::io::Error::other(format!("the answer is not of Redis: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut bytes: &[u8]) -> std::io::Result<Vec<Reply>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut replies = Vec::new();
            while !bytes.is_empty() {
                replies.push(read(&mut bytes).await?);
            }
            Ok(replies)
        })
    }

    #[test]
    fn replies_are_read_with_lists_in_lists() {
        let bytes = b"+OK\r\n:-7\r\n$-1\r\n*-1\r\n$4\r\na\r\nb\r\n-ERR no\r\n*0\r\n*2\r\n$1\r\n0\r\n*2\r\n*0\r\n:1\r\n";
        let text = |text: &str| Reply::Bytes(text.into());
        let inner = Reply::List(vec![Reply::List(Vec::new()), Reply::Number(1)]);
        let wanted = vec![
            text("OK"),
            Reply::Number(-7),
            Reply::Nothing,
            Reply::Nothing,
            text("a\r\nb"),
            Reply::Refused("ERR no".into()),
            Reply::List(Vec::new()),
            Reply::List(vec![text("0"), inner]),
        ];
        assert_eq!(read_all(bytes).unwrap(), wanted);
        for cut in 1..bytes.len() {
            let read = read_all(&bytes[..cut]);
            assert!(read.is_err() || read.is_ok_and(|read| wanted.starts_with(&read)), "{cut}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let deep = "*1\r\n".repeat(100);
        let bad = [
            "HTTP/1.1 400\r\n",
            "$5\r\nabc\r\n",
            "$999999999999\r\n",
            "*-2\r\n",
            ":x\r\n",
            "\r\n",
            "+OK\n",
            &deep,
        ];
        for bad in bad {
            assert!(read_all(bad.as_bytes()).is_err(), "{bad:?}");
        }
        for seed in 0..2_000_u64 {
            let byte = |nth| b"*$:+-0123\r\nab"[base::rng::mix(seed * 64 + nth) as usize % 13];
            let _ = read_all(&(0..48).map(byte).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn commands_are_lists_of_bytes() {
        assert_eq!(encode(&[b"GET", b"a\n"]), b"*2\r\n$3\r\nGET\r\n$2\r\na\n\r\n");
    }
}
