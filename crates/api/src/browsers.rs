//! What a browser may do here: heads of requests go in, a verdict comes out, and answers get the headers that keep a
//! browser from running them.
//! A page on another site can make a browser send requests to any address that the browser reaches. `Origin` tells such
//! requests from those of programs, and `Host` tells a name of this server from one whose owner points it here (DNS
//! rebinding). gRPC is not judged: no page can send its content type unless a preflight has allowed that. See
//! docs/adr/0058.

use crate::audit;
use crate::mutant::Mutant;
use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, TRANSFER_ENCODING, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use base::mutant::planted;
use server::Audit;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
/// Stands for every host, or every origin.
const ANY: &str = "*";
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/// How long a browser may remember that a preflight was allowed, in seconds.
const PREFLIGHT_MAX_AGE: &str = "600";
/// For everything that is not meant to be a page.
const INERT: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";
/// The content types that any page may send without a preflight.
const SIMPLE_TYPES: [&str; 3] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
/// Public DNS has no names that end so: no server outside the network can point one here.
const PRIVATE_SUFFIXES: [&str; 3] = [".local", ".internal", ".svc"];

/// Which names and pages a port believes.
#[derive(Clone, Debug, Default)]
pub struct BrowserSettings {
    /// Host names that requests may be for: configured ones and those that this node advertises. `*` is for all,
    /// `*.example.com` for all below one.
    pub hosts: Vec<String>,
    /// Origins whose pages may read and write here; `*` is for all.
    pub origins: Vec<String>,
    /// Requests that carry nothing of a browser may be for any name, as etcd has it. For ports that show no data to them.
    pub programs_by_any_name: bool,
}

/// Judges requests of one port.
#[derive(Debug, Default)]
pub struct BrowserGuard {
    settings: BrowserSettings,
    /// Clients on other machines reach the port, so names of the private network may be its own.
    beyond_loopback: bool,
    tls: Option<Arc<tls::ServerTls>>,
    /// Records what is refused.
    audit: Option<Audit>,
}

pub enum Verdict {
    /// To be served. With the origin that may read the answer, if pages of another one may.
    Pass(Option<HeaderValue>),
    Answered(Box<Response<Body>>),
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Host,
    Origin,
    ContentType,
}

impl BrowserGuard {
    pub fn new(
        mut settings: BrowserSettings,
        beyond_loopback: bool,
        tls: Option<Arc<tls::ServerTls>>,
    ) -> BrowserGuard {
        settings.hosts.iter_mut().chain(&mut settings.origins).for_each(|name| name.make_ascii_lowercase());
        BrowserGuard { settings, beyond_loopback, tls, audit: None }
    }

    /// The same, which records what it refuses.
    pub fn with_audit(self, audit: Option<Audit>) -> BrowserGuard {
        BrowserGuard { audit, ..self }
    }

    /// Records that a request was refused before its route was looked for.
    pub fn record_refused(&self, head: &Parts, status: StatusCode) {
        if let Some(audit) = &self.audit {
            audit::record_unserved(audit, head, status);
        }
    }

    /// Whether requests may be for this `Host`. A request without one is no browser's.
    pub fn allows_host(&self, authority: &[u8]) -> bool {
        if planted(Mutant::HostUnchecked) {
            return true;
        }
        let Ok(authority) = std::str::from_utf8(authority) else { return false };
        let host = host_of(authority);
        if host.is_empty() || is_address(host) {
            return true;
        }
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        host == "localhost"
            || host.ends_with(".localhost")
            || self.settings.hosts.iter().any(|allowed| names(allowed, &host))
            || self.beyond_loopback && is_private(&host)
            || self.tls.as_ref().is_some_and(|tls| tls.is_certified_for(&host))
    }

    /// The same for a request without any header that tells of a page. A page sends one with whatever is no plain read.
    pub fn allows_host_of_program(&self, authority: &[u8]) -> bool {
        self.settings.programs_by_any_name || self.allows_host(authority)
    }

    /// Whether a page of this origin may ask, if the request is for this `Host`.
    pub fn allows_origin(&self, origin: &str, authority: &str) -> bool {
        self.is_listed(origin) || is_same(origin, authority) || planted(Mutant::OriginUnchecked)
    }

    /// An origin that is configured.
    fn is_listed(&self, origin: &str) -> bool {
        let is = |allowed: &String| allowed == ANY || allowed.eq_ignore_ascii_case(origin);
        self.settings.origins.iter().any(is)
    }

    fn allows_any_origin(&self) -> bool {
        self.settings.origins.iter().any(|allowed| allowed == ANY)
    }

    pub fn check(&self, head: &Parts) -> Verdict {
        if is_grpc(&head.headers) {
            return Verdict::Pass(None);
        }
        let authority = authority_of(head);
        let origin = head.headers.get(ORIGIN);
        match self.find_fault(head, authority, origin) {
            Some(refused) => {
                let response = refused.answer(authority, origin);
                self.record_refused(head, response.status());
                Verdict::Answered(Box::new(response))
            }
            None => {
                let other = origin.filter(|origin| self.is_listed(text(origin)));
                match other {
                    Some(origin) if is_preflight(head) => {
                        Verdict::Answered(Box::new(self.answer_preflight(head, origin)))
                    }
                    other => Verdict::Pass(other.map(|origin| self.shown_to(origin))),
                }
            }
        }
    }

