//! The head of a request: the namespace and the key that it is about, its query and its headers.
//! A request's head goes in; whatever is malformed in it is refused here, before a handler runs.

use super::Rest;
use super::clock;
use super::home;
use super::namespace_cache::ResolvedNamespace;
use super::query::Query;
use super::refusal::Refusal;
use super::request_id;
use super::session;
use crate::audit;
use crate::grpc::fence;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use base::Code;
use base::limits::MESH_NAME_BYTES_MAX;
use bytes::Bytes;
use mesh::{Attributes, Context, Fence, Key, Level, RegionId, Session, namespaces, request_hash};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// The most seconds that a key may be asked to live: a century.
pub const TTL_SECONDS_MAX: u64 = 100 * 366 * 86_400;
pub const TIMEOUT_MS_MAX: u64 = 60_000;
/// How long a body may take to come in.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST_ID_BYTES_MAX: usize = 256;
const SESSION_BYTES_MAX: usize = 8_192;

#[derive(Clone)]
pub struct RequestHead {
    pub space: Arc<ResolvedNamespace>,
    /// Some requests name their keys elsewhere.
    key: Option<String>,
    pub query: Query,
    pub headers: HeaderMap,
    /// Read once, when it is first asked for.
    session: OnceLock<Option<Session>>,
}

impl FromRequestParts<Rest> for RequestHead {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, rest: &Rest) -> Result<RequestHead, Refusal> {
        let query = Query::parse(parts.uri.query().unwrap_or(""))?;
        let params = RawPathParams::from_request_parts(parts, rest)
            .await
            .map_err(|_| Refusal::bad("the path is not percent-encoded UTF-8"))?;
        let find = |wanted: &str| params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let name = match (find("ns"), query.get("ns")) {
            (Some(path), Some(query)) if path != query => {
                return Err(Refusal::bad("the path and ?ns= name two namespaces; name one"));
            }
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => namespaces::DEFAULT,
        };
        audit::note(|entry| entry.namespace = Some(name.to_owned()));
        let space = rest.spaces().find(rest.handle(), name).await?;
        let key = find("key").or_else(|| key_of_a_route(parts.uri.path()));
        let key = key.or(query.get("key")).map(str::to_owned);
        let head = RequestHead::new(Arc::new(space), key, query, std::mem::take(&mut parts.headers));
        // Headers that only the answer needs are checked before anything is done.
        head.session()?;
        Ok(head)
    }
}

/// A key that is called like a route, as `batch`, lies where the route does.
fn key_of_a_route(path: &str) -> Option<&str> {
    path.split_once("/data/").map(|(_, key)| key)
}

impl RequestHead {
    fn new(
        space: Arc<ResolvedNamespace>,
        key: Option<String>,
        query: Query,
        headers: HeaderMap,
    ) -> RequestHead {
        RequestHead { space, key, query, headers, session: OnceLock::new() }
    }

    /// A request about the default namespace that says nothing more.
    pub fn plain(rest: &Rest, key: Option<&str>) -> RequestHead {
        let space = rest.spaces().usual(rest.handle());
        RequestHead::new(space, key.map(str::to_owned), Query::default(), HeaderMap::new())
    }

    /// The same with more headers. Those that only the answer needs are checked before anything is done.
    pub fn with_headers(rest: &Rest, key: Option<&str>, headers: HeaderMap) -> Result<RequestHead, Refusal> {
        let head = RequestHead { headers, ..RequestHead::plain(rest, key) };
        head.session()?;
        Ok(head)
    }

    /// The head of a call that came in another way than by HTTP; its message names the keys.
    pub fn of_call(
        space: Arc<ResolvedNamespace>,
        query: Query,
        headers: HeaderMap,
    ) -> Result<RequestHead, Refusal> {
        let head = RequestHead::new(space, None, query, headers);
        head.session()?;
        Ok(head)
    }

    /// Another request about the same namespace.
    pub fn beside(&self, query: Query, headers: HeaderMap) -> RequestHead {
        RequestHead::new(self.space.clone(), None, query, headers)
    }

    /// The key that the path names.
    pub fn key_text(&self) -> Result<&str, Refusal> {
        let key = self.key.as_deref().unwrap_or("");
        check_key(key)?;
        Ok(key)
    }

    pub fn key(&self) -> Result<Key, Refusal> {
        Ok(Key::new(self.space.id, self.key_text()?.as_bytes()))
    }

