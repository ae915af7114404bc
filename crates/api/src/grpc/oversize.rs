//! Messages beyond the decode limit. tonic turns them away before a byte of them is kept, in words and with a
//! code of its own; clients of etcd know grpc-go's. Only that one answer is rewritten.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use tonic::Code;

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const TONIC_WORDS: &str = "Error%2C%20decoded%20message%20length%20too%20large";

pub async fn reword(mut response: Response) -> Response {
    if is_oversize(&response) {
        let headers = response.headers_mut();
        headers.insert(STATUS, HeaderValue::from(Code::ResourceExhausted as i32));
        headers.insert(MESSAGE, HeaderValue::from_static("grpc: received message larger than max"));
    }
    response
}

fn is_oversize(response: &Response) -> bool {
    let header = |name| response.headers().get(name).map(HeaderValue::as_bytes);
    response.status() == StatusCode::OK
        && header(STATUS) == Some(b"11")
        && header(MESSAGE).is_some_and(|message| message.starts_with(TONIC_WORDS.as_bytes()))
}
