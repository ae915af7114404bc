//! A bucket that speaks S3: files are put, fetched, listed and deleted, each by one signed request that may be repeated.
//! Connections are kept; what fails for a moment is tried again.

mod connection;
mod credentials;
mod listing;
mod signature;

use super::StoredObject;
use crate::error::Error;
use bytes::Bytes;
use connection::{BucketAnswer, Connection, Endpoint};
use credentials::BucketSettings;
use http::{Method, Request, StatusCode};
use listing::Listing;
use signature::{Signer, uri_encode};
use std::time::Duration;

/// How often a request is made in all, and the pause before the second time; it doubles.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Bucket {
    name: String,
    /// Before every path, with a slash at its end; or nothing.
    prefix: String,
    connection: Connection,
    signer: Signer,
    /// Whether the path begins with the bucket; otherwise the host does.
    in_path: bool,
}

/// A request, before it is signed.
struct BucketRequest<'a> {
    method: Method,
    path: &'a str,
    /// Encoded, and in the order of its names.
    query: String,
    body: Bytes,
}

impl Bucket {
    /// `BUCKET` or `BUCKET/PREFIX`.
    pub fn parse(text: &str) -> Result<Bucket, Error> {
        let (name, prefix) = text.split_once('/').unwrap_or((text, ""));
        if name.is_empty() {
            return Err(Error::Target("s3:// is followed by a bucket".to_owned()));
        }
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let BucketSettings { endpoint, region, credentials } = BucketSettings::of_environment()?;
        let in_path = endpoint.is_some();
        let endpoint = endpoint.unwrap_or_else(|| format!("https://{name}.s3.{region}.amazonaws.com"));
        let connection = Connection::new(Endpoint::parse(&endpoint)?)?;
        Ok(Bucket {
            name: name.to_owned(),
            prefix,
            connection,
            signer: Signer { region, credentials },
            in_path,
        })
    }

    pub async fn put(&self, path: &str, body: Bytes) -> Result<(), Error> {
        let key = format!("{}{path}", self.prefix);
        let ask = BucketRequest { method: Method::PUT, path: &key, query: String::new(), body };
        self.ask(&ask).await?.expect_success(|| self.shown(&ask)).map(drop)
    }

    pub async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let key = format!("{}{path}", self.prefix);
        let ask = BucketRequest { method: Method::GET, path: &key, query: String::new(), body: Bytes::new() };
        let answer = self.ask(&ask).await?;
        if answer.status == StatusCode::NOT_FOUND && answer.error_code() != "NoSuchBucket" {
            return Ok(None);
        }
        answer.expect_success(|| self.shown(&ask)).map(|body| Some(body.into()))
    }

    pub async fn delete(&self, path: &str) -> Result<(), Error> {
        let key = format!("{}{path}", self.prefix);
        let ask =
            BucketRequest { method: Method::DELETE, path: &key, query: String::new(), body: Bytes::new() };
        let answer = self.ask(&ask).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        answer.expect_success(|| self.shown(&ask)).map(drop)
    }

    pub async fn list(&self, folder: &str) -> Result<Vec<StoredObject>, Error> {
        let mut kept = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let token = next.take().map(|token| format!("continuation-token={}&", uri_encode(&token, true)));
            let prefix = uri_encode(&format!("{}{folder}/", self.prefix), true);
            let query = format!("{}list-type=2&prefix={prefix}", token.unwrap_or_default());
            let ask = BucketRequest { method: Method::GET, path: "", query, body: Bytes::new() };
            let body = self.ask(&ask).await?.expect_success(|| self.shown(&ask))?;
            let listing = Listing::parse(&String::from_utf8_lossy(&body)).ok_or_else(|| Error::Bucket {
                request: self.shown(&ask),
                status: 200,
                code: String::new(),
                message: "the answer is no listing".to_owned(),
            })?;
            let own = |(key, bytes): (String, u64)| {
                Some(StoredObject { path: key.strip_prefix(&self.prefix)?.to_owned(), bytes })
            };
            kept.extend(listing.files.into_iter().filter_map(own));
            next = listing.next;
            if next.is_none() {
                return Ok(kept);
            }
        }
    }

    /// For errors.
    fn shown(&self, ask: &BucketRequest<'_>) -> String {
        let query = if ask.query.is_empty() { String::new() } else { format!("?{}", ask.query) };
        format!("{} s3://{}/{}{query}", ask.method, self.name, ask.path)
    }

    /// The answer, whatever its status, unless that says that the next attempt may go better.
    async fn ask(&self, ask: &BucketRequest<'_>) -> Result<BucketAnswer, Error> {
        let mut pause = PAUSE;
        for attempt in 1.. {
            let outcome = self.connection.send(self.request(ask)?).await;
            let may_repeat = match &outcome {
                Ok(answer) => {
                    answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS
                }
                Err(_) => true,
            };
            if !may_repeat || attempt >= ATTEMPTS {
                return outcome;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the last attempt returns")
    }

    fn request(&self, ask: &BucketRequest<'_>) -> Result<Request<Bytes>, Error> {
        let bucket = if self.in_path { format!("/{}", uri_encode(&self.name, true)) } else { String::new() };
        let path = format!("{bucket}/{}", uri_encode(ask.path, false));
        let target = if ask.query.is_empty() { path.clone() } else { format!("{path}?{}", ask.query) };
        let host = self.connection.host();
        let mut request = Request::builder().method(ask.method.clone()).uri(target).header("host", host);
        for (name, value) in self.signer.sign(&ask.method, host, &path, &ask.query, &ask.body) {
            request = request.header(name, value);
        }
        let malformed = |error: http::Error| Error::Target(format!("{}: {error}", self.shown(ask)));
        request.body(ask.body.clone()).map_err(malformed)
    }
}
