//! Which callers may use the REST API while auth is on: a user, by a token or by name and password, with the permission that
//! the route names. Permissions on keys are checked where a request goes to the mesh (`permit.rs`), because bodies name
//! keys too. Everything is decided by what this node knows; the coordination store is not asked.

use super::Rest;
use super::identity::ClientIdentity;
use super::query::Query;
use super::refusal::Refusal;
use crate::audit;
use crate::clients;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base::Code;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mesh::namespaces;
use server::{Credentials, DataCaller, DataVerb, Handle, IdentifiedBy};
use std::net::IpAddr;
use std::sync::Arc;

const BEARER: &str = "Bearer ";
const BASIC: &str = "Basic ";
/// By this a browser says whether a page or its user makes a request.
const FETCH_MODE: &str = "sec-fetch-mode";

/// What a route demands of its caller while auth is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// Nothing: it shows nothing of the cluster.
    Open,
    User,
    /// The role root.
    Root,
    /// Any permission in the namespace.
    Member,
    /// `admin` on the whole namespace.
    Admin,
    /// `read` on each key that is shown.
    Read,
    /// `write` on each key that is changed; with a condition `read` too, as its refusal shows what is there.
    Write,
    /// Both, as the answer shows what the key holds.
    ReadAndWrite,
    /// `read` or `write` on each key, by the operation on it.
    ReadOrWrite,
    /// `read` on the keys of conflicts, in whichever namespace; others are not shown.
    ReadConflicts,
    /// Both on the key of the conflict.
    RestoreConflict,
    /// Permissions of the coordination store, which checks them itself.
    CoordRead,
    CoordWrite,
    CoordReadAndWrite,
}

impl RouteAccess {
    /// As documents say it.
    pub fn describe(self) -> &'static str {
        match self {
            RouteAccess::Open => "none",
            RouteAccess::User => "any user",
            RouteAccess::Root => "root",
            RouteAccess::Member => "any permission in the namespace",
            RouteAccess::Admin => "admin on the namespace",
            RouteAccess::Read | RouteAccess::ReadConflicts => "read on the keys",
            RouteAccess::Write => "write on the keys",
            RouteAccess::ReadAndWrite | RouteAccess::RestoreConflict => "read and write on the key",
            RouteAccess::ReadOrWrite => "read or write on each key",
            RouteAccess::CoordRead => "read on the keys in the coordination store",
            RouteAccess::CoordWrite => "write on the keys in the coordination store",
            RouteAccess::CoordReadAndWrite => "read and write on the keys in the coordination store",
        }
    }
}

