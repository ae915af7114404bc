//! Rows of the data plane: its pages as a source, and batches of operations as a destination. Values that merge are brought to what the row
//! says by the operations of their type: elements are added, counters get the difference.

use super::destination::{Change, RefusedKey};
use super::row::{Row, RowValue};
use super::source::{Chunk, Position};
use crate::client::{Client, Error};
use crate::request_id;
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::batch_operation::Kind as Part;
use proto::althing::data::v1::batch_result::Outcome;
use proto::althing::data::v1::operation::Kind as Operation;
use proto::althing::data::v1::value::Kind as ValueKind;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::Code;

/// Operations of one request.
const OPERATIONS: usize = 500;
const PAGE_KEYS: u64 = 1_000;

const SET: &str = "orset";
const BIG_SET: &str = "bigset";
const COUNTER: &str = "pncounter";
const GROWING_COUNTER: &str = "gcounter";
const BOUNDED_COUNTER: &str = "bounded_counter";
const NUMERIC: &str = "delta_numeric";

pub struct DataPlane {
    client: Client,
    namespace: String,
}

/// Two names of one type.
fn kind_of(row: &Row) -> &str {
    match row.kind.as_str() {
        "set" => SET,
        "counter" => COUNTER,
        other => other,
    }
}

/// Digits without zeros that say nothing.
fn trimmed(digits: &str) -> &str {
    let digits = digits.trim().trim_start_matches('+');
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

fn digits(value: &RowValue) -> Option<&str> {
    match value {
        RowValue::Text(text) | RowValue::Json(text) => Some(trimmed(text)),
        RowValue::Bytes { .. } => None,
    }
}

/// A set may have more elements than the row says.
pub fn holds(row: &Row, found: &Row) -> bool {
    let kind = kind_of(row);
    if !kind.is_empty() && kind != found.kind {
        return false;
    }
    match found.kind.as_str() {
        BIG_SET => false,
        SET => lacking(row, Some(found)).is_some_and(|elements| elements.is_empty()),
        NUMERIC => digits(&row.value) == digits(&found.value),
        _ => row.value == found.value,
    }
}

/// The elements of the row that were not found. None if it has no elements.
fn lacking(row: &Row, found: Option<&Row>) -> Option<Vec<String>> {
    let found = found.and_then(|found| found.value.elements()).unwrap_or_default();
    let found: BTreeSet<String> = found.into_iter().collect();
    let wanted = row.value.elements()?;
    Some(wanted.into_iter().filter(|element| !found.contains(element)).collect())
}

impl DataPlane {
    pub fn new(client: Client, namespace: String) -> DataPlane {
        DataPlane { client, namespace }
    }

    fn scope(&self) -> Option<wire::Scope> {
        Some(wire::Scope { namespace: self.namespace.clone(), ..wire::Scope::default() })
    }

    async fn batch(&self, parts: Vec<Part>) -> Result<Vec<Option<Outcome>>, Error> {
        let operations = parts.into_iter().map(|part| wire::BatchOperation { kind: Some(part) }).collect();
        let request = wire::BatchRequest { scope: self.scope(), operations, read_options: None };
        let answer = self.client.data_batch(request).await?;
        Ok(answer.results.into_iter().map(|result| result.outcome).collect())
    }

    pub async fn read(&self, rows: &[Row]) -> Result<Vec<Option<Row>>, Error> {
        let outcomes = self.batch(rows.iter().map(|row| Part::Get(row.name())).collect()).await?;
        let mut found = Vec::with_capacity(rows.len());
        for (row, outcome) in rows.iter().zip(outcomes) {
            found.push(match outcome {
                Some(Outcome::Entry(entry)) => Some(row_of(entry).row),
                Some(Outcome::Refusal(refusal)) if is_absence(&refusal) => None,
                other => return Err(Error::Incomplete(format!("{}: {}", row.name(), describe(other)))),
            });
        }
        Ok(found)
    }

    pub async fn write(&mut self, changes: &[Change]) -> Result<Vec<RefusedKey>, Error> {
        let (mut parts, mut refused) = (Vec::new(), Vec::new());
        for change in changes {
            match self.parts_of(change) {
                Ok(of_row) => parts.extend(of_row.into_iter().map(|part| (change.row.name(), part))),
                Err(what) => refused.push(RefusedKey { name: change.row.name(), what }),
            }
        }
        while !parts.is_empty() {
            let rest = parts.split_off(parts.len().min(OPERATIONS));
            let (names, some): (Vec<String>, Vec<Part>) =
                std::mem::replace(&mut parts, rest).into_iter().unzip();
            for (name, outcome) in names.into_iter().zip(self.batch(some).await?) {
                match outcome {
                    Some(Outcome::Written(_)) => {}
                    Some(Outcome::Refusal(refusal)) if !may_pass(&refusal) => {
                        refused.push(RefusedKey { name, what: refusal.message });
                    }
                    other => return Err(Error::Incomplete(format!("{name}: {}", describe(other)))),
                }
            }
        }
        Ok(refused)
    }

    /// What brings the key to what the row says.
    fn parts_of(&mut self, Change { row, found }: &Change) -> Result<Vec<Part>, String> {
        let kind = match (kind_of(row), found) {
            // A value that is there keeps its type.
            ("", Some(found)) => found.kind.clone(),
            (kind, _) => kind.to_owned(),
        };
        let merges = [SET, COUNTER, GROWING_COUNTER].contains(&kind.as_str());
        if merges && row.ttl.is_some() {
            return Err(format!("a {kind} has no time to live"));
        }
        match kind.as_str() {
            BOUNDED_COUNTER => Err("a bounded_counter is not imported".to_owned()),
            BIG_SET => Err("the elements of a bigset are not imported".to_owned()),
            SET => {
                let elements = lacking(row, found.as_ref()).ok_or("a set is a JSON list of texts")?;
                if elements.is_empty() && found.is_none() {
                    return Err("a set without elements cannot be made".to_owned());
                }
                Ok(elements
                    .into_iter()
                    .map(|element| self.update(row, "set", Operation::AddElement(element)))
                    .collect())
            }
            COUNTER | GROWING_COUNTER => {
                let number = |row: &Row| digits(&row.value).and_then(|digits| digits.parse::<i64>().ok());
                let wanted = number(row).ok_or("a counter is a whole number")?;
                let is_there = found.as_ref().filter(|found| found.kind == kind).and_then(number);
                let by = wanted.checked_sub(is_there.unwrap_or(0)).ok_or("the difference is too large")?;
                let name = if kind == COUNTER { "counter" } else { "gcounter" };
                Ok(vec![self.update(row, name, Operation::Increment(by))])
            }
            _ => Ok(vec![Part::Put(wire::PutRequest {
                key: row.name(),
                value: Some(wire::Value { kind: Some(value_of(&row.value)) }),
                r#type: if row.kind.is_empty() { String::new() } else { kind },
                ttl_seconds: row.ttl.unwrap_or(0),
                ..wire::PutRequest::default()
            })]),
        }
    }

    fn update(&mut self, row: &Row, kind: &str, operation: Operation) -> Part {
        let request_id = request_id::fresh();
        Part::Update(wire::UpdateRequest {
            key: row.name(),
            r#type: kind.to_owned(),
            operation: Some(wire::Operation { kind: Some(operation) }),
            options: Some(wire::WriteOptions { request_id, ..wire::WriteOptions::default() }),
            ..wire::UpdateRequest::default()
        })
    }
}

/// It was never written, or is deleted; or it cannot be a key, which the write says better.
fn is_absence(refusal: &wire::Refusal) -> bool {
    [Code::NotFound as i32, Code::InvalidArgument as i32].contains(&refusal.grpc_code)
}

/// Later it may be done: the transfer is to be started again.
fn may_pass(refusal: &wire::Refusal) -> bool {
    let passing = [Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted, Code::Unauthenticated];
    passing.iter().any(|code| *code as i32 == refusal.grpc_code)
}

fn describe(outcome: Option<Outcome>) -> String {
    match outcome {
        Some(Outcome::Refusal(refusal)) => refusal.message,
        _ => "the node gave no answer for this key".to_owned(),
    }
}

fn value_of(value: &RowValue) -> ValueKind {
    match value {
        RowValue::Text(text) => ValueKind::Json(serde_json::Value::from(text.as_str()).to_string().into()),
        RowValue::Json(text) => ValueKind::Json(text.clone().into()),
        RowValue::Bytes { data, content_type } => {
            ValueKind::Blob(wire::Blob { data: data.clone().into(), content_type: content_type.clone() })
        }
    }
}

/// A key with its type, and its value unless that is not part of an entry.
struct FoundRow {
    row: Row,
    has_value: bool,
}

fn row_of(entry: wire::Entry) -> FoundRow {
    let value = match entry.value.as_ref().and_then(|value| value.kind.as_ref()) {
        _ if entry.r#type == BIG_SET => None,
        None => None,
        Some(ValueKind::Json(text)) => std::str::from_utf8(text).ok().and_then(RowValue::of_json),
        Some(ValueKind::Blob(blob)) => Some(RowValue::of_blob(blob.data.to_vec(), &blob.content_type)),
        Some(ValueKind::Integer(number)) => Some(RowValue::Json(number.to_string())),
        Some(ValueKind::Decimal(digits)) if entry.r#type == NUMERIC => Some(RowValue::Text(digits.clone())),
        Some(ValueKind::Decimal(digits)) => Some(RowValue::Json(digits.clone())),
        Some(ValueKind::Elements(elements)) => {
            let mut elements = elements.elements.clone();
            elements.sort_unstable();
            Some(super::row::json_of(&elements.into()))
        }
    };
    let has_value = value.is_some();
    let (key, ttl) = (entry.key.into_bytes(), ttl_of(entry.expires_ms));
    let row = Row { key, value: value.unwrap_or_default(), kind: entry.r#type, ttl, lease: None };
    FoundRow { row, has_value }
}

/// The seconds that are left; a row that ends now keeps one.
fn ttl_of(expires_ms: u64) -> Option<u64> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64);
    (expires_ms != 0).then(|| expires_ms.saturating_sub(now_ms).div_ceil(1_000).max(1))
}

