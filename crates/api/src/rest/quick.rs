//! The fast path for the most frequent requests: reads and writes of single keys over HTTP/1.1 on a kept-alive
//! connection, with any headers. A stream goes in; pipelined requests are answered together, in order.
//! Another path, another query than `?r=1`, or a header about the connection itself is not served here: the stream is
//! returned with all that was read, and takes the routed path from then on. The caller is looked up once and cached until the
//! policy changes. The answers are those of the router's handlers.

mod answer;
pub mod head;
mod line;

use super::asked::{Asked, Whole, parse_json};
use super::identity::ClientIdentity;
use super::query::Query;
use super::refusal::Refusal;
use super::store::{self, Entry};
use super::{Rest, data, guard, session, sight, write};
use crate::audit::Recording;
use crate::browsers::BrowserGuard;
use crate::connections::Place;
use crate::intake::{Arriving, Intake};
use axum::response::IntoResponse;
use base::Code;
use bytes::{Buf, Bytes};
use head::{Familiar, Headers, Heard, Plain, What};
use line::Line;
use mesh::key::Key;
use mesh::namespaces;
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
pub struct Quick {
    rest: Rest,
    /// The namespace of requests that name none.
    space: u32,
    intake: Arc<Intake>,
    browsers: Arc<BrowserGuard>,
}

impl Quick {
    pub fn new(rest: Rest, intake: Arc<Intake>, browsers: Arc<BrowserGuard>) -> Quick {
        Quick { rest, space: namespaces::id_of(namespaces::DEFAULT), intake, browsers }
    }

