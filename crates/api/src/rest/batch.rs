//! Several keys in one request: each goes the way that it would go alone, and has a status of its own.
//! 200 when all went well, 207 when some did, 503 when none did for want of replicas; what is wrong with one entry
//! does not hold up the others.

use super::asked::{Asked, Whole, parse_json};
use super::data;
use super::refusal::Refusal;
use super::sight::{self, Sight};
use super::store::Entry;
use super::{Rest, json, session, write};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base::Code;
use base::limits::MESH_PAGE_KEYS_MAX;
use mesh::record::Record;
use mesh::request::{Reply, Request, Write};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

pub const WRITE_PARAMS: [&str; 3] = ["w", "sloppy", "timeout_ms"];
pub const READ_PARAMS: [&str; 2] = ["r", "timeout_ms"];
const WRITE_RIGHT: &str = r#"{"entries": [{"key": "user_a", "value": "100"}, …]}"#;
const READ_RIGHT: &str = r#"{"keys": ["user_a", "user_b", …]}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries<'a> {
    /// Each is looked at by itself.
    #[serde(borrow)]
    entries: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    keys: Vec<String>,
}

/// `POST /v1/data/batch` reads or writes, as its body says.
pub async fn either(rest: State<Rest>, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    let fields: std::collections::BTreeMap<String, &RawValue> =
        parse_json(&body, &format!("{READ_RIGHT} to read, {WRITE_RIGHT} to write"))?;
    match (fields.contains_key("keys"), fields.contains_key("entries")) {
        (true, false) => read(rest, asked, Whole(body.clone())).await,
        (false, true) => write(rest, asked, Whole(body.clone())).await,
        _ => Err(Refusal::bad(format!(
            "the body must have either keys or entries; {READ_RIGHT} reads, {WRITE_RIGHT} writes"
        ))),
    }
}

/// The key of an entry, as far as it could be read, and what became of it.
type Outcome = (Option<String>, Result<Box<Record>, Refusal>);

pub async fn write(State(rest): State<Rest>, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    asked.query.only(&WRITE_PARAMS)?;
    let Entries { entries } = parse_json(&body, WRITE_RIGHT)?;
    check_count(entries.len())?;
    let mut results: Vec<Outcome> = Vec::with_capacity(entries.len());
    let (mut writes, mut places) = (Vec::new(), Vec::new());
    for (part, entry) in entries.iter().enumerate() {
        let (key, parsed) = parse_entry(&rest, &asked, entry, part);
        match parsed {
            Ok(write) => {
                writes.push(write);
                places.push(part);
                results.push((key, Err(Code::Timeout.into())));
            }
            Err(refusal) => results.push((key, Err(refusal))),
        }
    }
    if !writes.is_empty() {
        let replies = ask_all(&rest, writes, asked.timeout()?).await?;
        for (part, reply) in places.into_iter().zip(replies) {
            results[part].1 = write::settled(reply);
        }
    }
    let written = results.iter().filter_map(|(_, result)| result.as_deref().ok());
    let token = session::token(&asked, written)?;
    let parts = results.into_iter().map(|(key, result)| {
        let written = |record: Box<Record>| {
            Map::from_iter([("timestamp".to_owned(), Value::from(record.updated_ms()))])
        };
        part_of(key, result.map(written))
    });
    Ok(in_session(answer(parts.collect()), token))
}

fn in_session(mut response: Response, token: Option<HeaderValue>) -> Response {
    if let Some(token) = token {
        response.headers_mut().insert(session::HEADER, token);
    }
    response
}

fn parse_entry(
    rest: &Rest,
    asked: &Asked,
    entry: &RawValue,
    part: usize,
) -> (Option<String>, Result<Write, Refusal>) {
    let entry: Entry<'_> = match parse_json(entry.get().as_bytes(), r#"{"key": "user_a", "value": "100"}"#) {
        Ok(entry) => entry,
        Err(refusal) => return (None, Err(refusal)),
    };
    let (key, given) = entry.given();
    let write = asked.key_of(&key).and_then(|key| write::of_given(rest, asked, key, given, Some(part)));
    (Some(key.into_owned()), write)
}

