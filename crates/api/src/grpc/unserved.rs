//! Paths without a service: a gRPC call gets UNIMPLEMENTED, anything else a plain 404.
//! etcd's clients tell by the former that a service is missing and fall back. Paths of the REST API, which etcd has not, are
//! answered with where it is.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tonic::Status;

const REST_IS_ELSEWHERE: &str = "404 page not found: this is the port for clients of etcd (client-addr); the REST API is on http-addr, 8080 by default\n";

pub async fn refuse(uri: Uri, headers: HeaderMap) -> Response {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    if content_type.is_some_and(|value| value.starts_with(b"application/grpc")) {
        Status::unimplemented("this service is not served by this version").into_http()
    } else if uri.path().starts_with("/v1/") || uri.path().starts_with("/api/") {
        (StatusCode::NOT_FOUND, REST_IS_ELSEWHERE).into_response()
    } else {
        (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
    }
}
