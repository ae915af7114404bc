//! Messages beyond the decode limit. tonic refuses them before a byte of them is kept, with a text and a
//! code of its own; clients of etcd know grpc-go's. Only that one answer is rewritten.

use axum::http::HeaderValue;
use axum::response::Response;
use tonic::Code;

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
/// How tonic begins, percent-encoded as it travels.
const TONIC_WORDS: &str = "Error,%20decoded%20message%20length%20too%20large";

pub fn reword(mut response: Response) -> Response {
    if let Some(message) = oversize(&response) {
        let headers = response.headers_mut();
        headers.insert(STATUS, HeaderValue::from(Code::ResourceExhausted as i32));
        headers.insert(MESSAGE, message);
    }
    response
}

/// grpc-go's words for the size and the limit that tonic names.
fn oversize(response: &Response) -> Option<HeaderValue> {
    let message = response.headers().get(MESSAGE)?.to_str().ok()?;
    if !message.starts_with(TONIC_WORDS) {
        return None;
    }
    let message = message.replace("%20", " ");
    let mut numbers = message.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let (found, limit) = (numbers.next()?, numbers.next()?);
    HeaderValue::try_from(format!("grpc: received message larger than max ({found} vs. {limit})")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    fn render(status: Status) -> Response {
        status.into_http::<axum::body::Body>()
    }

    #[test]
    fn tonics_words_become_those_of_grpc_go() {
        let words =
            "Error, decoded message length too large: found 10485770 bytes, the limit is: 2097152 bytes";
        let message = oversize(&render(Status::out_of_range(words)));
        assert_eq!(message.unwrap(), "grpc: received message larger than max (10485770 vs. 2097152)");
    }

    #[test]
    fn other_answers_are_left_alone() {
        assert_eq!(oversize(&render(Status::out_of_range(base::Code::Compacted.message()))), None);
        assert_eq!(oversize(&Response::default()), None);
    }
}