async fn ask_all(rest: &Rest, writes: Vec<Write>, timeout: Option<Duration>) -> Result<Vec<Reply>, Refusal> {
    match rest.ask(Request::Batch(writes), timeout).await? {
        Reply::Batch(replies) => Ok(replies),
        other => unreachable!("a batch is not answered by {other:?}"),
    }
}

pub async fn read(State(rest): State<Rest>, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    asked.query.only(&READ_PARAMS)?;
    let Keys { keys } = parse_json(&body, READ_RIGHT)?;
    check_count(keys.len())?;
    let asked = Arc::new(asked);
    let mut reads = JoinSet::new();
    let mut results: Vec<Result<Sight, Refusal>> = Vec::with_capacity(keys.len());
    for (part, text) in keys.iter().enumerate() {
        match asked.key_of(text) {
            Ok(key) => {
                let (rest, asked) = (rest.clone(), asked.clone());
                reads.spawn(async move { (part, sight::look(&rest, &asked, key).await) });
                results.push(Err(Code::Timeout.into()));
            }
            Err(refusal) => results.push(Err(refusal)),
        }
    }
    while let Some(read) = reads.join_next().await {
        let (part, result) = read.expect("a read does not panic");
        results[part] = result;
    }
    let token = session::token(&asked, results.iter().flatten().flat_map(Sight::seen))?;
    let parts = keys.into_iter().zip(results).map(|(key, result)| {
        let found =
            result.and_then(|sight| sight.live(&rest, &asked)).map(|record| data::part(&rest, &record));
        part_of(Some(key), found)
    });
    Ok(in_session(answer(parts.collect()), token))
}

fn check_count(n: usize) -> Result<(), Refusal> {
    match n {
        0 => Err(Refusal::bad("the batch is empty; it takes 1 to 1000 keys")),
        1..=MESH_PAGE_KEYS_MAX => Ok(()),
        n => Err(Refusal::new(
            Code::TooManyOps,
            format!("a batch takes at most {MESH_PAGE_KEYS_MAX} keys, this one has {n}"),
        )),
    }
}

/// What became of one key: its status first, then what it has to say.
fn part_of(key: Option<String>, result: Result<Map<String, Value>, Refusal>) -> (StatusCode, Value) {
    let (status, mut said) = match result {
        Ok(said) => (StatusCode::OK, said),
        Err(refusal) => (refusal.status(), refusal.body()),
    };
    said.insert("key".to_owned(), key.map_or(Value::Null, Value::from));
    // A write that is indeterminate says so in a word of its own.
    let word = said.remove("status").map(|word| ("state".to_owned(), word));
    said.extend(word);
    said.insert("status".to_owned(), status.as_u16().into());
    (status, Value::Object(said))
}

fn answer(parts: Vec<(StatusCode, Value)>) -> Response {
    let statuses: Vec<StatusCode> = parts.iter().map(|(status, _)| *status).collect();
    let succeeded = statuses.iter().filter(|status| status.is_success()).count();
    let body = serde_json::json!({
        "succeeded": succeeded,
        "failed": statuses.len() - succeeded,
        "results": parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>(),
    });
    let mut response = json(&body);
    *response.status_mut() = whole(&statuses);
    response
}

/// What the parts amount to. When all of them failed by the client's fault, no repetition would help.
fn whole(statuses: &[StatusCode]) -> StatusCode {
    let succeeded = statuses.iter().filter(|status| status.is_success()).count();
    match succeeded {
        all if all == statuses.len() => StatusCode::OK,
        0 if statuses.iter().any(|status| status.is_server_error()) => StatusCode::SERVICE_UNAVAILABLE,
        0 if statuses.iter().all(|status| *status == statuses[0]) => statuses[0],
        _ => StatusCode::MULTI_STATUS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_make_the_whole() {
        let whole = |statuses: &[u16]| {
            let statuses: Vec<StatusCode> =
                statuses.iter().map(|status| StatusCode::from_u16(*status).unwrap()).collect();
            whole(&statuses).as_u16()
        };
        assert_eq!(whole(&[200, 200]), 200);
        assert_eq!(whole(&[200, 503]), 207);
        assert_eq!(whole(&[200, 400]), 207);
        assert_eq!(whole(&[503, 503]), 503);
        assert_eq!(whole(&[400, 503]), 503);
        assert_eq!(whole(&[404, 404]), 404);
        assert_eq!(whole(&[404, 410]), 207);
    }
}
