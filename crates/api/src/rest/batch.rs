//! Several keys in one request: each is served as it would be alone, and has a status of its own.
//! 200 when all went well, 207 when some did, 503 when none did for want of replicas; what is wrong with one part
//! does not delay the others, and the order of execution is not defined.

use super::asked::{Asked, Whole, parse_json};
use super::data;
use super::refusal::Refusal;
use super::sight::{self, Sight};
use super::store::Entry;
use super::write::{self, Wanted};
use super::{Rest, clock, json, session};
use axum::http::StatusCode;
use axum::response::Response;
use base::Code;
use base::limits::MESH_PAGE_KEYS_MAX;
use mesh::Op;
use mesh::key::Key;
use mesh::record::{Kind, Record};
use mesh::request::{Reply, Request, Write};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::task::JoinSet;

pub const PARAMS: [&str; 4] = ["r", "w", "sloppy", "timeout_ms"];
pub const WRITE_PARAMS: [&str; 3] = ["w", "sloppy", "timeout_ms"];
pub const READ_PARAMS: [&str; 2] = ["r", "timeout_ms"];
const WRITE_RIGHT: &str = r#"{"entries": [{"key": "user_a", "value": "100"}, …]}"#;
const READ_RIGHT: &str = r#"{"keys": ["user_a", "user_b", …]}"#;
const MIXED_RIGHT: &str = r#"{"operations": [{"get": "user_a"}, {"put": {"key": "user_b", "value": "200"}}, {"delete": "user_c"}, …]}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries<'a> {
    /// Each is parsed by itself.
    #[serde(borrow)]
    entries: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    keys: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Operations<'a> {
    #[serde(borrow)]
    operations: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation<'a> {
    Get(String),
    #[serde(borrow)]
    Put(Entry<'a>),
    Delete(String),
}

/// One key of the request, as far as it could be read, and what is to be done.
struct Part {
    key: Option<String>,
    step: Result<Step, Refusal>,
}

enum Step {
    Read(Key),
    Write(Box<Write>),
}

enum Outcome {
    Seen(Sight),
    Written(Box<Record>),
}

/// `POST /v1/data/batch` reads or writes, or does both, as its body says.
pub async fn either(rest: Rest, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    let right = format!("{READ_RIGHT} to read, {WRITE_RIGHT} to write, or {MIXED_RIGHT}");
    let fields: std::collections::BTreeMap<String, &RawValue> = parse_json(&body, &right)?;
    match fields.keys().map(String::as_str).collect::<Vec<_>>()[..] {
        ["keys"] => read(rest, asked, Whole(body.clone())).await,
        ["entries"] => write(rest, asked, Whole(body.clone())).await,
        ["operations"] => mixed(rest, asked, Whole(body.clone())).await,
        _ => Err(Refusal::bad(format!("the body must have one of keys, entries and operations: {right}"))),
    }
}

pub async fn write(rest: Rest, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    asked.query.only(&WRITE_PARAMS)?;
    let Entries { entries } = parse_json(&body, WRITE_RIGHT)?;
    let parts = entries.iter().enumerate().map(|(nth, entry)| {
        match parse_json(entry.get().as_bytes(), r#"{"key": "user_a", "value": "100"}"#) {
            Ok(entry) => put(&rest, &asked, entry, nth),
            Err(refusal) => Part { key: None, step: Err(refusal) },
        }
    });
    let parts = parts.collect();
    carry_out(rest, asked, parts).await
}

pub async fn read(rest: Rest, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    asked.query.only(&READ_PARAMS)?;
    let Keys { keys } = parse_json(&body, READ_RIGHT)?;
    let parts = keys.into_iter().map(|key| get(&asked, key)).collect();
    carry_out(rest, asked, parts).await
}

async fn mixed(rest: Rest, asked: Asked, Whole(body): Whole) -> Result<Response, Refusal> {
    asked.query.only(&PARAMS)?;
    let Operations { operations } = parse_json(&body, MIXED_RIGHT)?;
    let parts = operations.iter().enumerate().map(|(nth, operation)| {
        match parse_json(
            operation.get().as_bytes(),
            r#"{"get": KEY}, {"put": {"key": …, "value": …}} or {"delete": KEY}"#,
        ) {
            Ok(Operation::Get(key)) => get(&asked, key),
            Ok(Operation::Put(entry)) => put(&rest, &asked, entry, nth),
            Ok(Operation::Delete(key)) => delete(&rest, &asked, key, nth),
            Err(refusal) => Part { key: None, step: Err(refusal) },
        }
    });
    let parts = parts.collect();
    carry_out(rest, asked, parts).await
}

