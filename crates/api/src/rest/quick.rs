//! The short way for the requests that a store lives on: reads and writes of single keys over HTTP/1.1 on a connection
//! that is kept, with whatever headers. A stream goes in; what was asked together is answered together, in order.
//! Another path, another query than `?r=1`, or a header about the connection itself is not judged here: the stream is
//! given back with all that was read, and goes the long way from then on. Who asks is found out once and holds until the
//! policy changes. What is answered here is what the handlers of the router would answer.

mod answer;
pub mod head;
mod line;

use super::asked::{Asked, Whole, parse_json};
use super::query::Query;
use super::refusal::Refusal;
use super::store::{self, Entry};
use super::{Rest, data, guard, session, sight, write};
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
use server::DataCaller;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A longer head is somebody else's business.
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

    /// Serves until the connection ends, or gives it back for the long way, with what was read of it. When it is time
    /// to stop, `stay` ends, and a request that has begun is answered still.
    pub async fn serve<S>(
        &self,
        stream: S,
        place: &Place,
        stay: impl Future<Output = ()> + Send + 'static,
    ) -> Option<(S, Bytes)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut line, mut familiar) = (Line::new(stream, stay), Familiar::default());
        let mut asking = Asking { rest: self.rest.clone(), authorization: Vec::new() };
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

    /// Reads until the body is there. None when the connection is over.
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
        match self.admit(asking, &headers.authorization).await {
            Ok(()) => {
                let (key, body) = (&line.heard[plain.key.clone()], &line.heard[plain.head_bytes..whole]);
                self.answer(&asking.rest, &plain, (headers, key, body), &mut line.out).await;
            }
            // What is rare is kept out of the future that every connection holds.
            Err(code) => Box::pin(answer::render(guard::refuse(code), &mut line.out)).await,
        }
        line.heard.advance(whole);
        if line.must_say() {
            line.say(ANSWER_TIMEOUT).await.ok()?;
        }
        Some(())
    }

    /// Finds out who asks, unless that was found out before and still holds.
    async fn admit(&self, asking: &mut Asking, authorization: &[u8]) -> Result<(), Code> {
        let handle = self.rest.handle();
        if !handle.is_auth_on() {
            if asking.rest.caller.is_some() {
                asking.rest = self.rest.clone();
            }
            return Ok(());
        }
        let is_known =
            |caller: &Arc<DataCaller>| asking.authorization == authorization && handle.is_current(caller);
        if !asking.rest.caller.as_ref().is_some_and(is_known) {
            let caller = Box::pin(guard::caller_of(handle, authorization)).await?;
            *asking =
                Asking { rest: self.rest.asked_by(Some(caller)), authorization: authorization.to_vec() };
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

    /// By the handlers, with the headers that say what is meant.
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
            // It has something about it that the handlers know how to say.
            (None, _) => {
                let nothing = Headers::default();
                Box::pin(self.answer_as_meant(rest, plain, (&nothing, key, &[]), out)).await?;
            }
        }
        Ok(())
    }

    /// The same for a client that hands on what it has seen, and is told what it has seen now.
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

/// Who asks on a connection, as it was found out last.
struct Asking {
    rest: Rest,
    /// What it was found out by.
    authorization: Vec<u8>,
}