    /// Serves until the connection ends, or returns it for the routed path, with what was read of it. When the process
    /// stops, `stay` ends, and a request that has begun is still answered.
    pub async fn serve<S>(
        &self,
        stream: S,
        client: Client<'_>,
        stay: impl Future<Output = ()> + Send + 'static,
    ) -> Option<(S, Bytes)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut line, mut familiar) = (Line::new(stream, stay), Familiar::default());
        let Client { place, address, identity } = client;
        let mut asking = Asking { rest: self.rest.clone(), authorization: Vec::new(), address, identity };
        let mut arriving = None;
        loop {
            match head::parse(&line.heard, &mut familiar, &self.browsers) {
                Heard::Plain(plain) if plain.body_bytes <= self.rest.body_bytes_max() => {
                    self.hear_whole(&mut line, &plain, &mut arriving).await?;
                    arriving = None;
                    place.begin_request().then_some(())?;
                    self.deal_with(&mut line, plain, familiar.headers(), &mut asking).await?;
                }
                Heard::Part if line.heard.is_empty() => {
                    line.say(ANSWER_TIMEOUT).await.ok()?;
                    place.end_requests();
                    line.hear(true, IDLE_TIMEOUT).await.ok()?;
                }
                Heard::Part if line.heard.len() <= HEAD_BYTES_MAX => {
                    self.hear_more(&mut line, &mut arriving).await?;
                }
                _ => {
                    line.say(ANSWER_TIMEOUT).await.ok()?;
                    return Some(line.into_parts());
                }
            }
        }
    }

    /// Reads until the body is complete. None when the connection is over.
    async fn hear_whole<S>(
        &self,
        line: &mut Line<S>,
        plain: &Plain,
        arriving: &mut Option<Arriving>,
    ) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        while line.heard.len() < plain.head_bytes + plain.body_bytes {
            self.hear_more(line, arriving).await?;
        }
        Some(())
    }

    /// Reads more of a request that has begun, within its time and the budget.
    async fn hear_more<S>(&self, line: &mut Line<S>, arriving: &mut Option<Arriving>) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let arriving = arriving.get_or_insert_with(|| Arriving::new(&self.intake));
        if !arriving.hold(line.heard.len()) {
            let refusal = Refusal::from(Code::TooManyRequests);
            Box::pin(answer::render(refusal.into_response(), &mut line.out)).await;
            // The rest of the request would be taken for the next one.
            line.say(ANSWER_TIMEOUT).await.ok();
            return None;
        }
        line.hear(false, arriving.time_left()).await.ok()
    }

    /// None when the connection is over.
    async fn deal_with<S>(
        &self,
        line: &mut Line<S>,
        plain: Plain,
        headers: &Headers,
        asking: &mut Asking,
    ) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let whole = plain.head_bytes + plain.body_bytes;
        match self.rest.handle().audit() {
            None => self.admit_and_answer(line, &plain, headers, asking).await,
            // What is rare is kept out of the future that every connection holds.
            Some(audit) => {
                let recording = self.record(audit, &plain, headers, &line.heard[plain.key.clone()], asking);
                let begun = line.out.len();
                let answered = self.admit_and_answer(line, &plain, headers, asking);
                Box::pin(recording.around(answered)).await;
                // Who asked last may be another one than who is refused now.
                if let Some(caller) = &asking.rest.caller
                    && asking.is_authorized_by(headers)
                {
                    recording.set_user(caller.user.clone());
                }
                recording.end_http(answer::status_of(&line.out[begun..]));
            }
        }
        line.heard.advance(whole);
        if line.must_say() {
            line.say(ANSWER_TIMEOUT).await.ok()?;
        }
        Some(())
    }

    async fn admit_and_answer<S>(
        &self,
        line: &mut Line<S>,
        plain: &Plain,
        headers: &Headers,
        asking: &mut Asking,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match self.admit(asking, headers).await {
            Ok(()) => {
                let whole = plain.head_bytes + plain.body_bytes;
                let (key, body) = (&line.heard[plain.key.clone()], &line.heard[plain.head_bytes..whole]);
                self.answer(&asking.rest, plain, (headers, key, body), &mut line.out).await;
            }
            Err(code) => Box::pin(answer::render(guard::refuse(code), &mut line.out)).await,
        }
    }

    fn record(
        &self,
        audit: &Audit,
        plain: &Plain,
        headers: &Headers,
        key: &[u8],
        asking: &Asking,
    ) -> Recording {
        let (class, operation) = match plain.what {
            What::StoreGet => (AuditClass::Read, "GET /api/v1/store/keys/{*key}"),
            What::StorePost => (AuditClass::Change, "POST /api/v1/store/keys"),
            What::DataGet => (AuditClass::Read, "GET /v1/data/{*key}"),
            What::DataPut => (AuditClass::Change, "PUT /v1/data/{*key}"),
        };
        let mut entry = AuditEntry::new(class, "rest", operation);
        entry.address = asking.address;
        entry.namespace = Some(namespaces::DEFAULT.to_owned());
        entry.trace = headers.trace.clone();
        match asking.certificate(headers) {
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
    async fn admit(&self, asking: &mut Asking, headers: &Headers) -> Result<(), Code> {
        let handle = self.rest.handle();
        if !handle.is_auth_on() {
            if asking.rest.caller.is_some() {
                asking.rest = self.rest.clone();
            }
            return Ok(());
        }
        let is_known =
            |caller: &Arc<DataCaller>| asking.is_authorized_by(headers) && handle.is_current(caller);
        if !asking.rest.caller.as_ref().is_some_and(is_known) {
            let authorization = asking.authorization(headers).to_vec();
            let caller = Box::pin(guard::caller_of(handle, &authorization)).await?;
            asking.rest = self.rest.asked_by(Some(caller));
            asking.authorization = authorization;
        }
        match asking.rest.may_see(self.space) {
            true => Ok(()),
            false => Err(Code::PermissionDenied),
        }
    }

    async fn answer(
        &self,
        rest: &Rest,
        plain: &Plain,
        (headers, key, body): (&Headers, &[u8], &[u8]),
        out: &mut Vec<u8>,
    ) {
        let answered = match plain.what {
            _ if !headers.names_a_session_at_most() => {
                Box::pin(self.answer_as_meant(rest, plain, (headers, key, body), out)).await
            }
            What::StoreGet | What::DataGet if headers.meant.is_empty() => {
                self.get(rest, plain, key, out).await
            }
            What::StoreGet | What::DataGet => {
                Box::pin(self.get_in_session(rest, plain, (headers, key), out)).await
            }
            What::StorePost => self.post(rest, headers, body, out).await,
            What::DataPut => self.put(rest, headers, key, body, out).await,
        };
        if let Err(refusal) = answered {
            Box::pin(answer::render(refusal.into_response(), out)).await;
        }
    }

    /// By the handlers, with the headers that change the meaning of the request.
    async fn answer_as_meant(
        &self,
        rest: &Rest,
        plain: &Plain,
        (headers, key, body): (&Headers, &[u8], &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let key = str::from_utf8(key).expect("a plain key is plain text");
        let key = Some(key).filter(|key| !key.is_empty());
        let mut asked = Asked::with_headers(rest, key, headers.meant.clone())?;
        if plain.of_one {
            asked.query = Query::parse("r=1")?;
        }
        let (rest, body) = (rest.clone(), Whole(Bytes::copy_from_slice(body)));
        let response = match plain.what {
            What::StoreGet => store::get(rest, asked).await?,
            What::DataGet => data::get(rest, asked).await?,
            What::StorePost => store::post(rest, asked, body).await?,
            What::DataPut => data::put(rest, asked, body).await?,
        };
        answer::render(response, out).await;
        Ok(())
    }

    async fn get(&self, rest: &Rest, plain: &Plain, key: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let r = plain.of_one.then_some(1);
        let record = store::live(rest, rest.read(Key::new(self.space, key), r, None).await?)?;
        match (answer::plain_value(&record), plain.what) {
            (Some(value), What::DataGet) => answer::found_in_data(rest, key, &record, value, None, out),
            (Some(value), _) => answer::found_in_store(rest, key, &record, value, None, out),
            // Only the handlers can render it.
            (None, _) => {
                let nothing = Headers::default();
                Box::pin(self.answer_as_meant(rest, plain, (&nothing, key, &[]), out)).await?;
            }
        }
        Ok(())
    }

    /// The same for a client with a session token, which gets the new token back.
    async fn get_in_session(
        &self,
        rest: &Rest,
        plain: &Plain,
        (headers, key): (&Headers, &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut asked = Asked::with_headers(rest, None, headers.meant.clone())?;
        if plain.of_one {
            asked.query = Query::parse("r=1")?;
        }
        let sight = sight::look(rest, &asked, Key::new(self.space, key)).await?;
        let record = sight.live(rest, &asked)?;
        let seen = session::token(&asked, sight.seen())?;
        match (answer::plain_value(&record), plain.what) {
            (Some(value), What::DataGet) if sight.is_of_here(rest) => {
                answer::found_in_data(rest, key, &record, value, seen.as_ref(), out);
            }
            (Some(value), _) if sight.is_of_here(rest) => {
                answer::found_in_store(rest, key, &record, value, seen.as_ref(), out);
            }
            _ => self.answer_as_meant(rest, plain, (headers, key, &[]), out).await?,
        }
        Ok(())
    }

    async fn post(
        &self,
        rest: &Rest,
        headers: &Headers,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let asked = Asked::with_headers(rest, None, headers.meant.clone())?;
        let entry = parse_json::<Entry<'_>>(body, store::RIGHT)?;
        if !head::is_plain(entry.key.as_bytes()) {
            let body = Whole(Bytes::copy_from_slice(body));
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
        headers: &Headers,
        key: &[u8],
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let asked = Asked::with_headers(rest, None, headers.meant.clone())?;
        let given = parse_json(body, write::RIGHT)?;
        let write = write::of_given(rest, &asked, Key::new(self.space, key), given, None)?;
        let record = write::perform(rest, &asked, write).await?;
        let seen = session::token(&asked, std::iter::once(&*record))?;
        answer::done_in_data(rest, &record, seen.as_ref(), out);
        Ok(())
    }
}

/// The cached caller of a connection.
struct Asking {
    rest: Rest,
    /// The header that named it.
    authorization: Vec<u8>,
    address: Option<SocketAddr>,
    identity: Option<ClientIdentity>,
}

impl Asking {
    /// The certificate, if it is what says who asks.
    fn certificate(&self, headers: &Headers) -> Option<&ClientIdentity> {
        self.identity.as_ref().filter(|_| headers.authorization.is_empty() && !headers.is_passed_on)
    }

    /// What a request is authorized by: its own header, or the certificate of its client.
    fn authorization<'a>(&'a self, headers: &'a Headers) -> &'a [u8] {
        self.certificate(headers).map_or(&headers.authorization, |identity| &identity.badge)
    }

    /// The same as for the caller that was found out last.
    fn is_authorized_by(&self, headers: &Headers) -> bool {
        self.authorization == self.authorization(headers)
    }
}

/// Who is on the other end of a connection.
pub struct Client<'a> {
    pub place: &'a Place,
    pub address: Option<SocketAddr>,
    pub identity: Option<ClientIdentity>,
}