fn get(asked: &Asked, key: String) -> Part {
    Part { step: asked.key_of(&key).map(Step::Read), key: Some(key) }
}

fn put(rest: &Rest, asked: &Asked, entry: Entry<'_>, nth: usize) -> Part {
    let (key, given) = entry.given();
    let write = asked.key_of(&key).and_then(|key| write::of_given(rest, asked, key, given, Some(nth)));
    Part { step: write.map(|write| Step::Write(Box::new(write))), key: Some(key.into_owned()) }
}

fn delete(rest: &Rest, asked: &Asked, key: String, nth: usize) -> Part {
    let what = (Kind::Register, Op::Delete);
    let write = asked.key_of(&key).and_then(|key| write::plain(rest, asked, key, what, Some(nth)));
    Part { step: write.map(|write| Step::Write(Box::new(write))), key: Some(key) }
}

/// All writes go as one request, the reads beside them.
async fn carry_out(rest: Rest, asked: Asked, parts: Vec<Part>) -> Result<Response, Refusal> {
    check_count(parts.len())?;
    let asked = Arc::new(asked);
    let mut keys = Vec::with_capacity(parts.len());
    let mut results: Vec<Result<Outcome, Refusal>> = Vec::with_capacity(parts.len());
    let (mut writes, mut wanted, mut reads) = (Vec::new(), Vec::new(), JoinSet::new());
    for (nth, Part { key, step }) in parts.into_iter().enumerate() {
        keys.push(key);
        let refusal = match step {
            Ok(Step::Read(key)) => {
                let (rest, asked) = (rest.clone(), asked.clone());
                reads.spawn(async move { (nth, sight::look(&rest, &asked, key).await) });
                Code::Timeout.into()
            }
            Ok(Step::Write(write)) => {
                wanted.push((nth, Wanted::of(&write)));
                writes.push(*write);
                Code::Timeout.into()
            }
            Err(refusal) => refusal,
        };
        results.push(Err(refusal));
    }
    if !writes.is_empty() {
        let replies = match rest.ask(Request::Batch(writes), asked.timeout()?).await? {
            Reply::Batch(replies) => replies,
            other => unreachable!("a batch is not answered by {other:?}"),
        };
        for ((nth, wanted), reply) in wanted.into_iter().zip(replies) {
            results[nth] = wanted.settled(&rest, reply).map(Outcome::Written);
        }
    }
    while let Some(read) = reads.join_next().await {
        let (nth, result) = read.expect("a read does not panic");
        results[nth] = result.map(Outcome::Seen);
    }
    let token = session::token(&asked, results.iter().flatten().flat_map(Outcome::records))?;
    let parts = keys
        .into_iter()
        .zip(results)
        .map(|(key, result)| part_of(key, result.and_then(|outcome| outcome.said(&rest, &asked))));
    let mut response = answer(parts.collect());
    if let Some(token) = token {
        response.headers_mut().insert(session::HEADER, token);
    }
    Ok(response)
}

impl Outcome {
    fn records(&self) -> impl Iterator<Item = &Record> {
        match self {
            Outcome::Seen(sight) => sight.record.as_deref(),
            Outcome::Written(record) => Some(record.as_ref()),
        }
        .into_iter()
    }

    fn said(&self, rest: &Rest, asked: &Asked) -> Result<Map<String, Value>, Refusal> {
        match self {
            Outcome::Seen(sight) => sight.live(rest, asked).map(|record| data::part(rest, &record)),
            Outcome::Written(record) => Ok(Map::from_iter([
                ("timestamp".to_owned(), Value::from(record.updated_ms())),
                ("x_vector_clock".to_owned(), clock::word_of(&record.context).into()),
            ])),
        }
    }
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

/// The result of one key: its status first, then its fields.
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
