//! One call through the gateway: JSON read, the call made, and its outcome written as HTTP.
//! Refusals get the status that belongs to their gRPC code and a body that names both code and message; a
//! stream is a line of JSON for each of its messages.

use crate::audit;
use crate::gateway::transcoder::Transcoder;
use crate::grpc::{call_context, fence};
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use prost::{Message, Name};
use proto::DecodeLimit;
use serde::Serialize;
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};

/// Headers that begin so are meant for the call.
const METADATA_PREFIX: &str = "grpc-metadata-";
/// Our own headers pass with their names unchanged.
const OUR_PREFIX: &str = "althing-";
pub const JSON: &str = "application/json";

/// A unary call.
pub async fn unary<Q, A, F>(
    transcoder: Arc<Transcoder>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
    call: impl FnOnce(Request<Q>) -> F,
) -> Response
where
    Q: Message + Name + Default + DecodeLimit,
    A: Message + Name,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    let outcome = match read(&transcoder, &headers, body) {
        Ok(request) => call(request).await,
        Err(status) => Err(status),
    };
    match outcome {
        Ok(answer) => ([(CONTENT_TYPE, JSON)], transcoder.write(answer.get_ref())).into_response(),
        Err(status) => refuse(&status),
    }
}

/// A call with one request and a stream of responses.
pub async fn server_stream<Q, A, F>(
    transcoder: Arc<Transcoder>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
    call: impl FnOnce(Request<Q>) -> F,
) -> Response
where
    Q: Message + Name + Default + DecodeLimit,
    A: Message + Name + 'static,
    F: Future<Output = Result<tonic::Response<BoxStream<A>>, Status>>,
{
    let outcome = match read(&transcoder, &headers, body) {
        Ok(request) => call(request).await,
        Err(status) => Err(status),
    };
    match outcome {
        Ok(answers) => stream(transcoder, answers.into_inner()),
        Err(status) => refuse(&status),
    }
}

/// Each message on a line of its own, as the result or as the error that ended the stream.
fn stream<A: Message + Name + 'static>(transcoder: Arc<Transcoder>, answers: BoxStream<A>) -> Response {
    lines(answers.map(move |answer| answer.map(|answer| transcoder.write(&answer))))
}

/// The same for messages that are JSON already.
pub fn lines(answers: impl Stream<Item = Result<Vec<u8>, Status>> + Send + 'static) -> Response {
    let lines = answers.map(|answer| {
        let mut line = match answer {
            Ok(json) => [b"{\"result\":", &json[..], b"}"].concat(),
            Err(status) => [b"{\"error\":", &GatewayError::of(&status).to_json()[..], b"}"].concat(),
        };
        line.push(b'\n');
        Ok::<_, std::convert::Infallible>(line)
    });
    ([(CONTENT_TYPE, JSON)], Body::from_stream(lines)).into_response()
}

pub fn read<Q: Message + Name + Default + DecodeLimit>(
    transcoder: &Transcoder,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Request<Q>, Status> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Status::resource_exhausted(rejection.body_text()),
        _ => Status::invalid_argument(rejection.body_text()),
    })?;
    let mut request = Request::new(transcoder.read(&body)?);
    *request.metadata_mut() = metadata(headers);
    Ok(request)
}

pub fn metadata(headers: &HeaderMap) -> MetadataMap {
    let meant = headers.iter().filter_map(|(name, value)| {
        let name = match name.as_str() {
            fence::HEADER => fence::METADATA,
            call_context::AUTHORIZATION => call_context::AUTHORIZATION,
            ours if ours.starts_with(OUR_PREFIX) => ours,
            other => other.strip_prefix(METADATA_PREFIX)?,
        };
        Some((HeaderName::try_from(name).ok()?, value.clone()))
    });
    MetadataMap::from_headers(meant.collect())
}

/// The body of a refusal.
#[derive(Serialize)]
struct GatewayError<'a> {
    code: i32,
    message: &'a str,
}

impl GatewayError<'_> {
    fn of(status: &Status) -> GatewayError<'_> {
        GatewayError { code: status.code() as i32, message: status.message() }
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a number and a text can be written")
    }
}

pub fn refuse(status: &Status) -> Response {
    audit::note_status(status.code());
    let body = GatewayError::of(status).to_json();
    (http_status(status.code()), [(CONTENT_TYPE, JSON)], body).into_response()
}

/// As grpc-gateway maps them.
fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    StatusCode::from_u16(number).expect("each is a status")
}

/// As grpc-gateway words it.
pub async fn refuse_method() -> Response {
    refuse(&Status::unimplemented("Method Not Allowed"))
}

/// As grpc-gateway words it.
pub async fn refuse_path() -> Response {
    refuse(&Status::not_found("Not Found"))
}

#[cfg(test)]
mod tests;
