//! One read through the mesh: the version that the request demands at least, and what was read where.
//! A request's head and a key go in; the record, the region that it was read in, and how far this one is behind come
//! out. A client that sends a session token, or the version of an earlier answer, never sees less.

use super::explain::PendingExplanation;
use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::store::{live, raw};
use super::{Rest, clock, explain, home, session, value};
use axum::http::HeaderValue;
use axum::response::Response;
use base::Code;
use mesh::{Get, GetResult, Key, Level, Record, RegionId};
use serde_json::Value;
use std::time::Duration;

/// How long a read waits for the demanded version, if it does not say.
const SEEN_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a read.
pub struct ReadResult {
    pub record: Option<Box<Record>>,
    pub from: RegionId,
    pub lag_ms: u64,
}

pub async fn read(rest: &Rest, head: &RequestHead, key: Key) -> Result<ReadResult, Refusal> {
    let (r, level, timeout) = (head.r(rest)?, head.level()?, head.timeout()?);
    let session = head.session()?.cloned().unwrap_or_default();
    let min = head.clock("X-Min-Vector-Clock")?.unwrap_or_default();
    if level == Level::Linearizable {
        home::check_decided_here(rest, &head.space, &key)?;
    }
    let is_plain = !level.spans_regions() && level != Level::Linearizable;
    if session.is_empty() && min.is_empty() && is_plain {
        let record = rest.read(key, r, timeout).await?;
        return Ok(ReadResult { record, from: RegionId::of(rest.region()), lag_ms: rest.mesh().lag_ms() });
    }
    let get = Get { key, r, level, session, min };
    let GetResult { record, from, lag_ms } = rest.get(get, Some(timeout.unwrap_or(SEEN_TIMEOUT))).await?;
    Ok(ReadResult { record, from, lag_ms })
}

pub fn lagging(lag_ms: u64) -> Refusal {
    let message = format!(
        "what was seen before has not arrived in this region, which is {lag_ms} ms behind, and no other could be \
         asked; try again, or ask the region that it was seen in"
    );
    Refusal::new(Code::NotSeenHere, message).with("status", "lagging").with("lag_ms", lag_ms)
}

/// Answers a read of one key: with what `show` makes of the key's text, the record and the explanation, or with the bytes
/// alone.
pub async fn read_and_show(
    rest: &Rest,
    head: &RequestHead,
    show: impl FnOnce(&str, &Record, Option<Value>) -> Response,
) -> Result<Response, Refusal> {
    let explaining = PendingExplanation::begin(head)?;
    let key = head.key()?;
    let result = read(rest, head, key.clone()).await?;
    let record = match result.live(rest, head) {
        Ok(record) => record,
        Err(refusal) => {
            let seen = result.record.as_deref();
            return Err(explain::refused(explaining, (rest, head), &key, seen, refusal).await);
        }
    };
    let explain = if is_raw(head, &record)? {
        None
    } else {
        explain::ended(explaining, rest, head, &key, &record).await
    };
    let key = head.key_text()?;
    show_record(rest, head, &result, &record, |record| show(key, record, explain))
}

/// The answer about a record that was read.
pub fn show_record(
    rest: &Rest,
    head: &RequestHead,
    result: &ReadResult,
    record: &Record,
    show: impl FnOnce(&Record) -> Response,
) -> Result<Response, Refusal> {
    let mut response = if is_raw(head, record)? { raw(record) } else { show(record) };
    result.head(rest, head, &mut response)?;
    Ok(response)
}

/// Whether the bytes alone are asked for.
fn is_raw(head: &RequestHead, record: &Record) -> Result<bool, Refusal> {
    Ok(head.query.flag("raw")? || value::wants_raw(&head.headers, value::content_type(record)))
}

impl ReadResult {
    /// A record that was read in this region.
    pub fn local(rest: &Rest, record: Box<Record>) -> ReadResult {
        ReadResult { record: Some(record), from: rest.region_id(), lag_ms: rest.mesh().lag_ms() }
    }

    /// The record, if it can be shown. That it is gone advances the session, too.
    pub fn live(&self, rest: &Rest, head: &RequestHead) -> Result<Box<Record>, Refusal> {
        live(rest, self.record.clone()).map_err(|refusal| match session::token(head, self.seen()) {
            Ok(Some(token)) => refusal.in_session(token),
            _ => refusal,
        })
    }

    /// Whether the record was read in this region.
    pub fn is_local(&self, rest: &Rest) -> bool {
        self.from == rest.region_id()
    }

    pub fn seen(&self) -> impl Iterator<Item = &Record> {
        self.record.as_deref().into_iter()
    }

    /// The headers of every read's answer.
    pub fn head(&self, rest: &Rest, head: &RequestHead, response: &mut Response) -> Result<(), Refusal> {
        let headers = response.headers_mut();
        if let Some(record) = &self.record {
            headers.insert("x-vector-clock", clock::header_of(&record.context));
        }
        let from = HeaderValue::try_from(rest.region_name(self.from));
        headers.insert("x-served-from", from.unwrap_or(HeaderValue::from_static("unnamed")));
        headers.insert("x-replication-lag-ms", HeaderValue::from(self.lag_ms));
        if let Some(token) = session::token(head, self.seen())? {
            headers.insert(session::HEADER, token);
        }
        Ok(())
    }
}
