//! Refusals of the REST API: a code of the one table, and a sentence with the correct form.
//! A code and a message go in, a status with a JSON body comes out; where a retry helps, `Retry-After` says when. The name
//! of the code is the identifier that programs match on.

use super::session;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base::Code;
use serde_json::{Map, Value};

/// When to try again, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// Replicas and regions that did not answer, by name.
#[derive(Debug, Default)]
pub struct MissingNames {
    pub nodes: Vec<String>,
    pub regions: Vec<String>,
}

impl MissingNames {
    fn what(&self) -> &'static str {
        if self.regions.is_empty() { "replicas" } else { "regions" }
    }
}

#[derive(Debug)]
pub struct Refusal {
    pub code: Code,
    message: String,
    details: Map<String, Value>,
    /// The token of the session, which advances by a refusal, too.
    session: Option<HeaderValue>,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), details: Map::new(), session: None }
    }

    /// The client has got something wrong.
    pub fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::BadRequest, message)
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Refusal {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub fn in_session(mut self, token: HeaderValue) -> Refusal {
        self.session = Some(token);
        self
    }

    /// A write that too few have acknowledged.
    pub fn indeterminate(acks: u8, needed: u8, missing: &MissingNames) -> Refusal {
        let message = format!(
            "{acks} of {needed} {} have acknowledged the write; it may stay or be overwritten, and is not \
             undone; repeat it with the same X-Request-Id, or read the key",
            missing.what()
        );
        let refusal = Refusal::new(Code::Indeterminate, message).with("status", "indeterminate");
        refusal.with("acks", acks).with("needed", needed).without(missing)
    }

    /// A read that too few have answered.
    pub fn unavailable(acks: u8, needed: u8, missing: &MissingNames) -> Refusal {
        let advice = if missing.regions.is_empty() { "r=" } else { "another X-Consistency-Level" };
        let what = missing.what();
        let message =
            format!("{acks} of {needed} {what} answered; try again, or ask for fewer with {advice}");
        let refusal = Refusal::new(Code::TooFewReplicas, message).with("status", "unavailable");
        refusal.with("acks", acks).with("needed", needed).without(missing)
    }

    /// Names those that did not answer.
    fn without(self, missing: &MissingNames) -> Refusal {
        let MissingNames { nodes, regions } = missing;
        let refusal = if nodes.is_empty() { self } else { self.with("missing", nodes.clone()) };
        if regions.is_empty() { refusal } else { refusal.with("missing_regions", regions.clone()) }
    }

    /// A write that was to be decided by replicas of which too few answered: nothing was proposed to them.
    pub fn not_written(acks: u8, needed: u8, missing: &MissingNames) -> Refusal {
        let message = format!("{acks} of {needed} replicas answered; nothing was written, try again");
        let refusal = Refusal::new(Code::TooFewReplicas, message).with("status", "unavailable");
        refusal.with("acks", acks).with("needed", needed).without(missing)
    }

    /// The token of the session after this.
    pub fn session(&self) -> Option<&HeaderValue> {
        self.session.as_ref()
    }

    pub fn status(&self) -> StatusCode {
        status_of(self.code)
    }

    /// The answer without its status, for a part of a larger one.
    pub fn body(self) -> Map<String, Value> {
        let mut body = self.details;
        body.insert("error".to_owned(), code_name(self.code).into());
        body.insert("message".to_owned(), self.message.into());
        body
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Refusal {
        let message = match code {
            Code::EmptyKey => "a key is not empty".to_owned(),
            Code::BadQuorum => {
                "r and w are 1 or more, and not more than the namespace's n or the nodes there \
                                are; GET /v1/ring tells both"
                    .to_owned()
            }
            Code::WrongType => {
                "the key holds a value of another type; delete it first, or use the operations \
                                of its type"
                    .to_owned()
            }
            Code::UnknownContext => {
                "X-Vector-Clock or X-If-Vector-Clock names writes of this key that no replica knows; read the key, and \
                 send the clock of that answer"
                    .to_owned()
            }
            Code::FencePassed => "a holder with a later token has written the key".to_owned(),
            Code::NoSpace => {
                "the disks of the key's replicas have no space for it; deletes need less, and free space"
                    .to_owned()
            }
            Code::HomeNeeded => {
                "a condition, and the level LINEARIZABLE, is decided in the key's home region; declare one with \
                 PUT /v1/namespaces/{ns}/home {\"region\": \"NAME\"}"
                    .to_owned()
            }
            Code::UnknownSpace => "no such namespace; PUT /v1/namespaces/{ns} creates one".to_owned(),
            code => {
                let message = code.message();
                message.split_once(": ").map_or(message, |(_, words)| words).to_owned()
            }
        };
        Refusal::new(code, message)
    }
}

/// Where the REST API is more precise than a gateway of gRPC.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::KeyDeleted => StatusCode::GONE,
        Code::NotHome => StatusCode::MISDIRECTED_REQUEST,
        Code::RequestIdReused | Code::RequestIdExpired => StatusCode::UNPROCESSABLE_ENTITY,
        Code::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Code::RequestTooLarge | Code::TooManyOps => StatusCode::PAYLOAD_TOO_LARGE,
        Code::ConflictDetected
        | Code::WrongType
        | Code::BelowBound
        | Code::BoundDiffers
        | Code::FencePassed
        | Code::HomeNeeded
        | Code::NamespaceDiffers
        | Code::NamespaceInUse
        | Code::TopologyBusy => StatusCode::CONFLICT,
        code => StatusCode::from_u16(code.grpc().http_status()).expect("the table holds statuses"),
    }
}

/// The word and the status of a code, for the reference.
pub fn describe_code(code: Code) -> (String, u16) {
    (code_name(code), status_of(code).as_u16())
}

/// `KeyAbsent` is `key_absent`.
fn code_name(code: Code) -> String {
    let mut word = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let again = matches!(
            status,
            StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::TOO_MANY_REQUESTS
                | StatusCode::INSUFFICIENT_STORAGE
        );
        let session = self.session.clone();
        let mut response = (status, axum::Json(self.body())).into_response();
        if let Some(token) = session {
            response.headers_mut().insert(session::HEADER, token);
        }
        if again {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_word_and_a_failing_status() {
        for code in Code::ALL {
            let refusal = Refusal::from(*code);
            assert!(refusal.status().is_client_error() || refusal.status().is_server_error(), "{code:?}");
            let body = refusal.body();
            assert!(body["error"].as_str().is_some_and(|word| !word.contains(char::is_uppercase)));
            assert!(!body["message"].as_str().unwrap().is_empty());
        }
        assert_eq!(code_name(Code::ConflictDetected), "conflict_detected");
    }

    #[test]
    fn refusals_that_may_be_retried_say_when() {
        let response = Refusal::indeterminate(1, 2, &MissingNames::default()).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], RETRY_AFTER_SECONDS);
        assert!(Refusal::bad("").into_response().headers().get(RETRY_AFTER).is_none());
        let missing = MissingNames { nodes: vec!["n3".into()], regions: vec![] };
        let body = Refusal::indeterminate(1, 2, &missing).body();
        assert_eq!(body["missing"], serde_json::json!(["n3"]));
        assert_eq!(
            (&body["status"], &body["acks"], &body["needed"]),
            (&"indeterminate".into(), &1.into(), &2.into())
        );
    }
}
