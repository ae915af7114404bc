//! Session tokens on the wire: what a client has seen, as an opaque text that it sends back with its next request, to
//! this region or another. A text that is no token of ours names a session that begins now: the answer carries the first
//! real token. A token that was changed on the way is refused, for it would promise less.

use super::refusal::Refusal;
use super::request_head::RequestHead;
use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mesh::{Record, Session};

pub const HEADER: &str = "x-session-token";
const PREFIX: &str = "s1.";

pub fn parse(word: &str) -> Result<Session, Refusal> {
    let Some(text) = word.strip_prefix(PREFIX) else { return Ok(Session::default()) };
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes.and_then(|bytes| Session::decode(bytes.into())).ok_or_else(|| {
        Refusal::bad(
            "X-Session-Token must be what an earlier answer said, unchanged; any other word begins a session",
        )
    })
}

/// The token of a session that has now seen these records too; none for a request that names no session.
pub fn token<'a>(
    head: &RequestHead,
    seen: impl Iterator<Item = &'a Record>,
) -> Result<Option<HeaderValue>, Refusal> {
    let Some(mut session) = head.session()?.cloned() else { return Ok(None) };
    seen.for_each(|record| session.observe(record));
    let word = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(session.encode()));
    Ok(Some(HeaderValue::try_from(word).expect("base64 is plain text")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_begins_a_session_and_a_changed_token_is_refused() {
        assert!(parse("session-1").unwrap().is_empty());
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(Session::default().encode()));
        assert!(parse(&token).unwrap().is_empty());
        assert!(parse(&token[..token.len() - 1]).is_err() && parse("s1.").is_err() && parse("s1.!").is_err());
    }
}
