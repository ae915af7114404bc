//! Header fields of gRPC answers as grpc-go writes them, from those that tonic writes.
//! tonic percent-encodes blanks and leaves out an empty `grpc-message`; grpc-go encodes only percent signs and what is
//! not printable ASCII, and always sends the field. Some clients rely on either.

use crate::percent;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use http2::Field;

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

pub fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

/// The fields behind a body.
pub fn trailers(mut headers: HeaderMap) -> Vec<Field> {
    complete_status(&mut headers);
    let copy = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    pairs(&headers).map(|(name, value)| Field { name: copy(name), value: copy(value) }).collect()
}

/// Gives a gRPC status, if there is one, its message in the form of grpc-go.
pub fn complete_status(headers: &mut HeaderMap) {
    if !headers.contains_key(STATUS) {
        return;
    }
    let message = match headers.get(MESSAGE) {
        None => HeaderValue::from_static(""),
        Some(message) if !message.as_bytes().contains(&b'%') => return,
        Some(message) => {
            let text = message.to_str().ok().and_then(percent::decode);
            let Some(value) = text.and_then(|text| HeaderValue::try_from(percent::encode(&text)).ok()) else {
                return;
            };
            value
        }
    };
    headers.insert(MESSAGE, message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    fn message_of(status: Status) -> HeaderValue {
        let mut headers = HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        complete_status(&mut headers);
        headers[MESSAGE].clone()
    }

    #[test]
    fn a_message_is_encoded_as_little_as_grpc_asks_for() {
        let table = [
            ("etcdserver: key is not provided", "etcdserver: key is not provided"),
            ("100% {\"a\"} <b> `c` #?", "100%25 {\"a\"} <b> `c` #?"),
            ("ä\n", "%C3%A4%0A"),
            ("", ""),
        ];
        for (text, encoded) in table {
            assert_eq!(message_of(Status::unknown(text)), encoded, "{text}");
        }
    }

    #[test]
    fn only_answers_with_a_status_get_a_message() {
        assert_eq!(message_of(Status::ok("")), "");
        let mut headers = HeaderMap::new();
        complete_status(&mut headers);
        assert!(headers.is_empty());
    }
}
