//! The keys of a running Redis, by SCAN: strings as they are, hashes as JSON objects, lists and sorted sets as JSON lists, sets as sets.
//! What has no counterpart is left out and named.

use super::resp::{self, Reply};
use super::row::{Row, RowValue, json_of};
use super::source::{Chunk, Position};
use crate::client::Error;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A hint to Redis how many keys it looks at in one call.
const SCAN_KEYS: &[u8] = b"500";
/// So many keys are asked for before their answers are read.
const PIPELINE: usize = 100;

/// The user that logs in, and the database that is read.
pub struct RedisLogin {
    pub user: Option<String>,
    pub password: Option<String>,
    pub db: u32,
}

pub struct RedisSource {
    endpoint: String,
    stream: BufReader<TcpStream>,
    patience: Duration,
    /// The id of one start of the server: a cursor means nothing to another.
    run_id: String,
    pattern: Vec<u8>,
    cursor: u64,
    at_end: bool,
    pub total: u64,
    pub done: u64,
}

/// What SCAN takes for all keys that begin with this.
fn pattern_of(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::new();
    for byte in prefix {
        if b"*?[]^\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

impl RedisSource {
    pub async fn connect(
        endpoint: &str,
        login: &RedisLogin,
        prefix: &[u8],
        patience: Duration,
    ) -> Result<RedisSource, Error> {
        let trouble = |error: std::io::Error| Error::Incomplete(format!("Redis at {endpoint}: {error}"));
        let connected = timeout(patience, TcpStream::connect(endpoint)).await;
        let late = || Err(std::io::ErrorKind::TimedOut.into());
        let stream = connected.unwrap_or_else(|_| late()).map_err(trouble)?;
        let mut source = RedisSource {
            endpoint: endpoint.to_owned(),
            stream: BufReader::new(stream),
            patience,
            run_id: String::new(),
            pattern: pattern_of(prefix),
            cursor: 0,
            at_end: false,
            total: 0,
            done: 0,
        };
        if let Some(password) = &login.password {
            let words = [Some("AUTH"), login.user.as_deref(), Some(password.as_str())];
            let words: Vec<&[u8]> = words.iter().flatten().map(|word| word.as_bytes()).collect();
            source.ask(&words).await?;
        }
        source.ask(&[b"SELECT", login.db.to_string().as_bytes()]).await?;
        if let Ok(info) = source.ask(&[b"INFO", b"server"]).await {
            let text = info.text();
            let run_id = text.lines().find_map(|line| line.strip_prefix("run_id:"));
            source.run_id = run_id.unwrap_or_default().trim().to_owned();
        }
        if let Reply::Number(n) = source.ask(&[b"DBSIZE"]).await? {
            source.total = u64::try_from(n).unwrap_or(0);
        }
        Ok(source)
    }

    pub fn position(&self) -> Position {
        Position::Scan { run_id: self.run_id.clone(), cursor: self.cursor, done: self.done }
    }

    /// From the beginning, if the server has started again meanwhile.
    pub fn go_on(&mut self, run_id: &str, cursor: u64, done: u64) {
        if !self.run_id.is_empty() && run_id == self.run_id {
            (self.cursor, self.done) = (cursor, done);
        }
    }

    /// None at the end.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        if self.at_end {
            return Ok(None);
        }
        let (cursor, pattern) = (self.cursor.to_string(), self.pattern.clone());
        let words = [b"SCAN", cursor.as_bytes(), b"MATCH", &pattern, b"COUNT", SCAN_KEYS];
        let Reply::List(page) = self.ask(&words).await? else { return Err(self.unexpected("SCAN")) };
        let [cursor, Reply::List(keys)] = page.as_slice() else { return Err(self.unexpected("SCAN")) };
        self.cursor = cursor.text().parse().map_err(|_| self.unexpected("SCAN"))?;
        self.at_end = self.cursor == 0;
        let mut chunk = Chunk::default();
        for keys in keys.chunks(PIPELINE) {
            let keys: Vec<&[u8]> = keys
                .iter()
                .filter_map(|key| if let Reply::Bytes(key) = key { Some(key.as_slice()) } else { None })
                .collect();
            self.read_keys(&keys, &mut chunk).await?;
        }
        self.done += keys.len() as u64;
        Ok(Some(chunk))
    }

    async fn read_keys(&mut self, keys: &[&[u8]], chunk: &mut Chunk) -> Result<(), Error> {
        let about = keys.iter().flat_map(|key| [vec![&b"TYPE"[..], key], vec![&b"PTTL"[..], key]]).collect();
        let about = self.ask_all(about).await?;
        let mut wanted = Vec::new();
        for (key, about) in keys.iter().zip(about.chunks(2)) {
            let kind = about[0].text();
            match command(&kind, key) {
                Some(command) => wanted.push((*key, kind, ttl_of(&about[1]), command)),
                None if kind == "none" => chunk.ended += 1,
                None => chunk.left_out.push(format!("{} is a {kind}", String::from_utf8_lossy(key))),
            }
        }
        let commands = wanted.iter().map(|(.., command)| command.clone()).collect();
        let replies = self.ask_all(commands).await?;
        for ((key, kind, ttl, _), reply) in wanted.into_iter().zip(replies) {
            let name = || String::from_utf8_lossy(key).into_owned();
            let is_gone = matches!(&reply, Reply::Nothing) || reply == Reply::List(Vec::new());
            match (ttl, value_of(&kind, reply)) {
                (Ttl::Gone, _) => chunk.ended += 1,
                _ if is_gone => chunk.ended += 1,
                (_, Err(what)) => chunk.left_out.push(format!("{}: {what}", name())),
                (ttl, Ok(value)) => {
                    let ttl = if let Ttl::Seconds(ttl) = ttl { Some(ttl) } else { None };
                    // Only a register expires.
                    let kind = if kind == "set" && ttl.is_none() { "orset" } else { "" };
                    let (key, kind) = (key.to_vec(), kind.to_owned());
                    chunk.rows.push(Row { key, value, kind, ttl, lease: None });
                }
            }
        }
        Ok(())
    }

    async fn ask(&mut self, command: &[&[u8]]) -> Result<Reply, Error> {
        let replies = self.ask_all(vec![command.to_vec()]).await?;
        match replies.into_iter().next() {
            Some(Reply::Refused(text)) => {
                Err(Error::Incomplete(format!("Redis at {}: {text}", self.endpoint)))
            }
            Some(reply) => Ok(reply),
            None => Err(self.unexpected("a command")),
        }
    }

    /// All are sent before the first answer is read.
    async fn ask_all(&mut self, commands: Vec<Vec<&[u8]>>) -> Result<Vec<Reply>, Error> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| resp::encode(command)).collect();
        let trouble =
            |error: std::io::Error| Error::Incomplete(format!("Redis at {}: {error}", self.endpoint));
        let late = || Err(std::io::ErrorKind::TimedOut.into());
        let sent = timeout(self.patience, self.stream.get_mut().write_all(&bytes)).await;
        sent.unwrap_or_else(|_| late()).map_err(trouble)?;
        let mut replies = Vec::with_capacity(commands.len());
        for _ in commands {
            let reply = timeout(self.patience, resp::read(&mut self.stream)).await;
            let late = || Err(std::io::ErrorKind::TimedOut.into());
            replies.push(reply.unwrap_or_else(|_| late()).map_err(trouble)?);
        }
        Ok(replies)
    }

    fn unexpected(&self, command: &str) -> Error {
        Error::Incomplete(format!("Redis at {}: an answer to {command} that is none", self.endpoint))
    }
}