    fn find_fault(&self, head: &Parts, authority: &str, origin: Option<&HeaderValue>) -> Option<Refused> {
        let fetched = head.headers.get(FETCH_SITE).map(text);
        let is_browser = origin.is_some() || fetched.is_some();
        let authority_bytes = authority.as_bytes();
        let is_known = if is_browser {
            self.allows_host(authority_bytes)
        } else {
            self.allows_host_of_program(authority_bytes)
        };
        if !is_known {
            return Some(Refused::Host);
        }
        let is_allowed = match origin {
            Some(origin) => self.allows_origin(text(origin), authority),
            None => self.allows_without_origin(head, fetched),
        };
        if !is_allowed {
            return Some(Refused::Origin);
        }
        let changes = ![Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method);
        (is_browser && changes && is_simple(&head.headers)).then_some(Refused::ContentType)
    }

    /// A browser leaves the origin out where it reads: for a link that was followed that is fine, for a part of another
    /// page it is not.
    fn allows_without_origin(&self, head: &Parts, fetched: Option<&str>) -> bool {
        let is_of_elsewhere = matches!(fetched, Some("cross-site" | "same-site"));
        let is_link = matches!(head.method, Method::GET | Method::HEAD)
            && head.headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
        !is_of_elsewhere || is_link || self.allows_any_origin()
    }

    fn shown_to(&self, origin: &HeaderValue) -> HeaderValue {
        if self.allows_any_origin() { HeaderValue::from_static(ANY) } else { origin.clone() }
    }

    fn answer_preflight(&self, head: &Parts, origin: &HeaderValue) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        if let Some(asked) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_MAX_AGE));
        finish(headers, Some(self.shown_to(origin)));
        response
    }
}

impl Refused {
    fn answer(self, authority: &str, origin: Option<&HeaderValue>) -> Response<Body> {
        let origin = origin.map(text).unwrap_or_default();
        let (status, error, message) = match self {
            Refused::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "host_not_allowed",
                format!(
                    "`{authority}` is not known as a name of this server, and a page could have pointed it here: \
                     set --allowed-hosts {0} (althing etcd: --host-whitelist {0}), or ask by an IP address",
                    host_of(authority)
                ),
            ),
            Refused::Origin if origin.is_empty() => (
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                "a page of another origin made this request; --cors lists the origins that may".to_owned(),
            ),
            Refused::Origin => (
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                format!("pages of `{origin}` may not ask here: set --cors {origin}"),
            ),
            Refused::ContentType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content_type_not_allowed",
                "a page must say what it sends: application/json, or application/octet-stream for bytes"
                    .to_owned(),
            ),
        };
        let body = serde_json::json!({ "error": error, "message": message, "code": 7 });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        protect(response.headers_mut());
        response
    }
}

/// What every answer has that is no gRPC, and what lets a page of another origin read it.
pub fn finish(headers: &mut HeaderMap, shown_to: Option<HeaderValue>) {
    protect(headers);
    if let Some(origin) = shown_to {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(ANY));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}

/// Keeps a browser from guessing what an answer is, and from running any of it. JSON is nothing that could be run.
pub fn protect(headers: &mut HeaderMap) {
    if is_grpc(headers) {
        return;
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json") {
        return;
    }
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(INERT));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether a page may send such a body without a preflight.
fn is_simple(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        let is_empty = headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0");
        return !is_empty || headers.contains_key(TRANSFER_ENCODING);
    };
    let essence = text(kind).split(';').next().unwrap_or_default().trim();
    essence.is_empty() || SIMPLE_TYPES.iter().any(|simple| simple.eq_ignore_ascii_case(essence))
}

/// What a request is for: the authority of HTTP/2, or the `Host` of HTTP/1.
fn authority_of(head: &Parts) -> &str {
    match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(HOST).map(text).unwrap_or_default(),
    }
}

/// Something that is no text is nothing that is allowed.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or("?")
}

/// Without its port.
fn host_of(authority: &str) -> &str {
    if authority.starts_with('[') {
        return authority.split_inclusive(']').next().unwrap_or(authority);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// No name server decides where an address leads.
fn is_address(host: &str) -> bool {
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bracketed {
        Some(inside) => inside.split('%').next().is_some_and(|inside| inside.parse::<Ipv6Addr>().is_ok()),
        None => host.parse::<IpAddr>().is_ok(),
    }
}

/// A name of one label, or below one that public DNS does not have.
fn is_private(host: &str) -> bool {
    !host.contains('.') || PRIVATE_SUFFIXES.iter().any(|suffix| host.ends_with(suffix))
}

/// Whether a setting is for this host, both in small letters.
fn names(allowed: &str, host: &str) -> bool {
    match allowed.strip_prefix('*') {
        Some("") => true,
        Some(below) if below.starts_with('.') => host.len() > below.len() && host.ends_with(below),
        _ => allowed == host,
    }
}

/// Whether a page came from where its request goes. Its scheme is not compared: a proxy may have taken off TLS.
fn is_same(origin: &str, authority: &str) -> bool {
    let host = origin.split_once("://").map(|(_, host)| host);
    host.is_some_and(|host| !host.is_empty() && host.eq_ignore_ascii_case(authority))
}

#[cfg(test)]
mod tests;