pub struct DataSource {
    plane: DataPlane,
    prefix: String,
    next: String,
    pub at_end: bool,
    pub total: u64,
    pub done: u64,
}

impl DataSource {
    pub async fn begin(plane: DataPlane, prefix: String) -> Result<DataSource, Error> {
        let keys = Some(wire::Keys { prefix: prefix.clone(), ..wire::Keys::default() });
        let request = wire::CountRequest { scope: plane.scope(), keys, r: 0 };
        let total = plane.client.data_count(request).await?.count;
        Ok(DataSource { plane, next: prefix.clone(), prefix, at_end: false, total, done: 0 })
    }

    pub fn position(&self) -> Position {
        let next = self.next.clone().into_bytes();
        Position::Range { revision: 0, next, done: self.done, at_end: self.at_end }
    }

    pub fn go_on(&mut self, next: &[u8], done: u64) {
        (self.next, self.done) = (String::from_utf8_lossy(next).into_owned(), done);
    }

    /// None at the end.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        if self.at_end {
            return Ok(None);
        }
        let keys = Some(wire::Keys { start: self.next.clone(), ..wire::Keys::default() });
        let request = wire::ScanRequest {
            scope: self.plane.scope(),
            keys,
            limit: PAGE_KEYS,
            ..wire::ScanRequest::default()
        };
        let page = self.plane.client.data_page(request).await?;
        if page.missing_partitions > 0 {
            let n = page.missing_partitions;
            return Err(Error::RestUnavailable(format!(
                "{n} partitions did not answer: keys may be missing"
            )));
        }
        let mut chunk = Chunk::default();
        self.at_end = page.next.is_empty();
        for entry in page.entries {
            // Names come in order.
            if !entry.key.starts_with(&self.prefix) {
                self.at_end = true;
                break;
            }
            self.done += 1;
            let FoundRow { row, has_value } = row_of(entry);
            if has_value {
                chunk.rows.push(row);
            } else {
                chunk.left_out.push(format!("{} (a {})", row.name(), row.kind));
            }
        }
        self.next = page.next;
        Ok(Some(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, text: &str) -> Row {
        let value = RowValue::of_json(text).unwrap();
        Row { key: b"k".to_vec(), value, kind: kind.to_owned(), ..Row::default() }
    }

    #[test]
    fn what_is_found_is_compared_as_its_type_asks() {
        assert!(holds(&row("set", r#"["a"]"#), &row(SET, r#"["a","b"]"#)));
        assert!(!holds(&row("set", r#"["c"]"#), &row(SET, r#"["a","b"]"#)));
        assert!(!holds(&row("", r#""a""#), &row(SET, r#"["a"]"#)));
        assert!(holds(&row(NUMERIC, r#""19.90""#), &row(NUMERIC, r#""19.9""#)));
        assert!(!holds(&row(NUMERIC, "190"), &row(NUMERIC, r#""19""#)), "zeros before the point count");
        assert!(
            holds(&row("counter", "5"), &row(COUNTER, "5"))
                && !holds(&row("counter", "5"), &row("gcounter", "5"))
        );
        assert!(
            holds(&row("", "{}"), &row("lww_register", "{}"))
                && !holds(&row("", "1"), &row("lww_register", r#""1""#))
        );
    }

    fn unconnected() -> DataPlane {
        let client = Client::new(client::Config {
            endpoints: vec!["127.0.0.1:1".to_owned()],
            dial_timeout: std::time::Duration::ZERO,
            call_timeout: std::time::Duration::ZERO,
            login: None,
            tls: None,
        });
        DataPlane::new(client.unwrap(), "default".to_owned())
    }

    #[test]
    fn a_source_that_was_read_to_its_end_is_not_read_again() {
        let source = |at_end| DataSource {
            plane: unconnected(),
            prefix: String::new(),
            next: String::new(),
            at_end,
            total: 2,
            done: 2,
        };
        let text = serde_json::to_string(&source(true).position()).unwrap();
        let position: Position = serde_json::from_str(&text).unwrap();
        let mut again = crate::transfer::Source::Data(Box::new(source(false)));
        again.go_on(&position).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(matches!(runtime.block_on(again.next()), Ok(None)), "no node is asked");
    }

    #[test]
    fn a_counter_gets_the_difference_and_a_set_what_it_lacks() {
        let mut plane = unconnected();
        let mut operations = |row: Row, found: Option<Row>| {
            let parts = plane.parts_of(&Change { row, found })?;
            Ok::<_, String>(
                parts
                    .into_iter()
                    .filter_map(|part| match part {
                        Part::Update(update) => update.operation.and_then(|operation| operation.kind),
                        _ => None,
                    })
                    .collect::<Vec<_>>(),
            )
        };
        let counted = operations(row("counter", "5"), Some(row(COUNTER, "7")));
        assert_eq!(counted, Ok(vec![Operation::Increment(-2)]));
        let added = operations(row("set", r#"["a","b"]"#), Some(row(SET, r#"["b"]"#)));
        assert_eq!(added, Ok(vec![Operation::AddElement("a".to_owned())]));
        assert!(operations(row("set", "5"), None).is_err());
        assert!(operations(row("bigset", "[]"), None).is_err());
        assert!(operations(Row { ttl: Some(1), ..row("counter", "5") }, None).is_err());
    }
}
