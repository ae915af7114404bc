//! The short way for the requests that a store lives on: plain reads and writes of single keys over HTTP/1.1 on a
//! connection that is kept. A stream goes in; what was asked together is answered together, in order.
//! Whatever is in any way unusual (another path, another query than `?r=1`, a header that is not among the plainest) is
//! not judged here: the stream is given back with all that was read, and goes the long way from then on. What is
//! answered here is what the handlers of the router would answer.

mod answer;
mod head;
mod line;

use super::asked::{Asked, Whole, parse_json};
use super::query::Query;
use super::refusal::Refusal;
use super::store::{self, Entry};
use super::{Rest, data, write};
use crate::connections::Place;
use crate::intake::{Arriving, Intake};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::Code;
use bytes::{Buf, Bytes};
use head::{Familiar, Heard, Plain, What};
use line::Line;
use mesh::key::Key;
use mesh::namespaces;
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
}

impl Quick {
    pub fn new(rest: Rest, intake: Arc<Intake>) -> Quick {
        Quick { rest, space: namespaces::id_of(namespaces::DEFAULT), intake }
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
        let mut arriving = None;
        loop {
            match head::parse(&line.heard, &mut familiar) {
                Heard::Plain(plain) if self.takes(&plain) => {
                    self.hear_whole(&mut line, &plain, &mut arriving).await?;
                    arriving = None;
                    place.begin_request().then_some(())?;
                    self.deal_with(&mut line, plain).await?;
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

    /// Who asks is judged on the long way.
    fn takes(&self, plain: &Plain) -> bool {
        plain.body_bytes <= self.rest.body_bytes_max() && !self.rest.handle().is_auth_on()
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
    async fn deal_with<S>(&self, line: &mut Line<S>, plain: Plain) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let whole = plain.head_bytes + plain.body_bytes;
        let (key, body) = (&line.heard[plain.key.clone()], &line.heard[plain.head_bytes..whole]);
        let answered = match plain.what {
            What::StoreGet | What::DataGet => self.get(&plain, key, &mut line.out).await,
            What::StorePost => self.post(body, &mut line.out).await,
            What::DataPut => self.put(key, body, &mut line.out).await,
        };
        if let Err(refusal) = answered {
            // What is rare is kept out of the future that every connection holds.
            Box::pin(answer::render(refusal.into_response(), &mut line.out)).await;
        }
        line.heard.advance(whole);
        if line.must_say() {
            line.say(ANSWER_TIMEOUT).await.ok()?;
        }
        Some(())
    }

    async fn get(&self, plain: &Plain, key: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let rest = &self.rest;
        let r = plain.of_one.then_some(1);
        let record = store::live(rest, rest.read(Key::new(self.space, key), r, None).await?)?;
        match (answer::plain_value(&record), plain.what) {
            (Some(value), What::DataGet) => answer::found_in_data(rest, key, &record, value, out),
            (Some(value), _) => answer::found_in_store(rest, key, &record, value, out),
            (None, _) => answer::render(Box::pin(self.get_slowly(plain, key)).await?, out).await,
        }
        Ok(())
    }

    /// It has something about it that the handlers know how to say.
    async fn get_slowly(&self, plain: &Plain, key: &[u8]) -> Result<Response, Refusal> {
        let key = str::from_utf8(key).expect("a plain key is plain text");
        let mut asked = Asked::plain(&self.rest, Some(key));
        if plain.of_one {
            asked.query = Query::parse("r=1")?;
        }
        let rest = State(self.rest.clone());
        match plain.what {
            What::DataGet => data::get(rest, asked).await,
            _ => store::get(rest, asked).await,
        }
    }

    async fn post(&self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (rest, asked) = (&self.rest, Asked::plain(&self.rest, None));
        let entry = parse_json::<Entry<'_>>(body, store::RIGHT)?;
        if !head::is_plain(entry.key.as_bytes()) {
            let body = Whole(Bytes::copy_from_slice(body));
            answer::render(Box::pin(store::post(State(rest.clone()), asked, body)).await?, out).await;
            return Ok(());
        }
        let (key, given) = entry.given();
        let write = write::of_given(rest, &asked, asked.key_of(&key)?, given, None)?;
        let record = write::perform(rest, &asked, write).await?;
        answer::done_in_store(rest, key.as_bytes(), &record, out);
        Ok(())
    }

    async fn put(&self, key: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (rest, asked) = (&self.rest, Asked::plain(&self.rest, None));
        let given = parse_json(body, write::RIGHT)?;
        let write = write::of_given(rest, &asked, Key::new(self.space, key), given, None)?;
        let record = write::perform(rest, &asked, write).await?;
        answer::done_in_data(rest, &record, out);
        Ok(())
    }
}
