//! What of a client's request goes into the audit log. A recording begins where a request comes in, the services note in
//! it which user asks and what the request names, and it ends with the outcome. What the services note goes to the
//! recording of the task that they run in, so that gRPC, the gateway and WebSockets share one way; without a recording
//! a note costs a look at a variable of the thread.

use crate::grpc::call_context;
use crate::rest::ClientIdentity;
use axum::extract::{RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use base::KeyRange;
use bytes::Bytes;
use coord::Caller;
use http2::Head;
use server::{Audit, AuditClass, AuditEntry, AuditOutcome, Handle, IdentifiedBy};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tonic::Code;

const TRACEPARENT: &str = "traceparent";
/// Characters of a path that no route was looked for.
const UNSERVED_PATH_MAX: usize = 512;

tokio::task_local! {
    static CURRENT: Recording;
}

/// An entry that is not ended yet.
#[derive(Clone)]
pub struct Recording {
    audit: Audit,
    entry: Arc<Mutex<AuditEntry>>,
}

impl Recording {
    pub fn new(audit: &Audit, entry: AuditEntry) -> Recording {
        Recording { audit: audit.clone(), entry: Arc::new(Mutex::new(entry)) }
    }

    fn lock(&self) -> MutexGuard<'_, AuditEntry> {
        self.entry.lock().expect("no thread panics while it holds an entry")
    }

    /// Runs what serves the request; its notes are this recording's.
    pub async fn around<F: Future>(&self, serve: F) -> F::Output {
        CURRENT.scope(self.clone(), serve).await
    }

    pub fn set_user(&self, user: Arc<str>) {
        self.lock().user = Some(user);
    }

    /// Ends with a status of gRPC.
    pub fn end(&self, code: Code) {
        let mut entry = self.lock().clone();
        entry.end(outcome_of(code), code_name(code));
        self.audit.record(entry);
    }

    /// Ends with a status of HTTP; a call that was refused by gRPC's words has noted them.
    pub fn end_http(&self, status: u16) {
        let mut entry = self.lock().clone();
        if entry.code.is_empty() {
            entry.end(outcome_of_http(status), status.to_string());
        }
        self.audit.record(entry);
    }
}

/// The recording of the request that this task serves, if there is one.
pub fn current() -> Option<Recording> {
    CURRENT.try_with(Recording::clone).ok()
}

/// Notes something about the request that this task serves.
pub fn note(note: impl FnOnce(&mut AuditEntry)) {
    let _ = CURRENT.try_with(|recording| note(&mut recording.lock()));
}

pub fn note_request(request: &coord::request::Request) {
    note(|entry| entry.add_request(request));
}

pub fn note_key(key: &[u8]) {
    note(|entry| entry.add_key(key));
}

pub fn note_target(kind: &'static str, name: &str) {
    note(|entry| entry.add_target(kind, name));
}

pub fn note_id(kind: &'static str, id: u64) {
    note(|entry| entry.add_target(kind, &format!("{id:x}")));
}

pub fn note_read() {
    note(|entry| entry.class = AuditClass::Read);
}

/// The status that a call through the gateway ends with.
pub fn note_status(code: Code) {
    note(|entry| entry.end(outcome_of(code), code_name(code)));
}

/// By what the caller wants to be known; the certificate is known also while auth is off.
pub fn note_token(handle: &Handle, token: Option<&str>) {
    note(|entry| identify(entry, handle, token));
}

pub fn note_caller(caller: &Caller) {
    note(|entry| set_user(entry, caller));
}

fn identify(entry: &mut AuditEntry, handle: &Handle, token: Option<&str>) {
    let Some(token) = token else { return };
    match handle.auth().certified_name(token) {
        Some(name) => {
            entry.user = Some(name);
            entry.identified_by = Some(IdentifiedBy::Certificate);
        }
        None => entry.identified_by = Some(IdentifiedBy::Token),
    }
}

fn set_user(entry: &mut AuditEntry, caller: &Caller) {
    if let Caller::User { name, .. } = caller {
        entry.user = Some(name.clone());
    }
}

/// The recording of a call that goes from its connection straight to the core.
pub fn of_fast_call(
    handle: &Handle,
    path: &'static str,
    head: &Head,
    (address, certificate_token): (Option<SocketAddr>, Option<Bytes>),
    request: Option<&coord::request::Request>,
) -> Option<Recording> {
    let audit = handle.audit()?;
    let mut entry = AuditEntry::new(class_of(path), "grpc", &path[1..]);
    entry.address = address;
    entry.trace = head.get(TRACEPARENT).and_then(|value| trace_of(value));
    let token = call_context::token_in(head)
        .or(certificate_token.as_deref().filter(|_| call_context::may_use_certificate(head)));
    identify(&mut entry, handle, token.map(|token| std::str::from_utf8(token).unwrap_or_default()));
    set_user(&mut entry, handle.caller());
    if let Some(request) = request {
        entry.add_request(request);
    }
    Some(Recording::new(audit, entry))
}