    /// A key that the body names.
    pub fn key_of(&self, text: &str) -> Result<Key, Refusal> {
        check_key(text)?;
        Ok(Key::new(self.space.id, text.as_bytes()))
    }

    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.find(name).map(HeaderValue::as_bytes)
    }

    /// To search for a name costs more than to see that there are no headers.
    fn find(&self, name: &str) -> Option<&HeaderValue> {
        if self.headers.is_empty() { None } else { self.headers.get(name) }
    }

    fn text_header(&self, name: &str, bytes_max: usize) -> Result<Option<&str>, Refusal> {
        let Some(value) = self.find(name) else { return Ok(None) };
        let text = value.to_str().ok().filter(|text| (1..=bytes_max).contains(&text.len()));
        let refusal = || Refusal::bad(format!("{name} must be plain text of 1 to {bytes_max} bytes"));
        text.map(Some).ok_or_else(refusal)
    }

    pub fn timeout(&self) -> Result<Option<Duration>, Refusal> {
        Ok(self.query.number("timeout_ms", 1, TIMEOUT_MS_MAX)?.map(Duration::from_millis))
    }

    /// How many replicas a read or a write is to count, if the request says.
    pub fn replicas(&self, name: &str) -> Result<Option<u8>, Refusal> {
        let copies = self.space.wants.copies;
        let Some(text) = self.query.get(name) else { return Ok(None) };
        match text.parse::<u8>() {
            Ok(number) if (1..=copies).contains(&number) => Ok(Some(number)),
            _ => Err(Refusal::new(
                Code::BadQuorum,
                format!("{name}={text} must be from 1 to {copies}, the n of namespace `{}`", self.space.name),
            )),
        }
    }

    pub fn level(&self) -> Result<Level, Refusal> {
        match self.header("x-consistency-level") {
            None | Some(b"LOCAL_QUORUM") => Ok(Level::LocalQuorum),
            Some(b"ALL") => Ok(Level::LocalQuorum),
            Some(b"LOCAL_ONE" | b"ONE") => Ok(Level::LocalOne),
            Some(b"GLOBAL_QUORUM") => Ok(Level::GlobalQuorum),
            Some(b"EACH_QUORUM") => Ok(Level::EachQuorum),
            Some(b"LINEARIZABLE") => Ok(Level::Linearizable),
            Some(other) => Err(Refusal::bad(format!(
                "X-Consistency-Level `{}` must be ONE, LOCAL_ONE, LOCAL_QUORUM, ALL, GLOBAL_QUORUM, EACH_QUORUM or LINEARIZABLE",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// How many replicas a read counts. A client with a session reads what it has written, and that takes a majority.
    pub fn r(&self, rest: &Rest) -> Result<Option<u8>, Refusal> {
        let (head, level) = (self.replicas("r")?.or(self.all(rest)), self.level()?);
        let session = self.session_text()?.is_some();
        Ok(match (head, level) {
            (Some(r), _) => Some(r),
            (None, Level::LocalOne) if !session => Some(1),
            (None, _) => None,
        })
    }

    /// The level `ALL` counts every replica of this region.
    fn all(&self, rest: &Rest) -> Option<u8> {
        let nodes = rest.mesh().topology().members().len();
        let all = self.space.wants.copies.min(u8::try_from(nodes).unwrap_or(u8::MAX)).max(1);
        (self.header("x-consistency-level") == Some(b"ALL")).then_some(all)
    }

    /// How many replicas a write waits for.
    pub fn w(&self, rest: &Rest) -> Result<Option<u8>, Refusal> {
        if self.header("x-consistency-level") == Some(b"ONE") {
            return Ok(self.replicas("w")?.or(Some(1)));
        }
        if self.level()? == Level::LocalOne {
            return Err(Refusal::bad(
                "X-Consistency-Level of a write must be ONE, LOCAL_QUORUM, ALL, GLOBAL_QUORUM, EACH_QUORUM or LINEARIZABLE; ONE waits for one replica",
            ));
        }
        Ok(self.replicas("w")?.or(self.all(rest)))
    }

    fn session_text(&self) -> Result<Option<&str>, Refusal> {
        self.text_header("X-Session-Token", SESSION_BYTES_MAX)
    }

    /// What the client has seen, if it names a session.
    pub fn session(&self) -> Result<Option<&Session>, Refusal> {
        if self.session.get().is_none() {
            let session = self.session_text()?.map(session::parse).transpose()?;
            return Ok(self.session.get_or_init(|| session).as_ref());
        }
        Ok(self.session.get().and_then(Option::as_ref))
    }

    /// A version that a header carries.
    pub fn clock(&self, name: &str) -> Result<Option<Context>, Refusal> {
        self.header(name).map(|word| clock::parse(name, word)).transpose()
    }

    /// The fence that a write of the key must carry, and the key's home region, where there is one.
    fn fence(&self, rest: &Rest, key: &Key) -> Result<(Option<Fence>, Option<RegionId>), Refusal> {
        match (home::fence(rest, &self.space, key)?, self.header(fence::HEADER)) {
            (None, None) => Ok((None, None)),
            (None, Some(value)) => Ok((Some(parse_fence(value)?), None)),
            (Some((fence, region)), None) => Ok((Some(fence), Some(region))),
            (Some(_), Some(_)) => Err(Refusal::new(
                Code::BadFence,
                "the key has a home region, whose epoch is its fence; X-Fence cannot be another",
            )),
        }
    }

    fn request_id(&self) -> Result<Option<&str>, Refusal> {
        let id = self.text_header("X-Request-Id", REQUEST_ID_BYTES_MAX)?;
        id.into_iter().try_for_each(|id| request_id::check_age(id, now_ms()))?;
        Ok(id)
    }

    /// What comes with a write, as far as headers say it. `part` tells the writes of one request apart.
    pub fn attributes(&self, rest: &Rest, key: &Key, part: Option<usize>) -> Result<Attributes, Refusal> {
        let request = self.request_id()?.map(|id| match part {
            None => request_hash(id.as_bytes()),
            Some(part) => request_hash(format!("{part}:{id}").as_bytes()),
        });
        let seen = match self.clock("X-If-Vector-Clock")? {
            Some(clock) => Some(clock),
            None => self.clock("X-Vector-Clock")?,
        };
        let (level, after) = (self.level()?, self.session()?.map(Session::latest).unwrap_or_default());
        let (fence, home) = self.fence(rest, key)?;
        Ok(Attributes { context: seen, fence, home, request, level, after, ..Attributes::default() })
    }
}

fn parse_fence(value: &[u8]) -> Result<Fence, Refusal> {
    let parsed = fence::parse_value(value)
        .and_then(|fence| Some(Fence { lock: fence.lock, token: u64::try_from(fence.token.0).ok()? }));
    parsed.ok_or_else(|| {
        Refusal::new(Code::BadFence, "X-Fence must be lock=NAME,token=N, N being the token of the lock")
    })
}

fn check_key(key: &str) -> Result<(), Refusal> {
    match key.len() {
        0 => Err(Refusal::new(Code::EmptyKey, "a key is not empty; name one in the path, or as \"key\"")),
        len if len > MESH_NAME_BYTES_MAX => Err(Refusal::new(
            Code::RequestTooLarge,
            format!("a key takes at most {MESH_NAME_BYTES_MAX} bytes, this one has {len}"),
        )),
        _ => Ok(()),
    }
}

/// The moment at which something ends that lives for so many seconds from now.
pub fn expiry(ttl: Option<u64>) -> Result<Option<u64>, Refusal> {
    match ttl {
        None => Ok(None),
        Some(seconds @ 1..=TTL_SECONDS_MAX) => Ok(Some(now_ms() + seconds * 1_000)),
        Some(seconds) => {
            Err(Refusal::bad(format!("ttl {seconds} must be from 1 to {TTL_SECONDS_MAX} seconds")))
        }
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A body that was read whole, up to the bound of the router.
pub struct WholeBody(pub Bytes);

impl FromRequest<Rest> for WholeBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, rest: &Rest) -> Result<WholeBody, Refusal> {
        let told =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if told.is_some_and(|told: u64| told > rest.body_bytes_max() as u64) {
            return Err(too_large(rest));
        }
        match timeout(BODY_TIMEOUT, Bytes::from_request(request, rest)).await {
            Ok(Ok(bytes)) => Ok(WholeBody(bytes)),
            Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(too_large(rest)),
            Ok(Err(_)) => Err(Refusal::bad("the body broke off")),
            Err(_) => Err(Refusal::bad("the body did not come in time")),
        }
    }
}

fn too_large(rest: &Rest) -> Refusal {
    let max = rest.body_bytes_max();
    Refusal::new(Code::RequestTooLarge, format!("a request's body takes at most {max} bytes"))
}

/// Reads JSON; `right` shows what it ought to look like.
pub fn parse_json<'a, T: serde::Deserialize<'a>>(body: &'a [u8], right: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the body is not what it must be ({error}); right is {right}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_becomes_a_moment() {
        assert_eq!(expiry(None).unwrap(), None);
        let moment = expiry(Some(60)).unwrap().unwrap();
        assert!((now_ms()..=now_ms() + 60_000).contains(&moment));
        assert!(expiry(Some(0)).is_err() && expiry(Some(u64::MAX)).is_err());
    }

    #[test]
    fn keys_are_bounded() {
        assert!(check_key("").is_err() && check_key(&"k".repeat(MESH_NAME_BYTES_MAX + 1)).is_err());
        assert!(check_key("a/b c").is_ok());
    }
}
