//! Several keys in one request: each is served as it would be alone, and has a status of its own.
//! 200 when all went well, 207 when some did, 503 when none did for want of replicas; what is wrong with one part
//! does not delay the others, and the order of execution is not defined.

use super::data;
use super::read_result::{self, ReadResult};
use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, parse_json};
use super::store::StoreEntry;
use super::write::{self, WriteIntent};
use super::{Rest, clock, collections, crdt, json, session};
use axum::http::{HeaderValue, StatusCode};
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
const MIXED_RIGHT: &str = r#"{"operations": [{"get": "user_a"}, {"put": {"key": "user_b", "value": "200"}}, {"delete": "user_c"}, {"crdt": {"type": "counter", "key": "visits", "operation": "increment", "argument": {"amount": 5}}, "options": {"w": 3}}, …]}"#;
const PART_RIGHT: &str = r#"{"get": KEY}, {"put": {"key": …, "value": …}}, {"delete": KEY} or {"crdt": {"type": …, "key": …, "operation": …, "argument": …}}, and for a write "options""#;

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

/// One of these, and options if it writes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchOperation<'a> {
    get: Option<String>,
    #[serde(borrow)]
    put: Option<StoreEntry<'a>>,
    delete: Option<String>,
    #[serde(borrow)]
    crdt: Option<CrdtEntry<'a>>,
    options: Option<WriteOptions>,
}

/// An operation on a value that merges.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrdtEntry<'a> {
    #[serde(rename = "type")]
    kind: String,
    key: String,
    operation: String,
    #[serde(borrow)]
    argument: Option<&'a RawValue>,
}

/// What one write of a batch says for itself; alone it would say so in headers and in its query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteOptions {
    w: Option<u8>,
    sloppy: Option<bool>,
    request_id: Option<String>,
    vector_clock: Option<String>,
    if_vector_clock: Option<String>,
    conflict_resolution: Option<String>,
    fence: Option<String>,
}

/// One key of the request, as far as it could be read, and what is to be done.
pub struct BatchPart {
    pub key: Option<String>,
    pub step: Result<BatchStep, Refusal>,
    /// Of an operation on a value that merges the answer tells the value.
    pub tells_value: bool,
}

pub enum BatchStep {
    Read(Key),
    Write(Box<Write>),
}

pub enum PartOutcome {
    Seen(ReadResult),
    Written(Box<Record>),
}

impl BatchPart {
    pub fn new(key: Option<String>, step: Result<BatchStep, Refusal>) -> BatchPart {
        BatchPart { key, step, tells_value: false }
    }

    pub fn write(key: String, write: Result<Write, Refusal>) -> BatchPart {
        BatchPart::new(Some(key), write.map(|write| BatchStep::Write(Box::new(write))))
    }

    /// What is answered of the value, besides what every write is answered with.
    fn told(&self) -> Option<(Kind, Op)> {
        match &self.step {
            Ok(BatchStep::Write(write)) if self.tells_value => Some((write.kind, write.op.clone())),
            _ => None,
        }
    }
}

impl WriteOptions {
    /// The head that the write would have alone. An id of its own is not that of the batch with the number of the part.
    fn head(self, head: &RequestHead) -> Result<RequestHead, Refusal> {
        let (mut query, mut headers) = (head.query.clone(), head.headers.clone());
        if let Some(w) = self.w {
            query = query.with("w", w);
        }
        if let Some(sloppy) = self.sloppy {
            query = query.with("sloppy", sloppy);
        }
        for (name, text) in [
            ("x-request-id", self.request_id),
            ("x-vector-clock", self.vector_clock),
            ("x-if-vector-clock", self.if_vector_clock),
            ("x-conflict-resolution", self.conflict_resolution),
            ("x-fence", self.fence),
        ] {
            let Some(text) = text else { continue };
            let value = HeaderValue::try_from(text);
            headers.insert(name, value.map_err(|_| Refusal::bad(format!("{name} must be plain text")))?);
        }
        Ok(head.beside(query, headers))
    }
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
            Ok(entry) => put(&rest, &head, entry, Some(nth)),
            Err(refusal) => BatchPart::new(None, Err(refusal)),
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
        match parse_json(operation.get().as_bytes(), PART_RIGHT) {
            Ok(operation) => one(&rest, &head, operation, nth),
            Err(refusal) => BatchPart::new(None, Err(refusal)),
        }
    });
    let parts = parts.collect();
    execute(rest, head, parts).await
}

