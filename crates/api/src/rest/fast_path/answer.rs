//! Answers of the fast path, written straight into the output buffer: those to a plain read that found a JSON
//! value, and to a plain write that was done. They equal, byte for byte, those of the router's handlers; any other
//! answer comes from the handlers, and is only written as HTTP/1.1 here.

use super::super::{Rest, clock, date, session, value};
use crate::browsers;
use axum::body::to_bytes;
use axum::http::HeaderValue;
use axum::response::Response;
use bytes::Bytes;
use mesh::{Body, Header, Record};

const BODY_BYTES_USUAL: usize = 512;

/// The status of an answer that was written, as its first line says it.
pub fn status_of(answer: &[u8]) -> u16 {
    let digits = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// The value of a record that has nothing but a value, which is JSON.
pub fn plain_value(record: &Record) -> Option<&Bytes> {
    let Body::Register(value) = &record.body else { return None };
    let Header { rare: None, expires_ms: None, tombstone: false, .. } = &record.header else { return None };
    value::is_json(value).then_some(value)
}

/// `{"key":…,"value":…,"timestamp":…}` with the head of a read.
pub fn found_in_store(
    rest: &Rest,
    key: &[u8],
    record: &Record,
    value: &[u8],
    seen: Option<&HeaderValue>,
    out: &mut Vec<u8>,
) {
    respond(
        out,
        |out| head_of_read(rest, record, seen, out),
        |out| {
            put(out, &[b"{\"key\":\"", key, b"\",\"value\":", value, b",\"timestamp\":"]);
            put_number(out, record.updated_ms());
            out.push(b'}');
        },
    );
}

/// The answer of `/v1/data/{key}` about a register.
pub fn found_in_data(
    rest: &Rest,
    key: &[u8],
    record: &Record,
    value: &[u8],
    seen: Option<&HeaderValue>,
    out: &mut Vec<u8>,
) {
    let kind = value::kind_name(record.kind).as_bytes();
    respond(
        out,
        |out| head_of_read(rest, record, seen, out),
        |out| {
            put(
                out,
                &[
                    b"{\"key\":\"",
                    key,
                    b"\",\"value\":",
                    value,
                    b",\"type\":\"",
                    kind,
                    b"\",\"vector_clock\":",
                ],
            );
            put_clock(rest, record, out);
            let (created, modified) = (date::rfc3339(record.created_ms), date::rfc3339(record.updated_ms()));
            put(out, &[b",\"created_at\":\"", created.as_bytes()]);
            put(out, &[b"\",\"last_modified\":\"", modified.as_bytes(), b"\"}"]);
        },
    );
}

pub fn done_in_store(
    rest: &Rest,
    key: &[u8],
    record: &Record,
    seen: Option<&HeaderValue>,
    out: &mut Vec<u8>,
) {
    respond(
        out,
        |out| head_of_write(rest, record, seen, out),
        |out| {
            put(out, &[b"{\"status\":\"ok\",\"key\":\"", key, b"\",\"timestamp\":"]);
            put_number(out, record.updated_ms());
            out.push(b'}');
        },
    );
}

pub fn done_in_data(rest: &Rest, record: &Record, seen: Option<&HeaderValue>, out: &mut Vec<u8>) {
    respond(
        out,
        |out| head_of_write(rest, record, seen, out),
        |out| {
            put(out, &[b"{\"status\":\"committed\",\"vector_clock\":"]);
            put_clock(rest, record, out);
            out.push(b'}');
        },
    );
}

/// Writes a head and a body, and the length of the body between them.
fn respond(out: &mut Vec<u8>, head: impl FnOnce(&mut Vec<u8>), body: impl FnOnce(&mut Vec<u8>)) {
    put(out, &[b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"]);
    head(out);
    let mut said = Vec::with_capacity(BODY_BYTES_USUAL);
    body(&mut said);
    put(out, &[b"content-length: "]);
    put_number(out, said.len() as u64);
    put(out, &[b"\r\n\r\n", &said]);
}

fn head_of_read(rest: &Rest, record: &Record, seen: Option<&HeaderValue>, out: &mut Vec<u8>) {
    put(out, &[b"x-vector-clock: "]);
    clock::put_word(&record.context, out);
    put(out, &[b"\r\nx-served-from: ", rest.served_from().as_bytes(), b"\r\nx-replication-lag-ms: "]);
    put_number(out, rest.mesh().lag_ms());
    put(out, &[b"\r\n"]);
    put_session(seen, out);
}

/// The session token after this request.
fn put_session(seen: Option<&HeaderValue>, out: &mut Vec<u8>) {
    if let Some(seen) = seen {
        put(out, &[session::HEADER.as_bytes(), b": ", seen.as_bytes(), b"\r\n"]);
    }
}

fn head_of_write(rest: &Rest, record: &Record, seen: Option<&HeaderValue>, out: &mut Vec<u8>) {
    put(out, &[b"x-vector-clock: "]);
    clock::put_word(&record.context, out);
    put(out, &[b"\r\nx-served-from: ", rest.served_from().as_bytes(), b"\r\nx-replicated-to: []\r\n"]);
    put_session(seen, out);
}

fn put_clock(rest: &Rest, record: &Record, out: &mut Vec<u8>) {
    let counts = clock::by_region(&record.context, |region| rest.region_name(region));
    serde_json::to_writer(out, &counts).expect("counts can be written as JSON");
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Any response as HTTP/1.1 writes it; its length is always included.
pub async fn render(response: Response, out: &mut Vec<u8>) {
    let (mut head, body) = response.into_parts();
    browsers::protect(&mut head.headers);
    let body = to_bytes(body, usize::MAX).await.expect("our handlers answer with whole bodies");
    let status = head.status;
    let reason = status.canonical_reason().unwrap_or("").as_bytes();
    put(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason, b"\r\n"]);
    for (name, value) in &head.headers {
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    put(out, &[b"content-length: "]);
    put_number(out, body.len() as u64);
    put(out, &[b"\r\n\r\n", &body]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_tells_its_length() {
        let mut out = Vec::new();
        render(super::super::super::json(&serde_json::json!({"a": 1})), &mut out).await;
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\ncontent-length: 7\r\n\r\n{\"a\":1}"
        );
        let mut out = Vec::new();
        respond(&mut out, |out| put(out, &[b"x: y\r\n"]), |out| put(out, &[b"{\"a\":1}"]));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\nx: y\r\ncontent-length: 7\r\n\r\n{\"a\":1}"
        );
    }
}