enum Ttl {
    Never,
    Seconds(u64),
    Gone,
}

fn ttl_of(reply: &Reply) -> Ttl {
    match reply {
        Reply::Number(-2 | 0) => Ttl::Gone,
        Reply::Number(ms @ 1..) => Ttl::Seconds((*ms as u64).div_ceil(1_000)),
        _ => Ttl::Never,
    }
}

/// Which command reads a value of this type.
fn command<'a>(kind: &str, key: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    match kind {
        "string" => Some(vec![b"GET", key]),
        "hash" => Some(vec![b"HGETALL", key]),
        "set" => Some(vec![b"SMEMBERS", key]),
        "list" => Some(vec![b"LRANGE", key, b"0", b"-1"]),
        "zset" => Some(vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
        _ => None,
    }
}

fn value_of(kind: &str, reply: Reply) -> Result<RowValue, String> {
    let list = match (kind, reply) {
        (_, Reply::Refused(text)) => return Err(text),
        ("string", Reply::Bytes(bytes)) => return Ok(RowValue::of_bytes(bytes)),
        (_, Reply::List(list)) => list,
        (_, Reply::Nothing) => Vec::new(),
        _ => return Err(format!("its answer is not that of a {kind}")),
    };
    let text = |reply: &Reply| match reply {
        Reply::Bytes(bytes) => {
            String::from_utf8(bytes.clone()).map_err(|_| format!("this {kind} has bytes that are no UTF-8"))
        }
        other => Ok(other.text()),
    };
    let mut texts = list.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let value = match kind {
        "hash" => {
            let field = |pair: &[String]| Some((pair.first()?.clone(), Value::from(pair.get(1)?.as_str())));
            Value::Object(texts.chunks(2).filter_map(field).collect::<Map<_, _>>())
        }
        "zset" => {
            let pair = |pair: &[String]| {
                let score = pair.get(1).map_or("", String::as_str);
                let number = serde_json::from_str(score).ok().filter(Value::is_number);
                Value::from(vec![Value::from(pair[0].as_str()), number.unwrap_or_else(|| Value::from(score))])
            };
            Value::Array(texts.chunks(2).map(pair).collect())
        }
        "set" => {
            texts.sort_unstable();
            Value::from(texts)
        }
        _ => Value::from(texts),
    };
    Ok(json_of(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Reply {
        Reply::List(texts.iter().map(|text| Reply::Bytes((*text).into())).collect())
    }

    #[test]
    fn each_type_has_its_json() {
        let value = |kind: &str, reply| value_of(kind, reply);
        let json = |text: &str| Ok(RowValue::Json(text.to_owned()));
        assert_eq!(value("string", Reply::Bytes(vec![255])), Ok(RowValue::of_blob(vec![255], "")));
        assert_eq!(value("hash", list(&["a", "1", "b", "2"])), json(r#"{"a":"1","b":"2"}"#));
        assert_eq!(value("list", list(&["b", "a", "b"])), json(r#"["b","a","b"]"#));
        assert_eq!(value("set", list(&["b", "a"])), json(r#"["a","b"]"#));
        assert_eq!(value("zset", list(&["a", "1.5", "b", "inf"])), json(r#"[["a",1.5],["b","inf"]]"#));
        assert!(value("set", Reply::List(vec![Reply::Bytes(vec![255])])).is_err());
        assert!(value("list", Reply::Refused("WRONGTYPE".into())).is_err());
        assert!(command("stream", b"a").is_none());
    }

    #[test]
    fn a_prefix_is_taken_as_it_is() {
        assert_eq!(pattern_of(b"a[1]*"), br"a\[1\]\**");
        assert_eq!(pattern_of(b""), b"*");
    }
}