fn one(rest: &Rest, head: &RequestHead, operation: BatchOperation<'_>, nth: usize) -> BatchPart {
    let BatchOperation { get: read, put: entry, delete: gone, crdt: merged, options } = operation;
    let has_own_id = options.as_ref().is_some_and(|options| options.request_id.is_some());
    let (is_write, nth) = (read.is_none(), Some(nth).filter(|_| !has_own_id));
    let own = match options {
        Some(_) if !is_write => Err(Refusal::bad("options are for writes, and a get has none")),
        Some(options) => options.head(head),
        None => Ok(head.clone()),
    };
    let key = read.as_ref().or(gone.as_ref()).or(merged.as_ref().map(|merged| &merged.key)).cloned();
    let head = match own {
        Ok(head) => head,
        Err(refusal) => return BatchPart::new(key, Err(refusal)),
    };
    match (read, entry, gone, merged) {
        (Some(key), None, None, None) => get(&head, key),
        (None, Some(entry), None, None) => put(rest, &head, entry, nth),
        (None, None, Some(key), None) => delete(rest, &head, key, nth),
        (None, None, None, Some(merged)) => change(rest, &head, merged, nth),
        _ => {
            BatchPart::new(key, Err(Refusal::bad(format!("an operation of a batch is one of {PART_RIGHT}"))))
        }
    }
}

pub fn get(head: &RequestHead, key: String) -> BatchPart {
    BatchPart::new(Some(key.clone()), head.key_of(&key).map(BatchStep::Read))
}

fn put(rest: &Rest, head: &RequestHead, entry: StoreEntry<'_>, nth: Option<usize>) -> BatchPart {
    let (key, given) = entry.given();
    let write = head.key_of(&key).and_then(|key| write::of_given(rest, head, key, given, nth));
    BatchPart::write(key.into_owned(), write)
}

fn delete(rest: &Rest, head: &RequestHead, key: String, nth: Option<usize>) -> BatchPart {
    let what = (Kind::Register, Op::Delete);
    let write = head.key_of(&key).and_then(|key| write::plain(rest, head, key, what, nth));
    BatchPart::write(key, write)
}

fn change(rest: &Rest, head: &RequestHead, entry: CrdtEntry<'_>, nth: Option<usize>) -> BatchPart {
    let CrdtEntry { kind, key, operation, argument } = entry;
    let argument = argument.map_or("", RawValue::get);
    let write = crdt::parse_name(&key, Some(&kind)).and_then(|(kind, text)| {
        let op = crdt::parse_change(kind, &operation, argument.as_bytes())?;
        write::plain(rest, head, head.key_of(text)?, (kind, op), nth)
    });
    BatchPart { tells_value: true, ..BatchPart::write(key, write) }
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
    let keys: Vec<_> = parts.iter().map(|part| (part.key.clone(), part.told())).collect();
    let results = run(&rest, &head, parts).await?;
    let token = session::token(&head, results.iter().flatten().flat_map(PartOutcome::records))?;
    let parts = keys.into_iter().zip(results).map(|((key, told), result)| {
        part_of(key, result.and_then(|outcome| outcome.to_json(&rest, &head, told)))
    });
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

    /// `told` is the operation whose value is told.
    fn to_json(
        &self,
        rest: &Rest,
        head: &RequestHead,
        told: Option<(Kind, Op)>,
    ) -> Result<Map<String, Value>, Refusal> {
        let record = match self {
            PartOutcome::Seen(result) => return Ok(data::part(rest, &*result.live(rest, head)?)),
            PartOutcome::Written(record) => record,
        };
        let mut said = match told {
            Some((kind, op)) if kind.collection().is_some() => collections::change_body(kind, &op, record),
            Some(_) => crdt::render(rest, record),
            None => Map::new(),
        };
        said.insert("timestamp".to_owned(), record.updated_ms().into());
        said.insert("x_vector_clock".to_owned(), clock::code_name(&record.context).into());
        Ok(said)
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
