//! The routes of auth: the session of a caller, and the table of users, roles and permissions of both planes.

use super::guard;
use super::identity::ClientIdentity;
use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use crate::audit;
use crate::clients;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use base::Code;
use coord::call::{DataPermissionsOfRole, ListRoles, ListUsers, PermissionsOfRole, RolesOfUser};
use coord::{Access, DataAccess, DataPermission, Permission};
use serde::Deserialize;
use serde_json::{Map, Value, json as object};
use server::{DataCaller, Handle, IdentifiedBy};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use super::coord::put_bytes;

const RIGHT: &str = r#"{"user": "NAME", "password": "…"}"#;

/// What a request is authorized by.
pub struct GivenAuthorization {
    header: Vec<u8>,
    address: Option<IpAddr>,
}

impl GivenAuthorization {
    /// That of the call which this task serves.
    pub fn of_call(header: &[u8]) -> GivenAuthorization {
        GivenAuthorization { header: header.to_vec(), address: clients::current_ip() }
    }

    pub async fn caller(&self, handle: &Handle) -> Result<Arc<DataCaller>, Code> {
        guard::caller_of(handle, &self.header, self.address).await
    }
}

impl FromRequestParts<Rest> for GivenAuthorization {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Rest) -> Result<GivenAuthorization, Infallible> {
        let identity = parts.extensions.get::<ClientIdentity>();
        Ok(GivenAuthorization::of_call(ClientIdentity::authorization(identity, &parts.headers)))
    }
}

/// `GET /v1/session`: whether callers must say who they are, and who this one is.
pub async fn session(State(rest): State<Rest>, given: GivenAuthorization) -> Response {
    let handle = rest.handle();
    let is_auth_on = handle.auth().is_on();
    let caller = if is_auth_on && !given.header.is_empty() { given.caller(handle).await.ok() } else { None };
    let may_all = !is_auth_on || caller.as_ref().is_some_and(|caller| caller.rights().is_root());
    json(&object!({
        "auth": is_auth_on,
        "user": caller.as_ref().map(|caller| &*caller.user),
        "root": may_all,
        "data_only": handle.is_data_only(),
        "region": rest.region(),
        "node": handle.identity().name,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginBody {
    user: String,
    password: String,
}

/// `POST /v1/session`: a token for a name and a password.
pub async fn login(State(rest): State<Rest>, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let LoginBody { user, password } = parse_json(&body, RIGHT)?;
    audit::note(|entry| entry.identified_by = Some(IdentifiedBy::Password));
    audit::note_target("user", &user);
    if rest.handle().is_data_only() {
        return Err(Code::PasswordNotHere.into());
    }
    match rest.handle().auth().authenticate_from(clients::current_ip(), user.clone(), password).await {
        Ok(reply) => Ok(json(&object!({ "user": user, "token": reply.body.0 }))),
        Err(code @ (Code::AuthFailed | Code::NoPasswordUser)) => {
            let body = Refusal::new(code, "the name or the password is wrong").body();
            Ok((StatusCode::UNAUTHORIZED, axum::Json(body)).into_response())
        }
        Err(code) => Err(code.into()),
    }
}

/// `GET /v1/access`: every user and role, with the permissions of both planes.
pub async fn table(rest: Rest) -> Result<Response, Refusal> {
    let handle = rest.coord().await?;
    let users = handle.auth().run(ListUsers).await?.body.0;
    let roles = handle.auth().run(ListRoles).await?.body.0;
    let mut shown_users = Vec::new();
    for user in users {
        let roles = handle.auth().run(RolesOfUser(user.clone())).await?.body.0;
        shown_users.push(object!({ "user": user, "roles": roles }));
    }
    let mut shown_roles = Vec::new();
    for role in roles {
        let keys = handle.auth().run(PermissionsOfRole(role.clone())).await?.body;
        let data = handle.auth().run(DataPermissionsOfRole(role.clone())).await?.body;
        shown_roles.push(object!({
            "role": role,
            "keys": keys.iter().map(of_keys).collect::<Vec<_>>(),
            "data": data.iter().map(of_data).collect::<Vec<_>>(),
        }));
    }
    Ok(json(&object!({ "auth": handle.auth().is_on(), "users": shown_users, "roles": shown_roles })))
}

fn of_keys(permission: &Permission) -> Value {
    let access = match permission.access {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "readwrite",
    };
    let mut shown = Map::new();
    shown.insert("access".into(), access.into());
    put_bytes(&mut shown, "start", &permission.keys.start);
    let end = permission.keys.wire_end();
    shown.insert("is_one_key".into(), end.is_empty().into());
    shown.insert("is_open".into(), (&end[..] == b"\0").into());
    put_bytes(&mut shown, "end", &end);
    Value::Object(shown)
}

fn of_data(permission: &DataPermission) -> Value {
    let access = match permission.access {
        DataAccess::Read => "read",
        DataAccess::Write => "write",
        DataAccess::ReadWrite => "readwrite",
        DataAccess::Admin => "admin",
    };
    let mut shown = Map::new();
    shown.insert("access".into(), access.into());
    shown.insert("namespace".into(), permission.range.namespace.clone().into());
    put_bytes(&mut shown, "prefix", &permission.range.prefix);
    Value::Object(shown)
}
