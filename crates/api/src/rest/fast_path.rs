//! The fast path for the most frequent requests: reads and writes of single keys over HTTP/1.1 on a kept-alive
//! connection, with any headers. A stream goes in; pipelined requests are answered together, in order.
//! Another path, another query than `?r=1`, or a header about the connection itself is not served here: the stream is
//! returned with all that was read, and takes the routed path from then on. The caller is looked up once and cached until the
//! policy changes. The answers are those of the router's handlers.

mod answer;
mod conn;
pub mod head;

use super::identity::ClientIdentity;
use super::query::Query;
use super::read_result::{self, ReadResult};
use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, parse_json};
use super::store::{self, StoreEntry};
use super::{Rest, data, guard, session, write};
use crate::audit::Recording;
use crate::browsers::BrowserGuard;
use crate::clients::ClientRecord;
use crate::connections::SlotGuard;
use crate::request_budget::{IncompleteRequest, RequestBudget};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use base::Code;
use bytes::{Buf, Bytes};
use conn::FastConn;
use head::{HeaderCache, ParsedHead, ParsedHeaders, PlainOperation, PlainRequest};
use mesh::{Key, namespaces};
use server::{Audit, AuditClass, AuditEntry, DataCaller, IdentifiedBy};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A longer head takes the routed path.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// How long an answer may take to go out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may be silent between two.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub struct RestFastPath {
    rest: Rest,
    /// The namespace of requests that name none.
    space: u32,
    request_budget: Arc<RequestBudget>,
    browsers: Arc<BrowserGuard>,
}

impl RestFastPath {
    pub fn new(rest: Rest, request_budget: Arc<RequestBudget>, browsers: Arc<BrowserGuard>) -> RestFastPath {
        RestFastPath { rest, space: namespaces::id_of(namespaces::DEFAULT), request_budget, browsers }
    }

    /// Serves until the connection ends, or returns it for the routed path, with what was read of it. When the process
    /// stops, `stop` ends, and a request that has begun is still answered.
    pub async fn serve<S>(
        &self,
        stream: S,
        client: Client<'_>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Option<(S, Bytes)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut conn, mut header_cache) = (FastConn::new(stream, stop), HeaderCache::default());
        let Client { slot_guard, address, identity } = client;
        let client = slot_guard.client().clone();
        let mut cached_caller =
            CachedCaller { rest: self.rest.clone(), authorization: Vec::new(), address, identity, client };
        let mut incomplete = None;
        loop {
            match head::parse(&conn.input, &mut header_cache, &self.browsers) {
                ParsedHead::Plain(plain) if plain.body_bytes <= self.rest.body_bytes_max() => {
                    self.read_whole(&mut conn, &plain, &mut incomplete).await?;
                    incomplete = None;
                    slot_guard.begin_request().then_some(())?;
                    slot_guard.client().count_request();
                    self.serve_request(&mut conn, plain, header_cache.headers(), &mut cached_caller).await?;
                }
                ParsedHead::Incomplete if conn.input.is_empty() => {
                    conn.flush_output(ANSWER_TIMEOUT).await.ok()?;
                    slot_guard.end_requests();
                    conn.read_more(true, IDLE_TIMEOUT).await.ok()?;
                }
                ParsedHead::Incomplete if conn.input.len() <= HEAD_BYTES_MAX => {
                    self.read_rest(&mut conn, &mut incomplete).await?;
                }
                _ => {
                    conn.flush_output(ANSWER_TIMEOUT).await.ok()?;
                    return Some(conn.into_parts());
                }
            }
        }
    }

