//! Who may use the REST API: while auth is on, only users with the role `root`, by a token or by name and password.
//! The keys of the mesh are not those of the coordination store, and permissions are about the latter; so there is
//! nothing between everything and nothing. A node that keeps data alone lets nobody in: it has no users to compare with.
//! The page to try it out and the probes stay open.

use super::Rest;
use super::refusal::Refusal;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base::Code;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use server::{Handle, Need};

const BEARER: &str = "Bearer ";
const BASIC: &str = "Basic ";

pub async fn check(State(rest): State<Rest>, request: Request, next: Next) -> Response {
    if !rest.handle().is_auth_on() {
        return next.run(request).await;
    }
    match admit(rest.handle(), request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(code) => refuse(code),
    }
}

async fn admit(handle: &Handle, headers: &HeaderMap) -> Result<(), Code> {
    // Such a node knows no user.
    if handle.is_data_only() {
        return Err(Code::InvalidAuthToken);
    }
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let handle = match given.strip_prefix(BASIC) {
        Some(encoded) => {
            let (user, password) = basic(encoded).ok_or(Code::AuthFailed)?;
            let (_, token) = handle.authenticate(user, password).await?;
            handle.admit(Some(&token)).await?
        }
        None => {
            let token = given.strip_prefix(BEARER).unwrap_or(given);
            handle.admit(Some(token).filter(|token| !token.is_empty())).await?
        }
    };
    handle.permit(Need::Root).await
}

fn basic(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// Who is not known is asked to say who it is, and whoever is and may not is told that.
fn refuse(code: Code) -> Response {
    let message = "auth is on: send the token or the name and password of a user with the role root, to a member that \
                   has the coordination store";
    let body = axum::Json(Refusal::new(code, message).body());
    let unknown =
        matches!(code, Code::UserEmpty | Code::InvalidAuthToken | Code::AuthFailed | Code::NoPasswordUser);
    let status = match unknown {
        true => StatusCode::UNAUTHORIZED,
        false => StatusCode::from_u16(code.grpc().http_status()).expect("each is a status"),
    };
    let mut response = (status, body).into_response();
    if unknown {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"althing\""));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_hold_colons_and_anything_malformed_is_nobody() {
        assert_eq!(basic(&STANDARD.encode("ann:a:b")), Some(("ann".into(), "a:b".into())));
        for encoded in ["", "%%%", &STANDARD.encode("ann"), &STANDARD.encode([0xff, b':'])] {
            assert_eq!(basic(encoded), None, "{encoded}");
        }
    }
}