/// Records a request that was refused before its route was looked for.
pub fn record_unserved(audit: &Audit, head: &Parts, status: StatusCode) {
    let path: String = head.uri.path().chars().take(UNSERVED_PATH_MAX).collect();
    let class = class_of_rest(&head.method, &path);
    let mut entry = AuditEntry::new(class, "http", format!("{} {path}", head.method));
    entry.address = head.extensions.get::<Option<SocketAddr>>().copied().flatten();
    entry.trace = trace_in(&head.headers);
    entry.end(AuditOutcome::Refused, status.as_str().to_owned());
    audit.record(entry);
}

/// The recording of a call that goes to the services.
pub fn of_call<B>(audit: &Audit, request: &axum::http::Request<B>) -> Recording {
    let path = request.uri().path();
    let entry = AuditEntry::new(class_of(path), "grpc", path.trim_start_matches('/').to_owned());
    Recording::new(audit, with_origin(entry, request))
}

fn with_origin<B>(mut entry: AuditEntry, request: &axum::http::Request<B>) -> AuditEntry {
    entry.address = request.extensions().get::<Option<SocketAddr>>().copied().flatten();
    entry.trace = trace_in(request.headers());
    entry
}

pub fn trace_in(headers: &HeaderMap) -> Option<String> {
    headers.get(TRACEPARENT).and_then(|value| trace_of(value.as_bytes()))
}

/// The id of the trace in a `traceparent`, as W3C has it: a version, the id, a span and flags.
pub fn trace_of(value: &[u8]) -> Option<String> {
    let id = value.get(3..35)?;
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let is_whole = value.get(2) == Some(&b'-') && value.get(35) == Some(&b'-');
    (is_whole && id.iter().all(is_hex)).then(|| String::from_utf8_lossy(id).into_owned())
}

/// The watches of one stream: each is recorded when it begins or is refused, as the stream goes on in either case.
#[derive(Clone)]
pub struct WatchRecording {
    stream: Recording,
    /// The ranges of watches that are not answered yet, in their order.
    asked: Arc<Mutex<VecDeque<KeyRange>>>,
}

impl WatchRecording {
    /// Begins the recording of the stream that this task serves.
    pub fn begin() -> Option<WatchRecording> {
        Some(WatchRecording { stream: current()?, asked: Arc::default() })
    }

    pub fn ask(&self, keys: &KeyRange) {
        self.asked.lock().expect("no thread panics while it holds them").push_back(keys.clone());
    }

    pub fn identify(&self, caller: &Caller) {
        set_user(&mut self.stream.lock(), caller);
    }

    /// What the oldest watch that is not answered yet is answered.
    pub fn answer(&self, code: Code) {
        let keys = self.asked.lock().expect("no thread panics while it holds them").pop_front();
        self.record(keys.as_ref(), code);
    }

    /// A watch ends because its caller may no longer see its keys.
    pub fn deny(&self) {
        self.record(None, Code::PermissionDenied);
    }

    fn record(&self, keys: Option<&KeyRange>, code: Code) {
        let mut entry = self.stream.lock().clone();
        if let Some(keys) = keys {
            entry.add_range(keys);
        }
        entry.end(outcome_of(code), code_name(code));
        self.stream.audit.record(entry);
    }
}

/// Records the calls of the gateway, WebSockets included.
pub async fn record_gateway(State(audit): State<Audit>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let entry = AuditEntry::new(class_of_gateway(path), "json", path.to_owned());
    let recording = Recording::new(&audit, with_origin(entry, &request));
    let response = recording.around(next.run(request)).await;
    recording.end_http(response.status().as_u16());
    response
}

/// Records the requests of the REST API that go through its router.
pub async fn record_rest(
    State((audit, route)): State<(Audit, Arc<str>)>,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let operation = format!("{} {route}", request.method());
    let mut entry = AuditEntry::new(class_of_rest(request.method(), &route), "rest", operation);
    for (name, value) in &params {
        match name {
            "ns" => entry.namespace = Some(value.to_owned()),
            "key" => entry.add_key(value.as_bytes()),
            "handler" => entry.add_target("handler", value),
            "id" => entry.add_target("conflict", value),
            "region" => entry.add_target("region", value),
            "node" => entry.add_target("node", value),
            _ => {}
        }
    }
    if let Some(identity) = ClientIdentity::of(&request) {
        entry.user = Some(identity.name.clone());
        entry.identified_by = Some(IdentifiedBy::Certificate);
    }
    let recording = Recording::new(&audit, with_origin(entry, &request));
    let response = recording.around(next.run(request)).await;
    recording.end_http(response.status().as_u16());
    response
}