/// What the guard of one route goes by.
#[derive(Clone)]
pub struct GuardState {
    pub rest: Rest,
    pub needs: Arc<[(&'static str, RouteAccess)]>,
    /// As the router reads it.
    pub pattern: Arc<str>,
}

pub async fn check(State(guarded): State<GuardState>, request: Request, next: Next) -> Response {
    let GuardState { rest, needs, pattern } = guarded;
    // What the route does not take is refused by it.
    let need = needs.iter().find(|(method, _)| is_method(request.method(), method)).map(|(_, need)| *need);
    let Some(need) = need.filter(|need| *need != RouteAccess::Open && rest.handle().auth().is_on()) else {
        return next.run(request).await;
    };
    let (mut parts, body) = request.into_parts();
    let is_of_a_script = parts.headers.get(FETCH_MODE).is_some_and(|mode| mode != "navigate");
    let call = format!("{} {pattern}", parts.method);
    let response = match admit(&rest, &mut parts, need).await {
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(code) => {
            let mut response = refuse(code);
            // A browser would ask its user for a password, over the head of the page.
            if is_of_a_script {
                response.headers_mut().remove(WWW_AUTHENTICATE);
            }
            response
        }
    };
    if let (StatusCode::FORBIDDEN, Some(client)) = (response.status(), clients::current()) {
        rest.handle().note_refused(client.refused(call));
    }
    response
}

/// A route that takes GET takes HEAD.
fn is_method(asked: &Method, method: &str) -> bool {
    asked.as_str().eq_ignore_ascii_case(method) || (*asked == Method::HEAD && method == "get")
}

async fn admit(rest: &Rest, parts: &mut Parts, need: RouteAccess) -> Result<Arc<DataCaller>, Code> {
    let identity = parts.extensions.get::<ClientIdentity>();
    let authorization = ClientIdentity::authorization(identity, &parts.headers);
    let caller = caller_of(rest.handle(), authorization, clients::current_ip()).await?;
    let rights = caller.rights();
    let permitted = match need {
        RouteAccess::Open
        | RouteAccess::User
        | RouteAccess::ReadConflicts
        | RouteAccess::RestoreConflict
        | RouteAccess::CoordRead
        | RouteAccess::CoordWrite
        | RouteAccess::CoordReadAndWrite => true,
        RouteAccess::Root => rights.is_root(),
        RouteAccess::Admin => rights.may_all(DataVerb::Admin, space_of(rest, parts).await),
        RouteAccess::Member
        | RouteAccess::Read
        | RouteAccess::Write
        | RouteAccess::ReadAndWrite
        | RouteAccess::ReadOrWrite => rights.may_see(space_of(rest, parts).await),
    };
    if permitted { Ok(caller) } else { Err(Code::PermissionDenied) }
}

/// The namespace that the request names, as the handlers find it; one that is named twice they refuse.
async fn space_of(rest: &Rest, parts: &mut Parts) -> u32 {
    let params = RawPathParams::from_request_parts(parts, rest).await.ok();
    let in_path = params.as_ref().and_then(|params| params.iter().find(|(name, _)| *name == "ns"));
    let query = Query::parse(parts.uri.query().unwrap_or("")).unwrap_or_default();
    let name = in_path.map(|(_, name)| name).or(query.get("ns")).unwrap_or(namespaces::DEFAULT);
    namespaces::id_of(name)
}

pub fn authorization(headers: &HeaderMap) -> &[u8] {
    headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default()
}

/// The caller that sent this `Authorization` from this address.
pub async fn caller_of(
    handle: &Handle,
    given: &[u8],
    address: Option<IpAddr>,
) -> Result<Arc<DataCaller>, Code> {
    let given = std::str::from_utf8(given).map_err(|_| Code::InvalidAuthToken)?;
    if let Some(encoded) = given.strip_prefix(BASIC) {
        audit::note(|entry| entry.identified_by = Some(IdentifiedBy::Password));
        let (user, password) = basic(encoded).ok_or(Code::AuthFailed)?;
        audit::note_target("user", &user);
        let credentials = Credentials::Password { user: &user, password: &password, address };
        return handle.auth().data_caller(Some(credentials)).await.inspect(note_caller);
    }
    let token = given.strip_prefix(BEARER).unwrap_or(given);
    let token = Some(token).filter(|token| !token.is_empty());
    audit::note_token(handle, token);
    handle.auth().data_caller(token.map(Credentials::Token)).await.inspect(note_caller)
}

fn note_caller(caller: &Arc<DataCaller>) {
    audit::note(|entry| entry.user = Some(caller.user.clone()));
    if let Some(client) = clients::current() {
        client.set_user(&caller.user);
    }
}

/// How a caller that sends this `Authorization` wants to be known.
pub fn identified_by(authorization: &[u8]) -> Option<IdentifiedBy> {
    match authorization {
        [] => None,
        given if given.starts_with(BASIC.as_bytes()) => Some(IdentifiedBy::Password),
        _ => Some(IdentifiedBy::Token),
    }
}

fn basic(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// An unauthenticated caller is asked to authenticate, and one without permission learns that.
pub fn refuse(code: Code) -> Response {
    let message = match code {
        Code::PermissionDenied => {
            "this user has no permission for that; `althing role grant-permission ROLE read|write|readwrite|admin --data \
             NAMESPACE/PREFIX` grants one"
        }
        Code::PasswordNotHere | Code::PolicyTooOld | Code::NotInStep | Code::TooManyRequests => {
            let message = code.message();
            message.split_once(": ").map_or(message, |(_, words)| words)
        }
        _ => "auth is on: send the token of a user, or its name and password (`curl -u NAME:PASSWORD`)",
    };
    let unknown = matches!(
        code,
        Code::UserEmpty
            | Code::InvalidAuthToken
            | Code::AuthFailed
            | Code::NoPasswordUser
            | Code::PasswordNotHere
    );
    if !unknown {
        return Refusal::new(code, message).into_response();
    }
    let body = axum::Json(Refusal::new(code, message).body());
    let mut response = (StatusCode::UNAUTHORIZED, body).into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"althing\""));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_hold_colons_and_malformed_credentials_have_no_user() {
        assert_eq!(basic(&STANDARD.encode("ann:a:b")), Some(("ann".into(), "a:b".into())));
        for encoded in ["", "%%%", &STANDARD.encode("ann"), &STANDARD.encode([0xff, b':'])] {
            assert_eq!(basic(encoded), None, "{encoded}");
        }
    }
}
