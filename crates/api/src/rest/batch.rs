//! Several keys in one request: each is served as it would be alone, and has a status of its own.
//! 200 when all went well, 207 when some did, 503 when none did for want of replicas; what is wrong with one part
//! does not delay the others, and the order of execution is not defined.

use super::data;
use super::read_result::{self, ReadResult};
use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, parse_json};
use super::store::StoreEntry;
use super::write::{self, WriteIntent};
use super::{Rest, clock, json, session};
use axum::http::StatusCode;
use axum::response::Response;
use base::Code;
use base::limits::MESH_PAGE_KEYS_MAX;
use mesh::{Key, Kind, Op, Record, Write};
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
enum BatchOperation<'a> {
    Get(String),
    #[serde(borrow)]
    Put(StoreEntry<'a>),
    Delete(String),
}

/// One key of the request, as far as it could be read, and what is to be done.
pub struct BatchPart {
    pub key: Option<String>,
    pub step: Result<BatchStep, Refusal>,
}

pub enum BatchStep {
    Read(Key),
    Write(Box<Write>),
}

pub enum PartOutcome {
    Seen(ReadResult),
    Written(Box<Record>),
}

/// `POST /v1/data/batch` reads or writes, or does both, as its body says.
pub async fn either(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let right = format!("{READ_RIGHT} to read, {WRITE_RIGHT} to write, or {MIXED_RIGHT}");
    let fields: std::collections::BTreeMap<String, &RawValue> = parse_json(&body, &right)?;
    match fields.keys().map(String::as_str).collect::<Vec<_>>()[..] {
        ["keys"] => read(rest, head, WholeBody(body.clone())).await,
        ["entries"] => write(rest, head, WholeBody(body.clone())).await,
        ["operations"] => mixed(rest, head, WholeBody(body.clone())).await,
        _ => Err(Refusal::bad(format!("the body must have one of keys, entries and operations: {right}"))),
    }
}

pub async fn write(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&WRITE_PARAMS)?;
    let Entries { entries } = parse_json(&body, WRITE_RIGHT)?;
    let parts = entries.iter().enumerate().map(|(nth, entry)| {
        match parse_json(entry.get().as_bytes(), r#"{"key": "user_a", "value": "100"}"#) {
            Ok(entry) => put(&rest, &head, entry, nth),
            Err(refusal) => BatchPart { key: None, step: Err(refusal) },
        }
    });
    let parts = parts.collect();
    execute(rest, head, parts).await
}

pub async fn read(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&READ_PARAMS)?;
    let Keys { keys } = parse_json(&body, READ_RIGHT)?;
    let parts = keys.into_iter().map(|key| get(&head, key)).collect();
    execute(rest, head, parts).await
}

async fn mixed(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    head.query.only(&PARAMS)?;
    let Operations { operations } = parse_json(&body, MIXED_RIGHT)?;
    let parts = operations.iter().enumerate().map(|(nth, operation)| {
        match parse_json(
            operation.get().as_bytes(),
            r#"{"get": KEY}, {"put": {"key": …, "value": …}} or {"delete": KEY}"#,
        ) {
            Ok(BatchOperation::Get(key)) => get(&head, key),
            Ok(BatchOperation::Put(entry)) => put(&rest, &head, entry, nth),
            Ok(BatchOperation::Delete(key)) => delete(&rest, &head, key, nth),
            Err(refusal) => BatchPart { key: None, step: Err(refusal) },
        }
    });
    let parts = parts.collect();
    execute(rest, head, parts).await
}

pub fn get(head: &RequestHead, key: String) -> BatchPart {
    BatchPart { step: head.key_of(&key).map(BatchStep::Read), key: Some(key) }
}

fn put(rest: &Rest, head: &RequestHead, entry: StoreEntry<'_>, nth: usize) -> BatchPart {
    let (key, given) = entry.given();
    let write = head.key_of(&key).and_then(|key| write::of_given(rest, head, key, given, Some(nth)));
    BatchPart { step: write.map(|write| BatchStep::Write(Box::new(write))), key: Some(key.into_owned()) }
}

fn delete(rest: &Rest, head: &RequestHead, key: String, nth: usize) -> BatchPart {
    let what = (Kind::Register, Op::Delete);
    let write = head.key_of(&key).and_then(|key| write::plain(rest, head, key, what, Some(nth)));
    BatchPart { step: write.map(|write| BatchStep::Write(Box::new(write))), key: Some(key) }
}

/// All writes go as one request, the reads beside them.
pub async fn run(
    rest: &Rest,
    head: &Arc<RequestHead>,
    parts: Vec<BatchPart>,
) -> Result<Vec<Result<PartOutcome, Refusal>>, Refusal> {
    check_count(parts.len())?;
    let mut results: Vec<Result<PartOutcome, Refusal>> = Vec::with_capacity(parts.len());
    let (mut writes, mut wanted, mut reads) = (Vec::new(), Vec::new(), JoinSet::new());
    for (nth, BatchPart { step, .. }) in parts.into_iter().enumerate() {
        let refusal = match step {
            Ok(BatchStep::Read(key)) => {
                let (rest, head) = (rest.clone(), head.clone());
                reads.spawn(async move { (nth, read_result::read(&rest, &head, key).await) });
                Code::Timeout.into()
            }
            Ok(BatchStep::Write(write)) => {
                wanted.push((nth, WriteIntent::of(&write)));
                writes.push(*write);
                Code::Timeout.into()
            }
            Err(refusal) => refusal,
        };
        results.push(Err(refusal));
    }
    if !writes.is_empty() {
        let replies = rest.get(writes, head.timeout()?).await?;
        for ((nth, wanted), reply) in wanted.into_iter().zip(replies) {
            results[nth] = wanted.settled(rest, reply).map(PartOutcome::Written);
        }
    }
    while let Some(read) = reads.join_next().await {
        let (nth, result) = read.expect("a read does not panic");
        results[nth] = result.map(PartOutcome::Seen);
    }
    Ok(results)
}

async fn execute(rest: Rest, head: RequestHead, parts: Vec<BatchPart>) -> Result<Response, Refusal> {
    let head = Arc::new(head);
    let keys: Vec<_> = parts.iter().map(|part| part.key.clone()).collect();
    let results = run(&rest, &head, parts).await?;
    let token = session::token(&head, results.iter().flatten().flat_map(PartOutcome::records))?;
    let parts = keys
        .into_iter()
        .zip(results)
        .map(|(key, result)| part_of(key, result.and_then(|outcome| outcome.to_json(&rest, &head))));
    let mut response = answer(parts.collect());
    if let Some(token) = token {
        response.headers_mut().insert(session::HEADER, token);
    }
    Ok(response)
}

impl PartOutcome {
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        match self {
            PartOutcome::Seen(result) => result.record.as_deref(),
            PartOutcome::Written(record) => Some(record.as_ref()),
        }
        .into_iter()
    }

    fn to_json(&self, rest: &Rest, head: &RequestHead) -> Result<Map<String, Value>, Refusal> {
        match self {
            PartOutcome::Seen(result) => result.live(rest, head).map(|record| data::part(rest, &record)),
            PartOutcome::Written(record) => Ok(Map::from_iter([
                ("timestamp".to_owned(), Value::from(record.updated_ms())),
                ("x_vector_clock".to_owned(), clock::code_name(&record.context).into()),
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