/// Calls that only read. Every other call is taken for a change, so that a new one is recorded before it is listed here.
/// A backup shows everything, hashes of passwords included, and counts as a change.
const READS: [&str; 35] = [
    "/etcdserverpb.KV/Range",
    "/etcdserverpb.KV/RangeStream",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/etcdserverpb.Lease/LeaseTimeToLive",
    "/etcdserverpb.Lease/LeaseLeases",
    "/etcdserverpb.Cluster/MemberList",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Maintenance/Hash",
    "/etcdserverpb.Maintenance/HashKV",
    "/etcdserverpb.Auth/AuthStatus",
    "/etcdserverpb.Auth/UserGet",
    "/etcdserverpb.Auth/UserList",
    "/etcdserverpb.Auth/RoleGet",
    "/etcdserverpb.Auth/RoleList",
    "/althing.auth.v1.DataAuth/RoleGetData",
    "/v3electionpb.Election/Leader",
    "/v3electionpb.Election/Observe",
    "/althing.lock.v1.LockService/LeaseKeepAlive",
    "/althing.lock.v1.LockService/Watch",
    "/althing.lock.v1.LockService/Inspect",
    "/althing.lock.v1.LockService/List",
    "/althing.lease.v1.LeaseService/Events",
    "/althing.data.v1.DataService/Get",
    "/althing.data.v1.DataService/Scan",
    "/althing.data.v1.DataService/Count",
    "/althing.data.v1.DataService/Elements",
    "/althing.data.v1.DataService/Watch",
    "/althing.store.v1.StoreService/History",
    "/althing.inspect.v1.InspectService/Clients",
    "/althing.inspect.v1.InspectService/Watches",
    "/althing.inspect.v1.InspectService/Leases",
    "/althing.inspect.v1.InspectService/Compaction",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];

/// The same for the gateway, behind `/v3/` (or what older clients write in its place) and `/v1/`.
const GATEWAY_READS: [&str; 21] = [
    "kv/range",
    "watch",
    "lease/keepalive",
    "lease/timetolive",
    "kv/lease/timetolive",
    "lease/leases",
    "kv/lease/leases",
    "cluster/member/list",
    "maintenance/status",
    "maintenance/hash",
    "maintenance/hashkv",
    "auth/status",
    "auth/user/get",
    "auth/user/list",
    "auth/role/get",
    "auth/role/list",
    "auth/role/get-data",
    "election/leader",
    "election/observe",
    "lock/inspect",
    "lock/list",
];

fn class_of(path: &str) -> AuditClass {
    match path {
        "/etcdserverpb.Auth/Authenticate" => AuditClass::Login,
        path if READS.contains(&path) => AuditClass::Read,
        _ => AuditClass::Change,
    }
}

fn class_of_gateway(path: &str) -> AuditClass {
    let rest = path.strip_prefix('/').and_then(|path| path.split_once('/')).map_or("", |(_, rest)| rest);
    match rest {
        "auth/authenticate" => AuditClass::Login,
        "store/history" => AuditClass::Read,
        rest if GATEWAY_READS.contains(&rest) => AuditClass::Read,
        _ => AuditClass::Change,
    }
}

/// Keys are read by GET, and by one POST whose body names several.
pub fn class_of_rest(method: &axum::http::Method, path: &str) -> AuditClass {
    match method.as_str() {
        "GET" | "HEAD" => AuditClass::Read,
        "POST" if path.ends_with("/data/batch/read") => AuditClass::Read,
        "POST" if path == "/v1/session" => AuditClass::Login,
        _ => AuditClass::Change,
    }
}

fn outcome_of(code: Code) -> AuditOutcome {
    match code {
        Code::Ok => AuditOutcome::Ok,
        Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument => AuditOutcome::Refused,
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unavailable
        | Code::Unknown
        | Code::Internal
        | Code::DataLoss => AuditOutcome::Unknown,
        _ => AuditOutcome::Failed,
    }
}

fn outcome_of_http(status: u16) -> AuditOutcome {
    match status {
        100..=399 => AuditOutcome::Ok,
        400 | 401 | 403 | 421 => AuditOutcome::Refused,
        408 | 500..=599 => AuditOutcome::Unknown,
        _ => AuditOutcome::Failed,
    }
}

fn code_name(code: Code) -> Cow<'static, str> {
    Cow::Borrowed(crate::metrics::CODE_NAMES[code as usize])
}

#[cfg(test)]
mod tests;