    /// Reads until the body is complete. None when the connection is over.
    async fn read_whole<S>(
        &self,
        conn: &mut FastConn<S>,
        plain: &PlainRequest,
        incomplete: &mut Option<IncompleteRequest>,
    ) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        while conn.input.len() < plain.head_bytes + plain.body_bytes {
            self.read_rest(conn, incomplete).await?;
        }
        Some(())
    }

    /// Reads more of a request that has begun, within its time and the budget.
    async fn read_rest<S>(
        &self,
        conn: &mut FastConn<S>,
        incomplete: &mut Option<IncompleteRequest>,
    ) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let incomplete = incomplete.get_or_insert_with(|| IncompleteRequest::new(&self.request_budget));
        if !incomplete.hold(conn.input.len()) {
            let refusal = Refusal::from(Code::TooManyRequests);
            Box::pin(answer::render(refusal.into_response(), &mut conn.out)).await;
            // The rest of the request would be taken for the next one.
            conn.flush_output(ANSWER_TIMEOUT).await.ok();
            return None;
        }
        conn.read_more(false, incomplete.time_left()).await.ok()
    }

    /// None when the connection is over.
    async fn serve_request<S>(
        &self,
        conn: &mut FastConn<S>,
        plain: PlainRequest,
        headers: &ParsedHeaders,
        cached_caller: &mut CachedCaller,
    ) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let whole = plain.head_bytes + plain.body_bytes;
        match self.rest.handle().audit() {
            None => self.admit_and_answer(conn, &plain, headers, cached_caller).await,
            // The rare case is kept out of the future that every connection holds.
            Some(audit) => {
                let recording =
                    self.record(audit, &plain, headers, &conn.input[plain.key.clone()], cached_caller);
                let begun = conn.out.len();
                let answered = self.admit_and_answer(conn, &plain, headers, cached_caller);
                Box::pin(recording.around(answered)).await;
                // The cached caller may be another user than the one that is refused now.
                if let Some(caller) = &cached_caller.rest.caller
                    && cached_caller.is_authorized_by(headers)
                {
                    recording.set_user(caller.user.clone());
                }
                recording.end_http(answer::status_of(&conn.out[begun..]));
            }
        }
        conn.input.advance(whole);
        if conn.must_flush() {
            conn.flush_output(ANSWER_TIMEOUT).await.ok()?;
        }
        Some(())
    }

    async fn admit_and_answer<S>(
        &self,
        conn: &mut FastConn<S>,
        plain: &PlainRequest,
        headers: &ParsedHeaders,
        cached_caller: &mut CachedCaller,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match self.admit(cached_caller, headers).await {
            Ok(()) => {
                let whole = plain.head_bytes + plain.body_bytes;
                let (key, body) = (&conn.input[plain.key.clone()], &conn.input[plain.head_bytes..whole]);
                self.answer(&cached_caller.rest, plain, (headers, key, body), &mut conn.out).await;
            }
            Err(code) => Box::pin(answer::render(guard::refuse(code), &mut conn.out)).await,
        }
    }

    fn record(
        &self,
        audit: &Audit,
        plain: &PlainRequest,
        headers: &ParsedHeaders,
        key: &[u8],
        cached_caller: &CachedCaller,
    ) -> Recording {
        let (class, operation) = match plain.operation {
            PlainOperation::StoreGet => (AuditClass::Read, "GET /api/v1/store/keys/{*key}"),
            PlainOperation::StorePost => (AuditClass::Change, "POST /api/v1/store/keys"),
            PlainOperation::DataGet => (AuditClass::Read, "GET /v1/data/{*key}"),
            PlainOperation::DataPut => (AuditClass::Change, "PUT /v1/data/{*key}"),
        };
        let mut entry = AuditEntry::new(class, "rest", operation);
        entry.address = cached_caller.address;
        entry.namespace = Some(namespaces::DEFAULT.to_owned());
        entry.trace = headers.trace.clone();
        match cached_caller.certificate(headers) {
            Some(identity) => {
                entry.user = Some(identity.name.clone());
                entry.identified_by = Some(IdentifiedBy::Certificate);
            }
            None => entry.identified_by = guard::identified_by(&headers.authorization),
        }
        if !key.is_empty() {
            entry.add_key(key);
        }
        Recording::new(audit, entry)
    }

    /// Finds out who asks, unless that was found out before and still holds.
    async fn admit(&self, cached_caller: &mut CachedCaller, headers: &ParsedHeaders) -> Result<(), Code> {
        let handle = self.rest.handle();
        if !handle.auth().is_on() {
            if cached_caller.rest.caller.is_some() {
                cached_caller.rest = self.rest.clone();
            }
            return Ok(());
        }
        let is_known = |caller: &Arc<DataCaller>| {
            cached_caller.is_authorized_by(headers) && handle.auth().is_current(caller)
        };
        if !cached_caller.rest.caller.as_ref().is_some_and(is_known) {
            let authorization = cached_caller.authorization(headers).to_vec();
            let address = cached_caller.address.map(|address| address.ip());
            let caller = Box::pin(guard::caller_of(handle, &authorization, address)).await?;
            cached_caller.client.set_user(&caller.user);
            cached_caller.rest = self.rest.with_caller(Some(caller));
            cached_caller.authorization = authorization;
        }
        if cached_caller.rest.may_see(self.space) { Ok(()) } else { Err(Code::PermissionDenied) }
    }

    async fn answer(
        &self,
        rest: &Rest,
        plain: &PlainRequest,
        (headers, key, body): (&ParsedHeaders, &[u8], &[u8]),
        out: &mut Vec<u8>,
    ) {
        let answered = match plain.operation {
            _ if !headers.names_a_session_at_most() => {
                Box::pin(self.answer_by_handler(rest, plain, (headers, key, body), out)).await
            }
            PlainOperation::StoreGet | PlainOperation::DataGet if headers.semantic.is_empty() => {
                self.get(rest, plain, key, out).await
            }
            PlainOperation::StoreGet | PlainOperation::DataGet => {
                Box::pin(self.get_in_session(rest, plain, (headers, key), out)).await
            }
            PlainOperation::StorePost => self.post(rest, headers, body, out).await,
            PlainOperation::DataPut => self.put(rest, headers, key, body, out).await,
        };
        if let Err(refusal) = answered {
            Box::pin(answer::render(refusal.into_response(), out)).await;
        }
    }

    /// By the handlers, with the headers that change the meaning of the request.
    async fn answer_by_handler(
        &self,
        rest: &Rest,
        plain: &PlainRequest,
        (headers, key, body): (&ParsedHeaders, &[u8], &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let key = str::from_utf8(key).expect("a plain key is plain text");
        let key = Some(key).filter(|key| !key.is_empty());
        let mut asked = RequestHead::with_headers(rest, key, headers.semantic.clone())?;
        if plain.of_one {
            asked.query = Query::parse("r=1")?;
        }
        let (rest, body) = (rest.clone(), WholeBody(Bytes::copy_from_slice(body)));
        let response = match plain.operation {
            PlainOperation::StoreGet => store::get(rest, asked).await?,
            PlainOperation::DataGet => data::get(rest, asked).await?,
            PlainOperation::StorePost => store::post(rest, asked, body).await?,
            PlainOperation::DataPut => data::put(rest, asked, body).await?,
        };
        answer::render(response, out).await;
        Ok(())
    }

    async fn get(
        &self,
        rest: &Rest,
        plain: &PlainRequest,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let r = plain.of_one.then_some(1);
        let record = store::live(rest, rest.read(Key::new(self.space, key), r, None).await?)?;
        match (answer::plain_value(&record), plain.operation) {
            (Some(value), PlainOperation::DataGet) => {
                answer::found_in_data(rest, key, &record, value, None, out)
            }
            (Some(value), _) => answer::found_in_store(rest, key, &record, value, None, out),
            (None, _) => {
                let asked = RequestHead::with_headers(rest, None, HeaderMap::new())?;
                let result = ReadResult::local(rest, record);
                Box::pin(show_as_handlers_do(rest, plain, (&asked, key), &result, out)).await?;
            }
        }
        Ok(())
    }

    /// The same for a client with a session token, which gets the new token back.
    async fn get_in_session(
        &self,
        rest: &Rest,
        plain: &PlainRequest,
        (headers, key): (&ParsedHeaders, &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut asked = RequestHead::with_headers(rest, None, headers.semantic.clone())?;
        if plain.of_one {
            asked.query = Query::parse("r=1")?;
        }
        let result = read_result::read(rest, &asked, Key::new(self.space, key)).await?;
        let record = result.live(rest, &asked)?;
        let seen = session::token(&asked, result.seen())?;
        match (answer::plain_value(&record), plain.operation) {
            (Some(value), PlainOperation::DataGet) if result.is_local(rest) => {
                answer::found_in_data(rest, key, &record, value, seen.as_ref(), out);
            }
            (Some(value), _) if result.is_local(rest) => {
                answer::found_in_store(rest, key, &record, value, seen.as_ref(), out);
            }
            _ => show_as_handlers_do(rest, plain, (&asked, key), &result, out).await?,
        }
        Ok(())
    }

    async fn post(
        &self,
        rest: &Rest,
        headers: &ParsedHeaders,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let asked = RequestHead::with_headers(rest, None, headers.semantic.clone())?;
        let entry = parse_json::<StoreEntry<'_>>(body, store::RIGHT)?;
        if !head::is_plain(entry.key.as_bytes()) {
            let body = WholeBody(Bytes::copy_from_slice(body));
            answer::render(Box::pin(store::post(rest.clone(), asked, body)).await?, out).await;
            return Ok(());
        }
        let (key, given) = entry.given();
        let write = write::of_given(rest, &asked, asked.key_of(&key)?, given, None)?;
        let record = write::perform(rest, &asked, write).await?;
        let seen = session::token(&asked, std::iter::once(&*record))?;
        answer::done_in_store(rest, key.as_bytes(), &record, seen.as_ref(), out);
        Ok(())
    }

    async fn put(
        &self,
        rest: &Rest,
        headers: &ParsedHeaders,
        key: &[u8],
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let asked = RequestHead::with_headers(rest, None, headers.semantic.clone())?;
        let given = parse_json(body, write::RIGHT)?;
        let write = write::of_given(rest, &asked, Key::new(self.space, key), given, None)?;
        let record = write::perform(rest, &asked, write).await?;
        let seen = session::token(&asked, std::iter::once(&*record))?;
        answer::done_in_data(rest, &record, seen.as_ref(), out);
        Ok(())
    }
}

/// What was read already, in the handlers' form.
async fn show_as_handlers_do(
    rest: &Rest,
    plain: &PlainRequest,
    (asked, key): (&RequestHead, &[u8]),
    result: &ReadResult,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let key = str::from_utf8(key).expect("a plain key is plain text");
    let record = result.live(rest, asked)?;
    let response = read_result::show_record(rest, asked, result, &record, |record| match plain.operation {
        PlainOperation::DataGet => data::show(rest, key, record, None),
        _ => store::show(key, record, None),
    })?;
    answer::render(response, out).await;
    Ok(())
}

/// The cached caller of a connection.
struct CachedCaller {
    rest: Rest,
    /// The header that named it.
    authorization: Vec<u8>,
    address: Option<SocketAddr>,
    identity: Option<ClientIdentity>,
    client: Arc<ClientRecord>,
}

impl CachedCaller {
    /// The certificate, if it is what says who asks.
    fn certificate(&self, headers: &ParsedHeaders) -> Option<&ClientIdentity> {
        self.identity.as_ref().filter(|_| headers.authorization.is_empty() && !headers.is_passed_on)
    }

    /// The header that authorizes a request: its own, or that made of its client's certificate.
    fn authorization<'a>(&'a self, headers: &'a ParsedHeaders) -> &'a [u8] {
        self.certificate(headers).map_or(&headers.authorization, |identity| &identity.certificate_token)
    }

    /// The same as for the caller that was found out last.
    fn is_authorized_by(&self, headers: &ParsedHeaders) -> bool {
        self.authorization == self.authorization(headers)
    }
}

/// The client at the other end of a connection.
pub struct Client<'a> {
    pub slot_guard: &'a SlotGuard,
    pub address: Option<SocketAddr>,
    pub identity: Option<ClientIdentity>,
}
