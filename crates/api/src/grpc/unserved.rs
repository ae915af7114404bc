//! Paths without a service: a gRPC call gets UNIMPLEMENTED, anything else a plain 404.
//! etcd's clients tell by the former that a service is missing and fall back.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tonic::Status;

pub async fn refuse(headers: HeaderMap) -> Response {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    if content_type.is_some_and(|value| value.starts_with(b"application/grpc")) {
        Status::unimplemented("this service is not served by this version").into_http()
    } else {
        (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
    }
}
