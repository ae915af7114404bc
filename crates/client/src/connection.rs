//! The connection: several endpoints, one of which answers and is used while it does.
//! A call goes in; its answer comes out, or the reason why there is none. A read moves on to the next endpoint
//! whenever one is unavailable; a write does so only when it is certain that no server executed it.

use crate::Error;
use crate::diagnose;
use crate::login::{AuthedChannel, Login, TokenCache};
use crate::tls::Tls;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// The pause after all endpoints have failed.
pub(crate) const ROUND_PAUSE: Duration = Duration::from_millis(50);
/// How often a silent connection is pinged; etcd allows no more than every
/// five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a call may be repeated when its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

/// Endpoints, timeouts and credentials.
#[derive(Clone, Debug)]
pub struct Config {
    /// `HOST:PORT`, with or without `http://` or `https://`. Without, TLS is used if `tls` is set.
    pub endpoints: Vec<String>,
    /// How long it may take to find an endpoint that can be reached.
    pub dial_timeout: Duration,
    /// How long an answer may take.
    pub call_timeout: Duration,
    /// The user, where auth is on.
    pub login: Option<Login>,
    /// TLS settings.
    pub tls: Option<Tls>,
}

/// Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: Config,
    current: Mutex<CurrentEndpoint>,
    token: TokenCache,
    /// Tasks that continue after their owners were dropped.
    afterwards: Mutex<Vec<JoinHandle<()>>>,
}

impl Inner {
    fn new(config: Config) -> Inner {
        Inner {
            config,
            current: Mutex::default(),
            token: TokenCache::default(),
            afterwards: Mutex::default(),
        }
    }
}

/// The endpoint that is called first, and the connection to it if there is one.
#[derive(Clone, Debug, Default)]
struct CurrentEndpoint {
    nth: usize,
    channel: Option<Channel>,
}

impl Client {
    /// Connects with the first call.
    pub fn new(config: Config) -> Result<Client, Error> {
        if config.endpoints.is_empty() {
            return Err(Error::Unreachable { reason: "no endpoint is given".to_owned() });
        }
        let tls = config.tls.as_ref();
        config.endpoints.iter().try_for_each(|endpoint| address(endpoint, tls).map(drop))?;
        Ok(Client(Arc::new(Inner::new(config))))
    }

    /// One client for each endpoint.
    pub fn each(&self) -> Vec<Client> {
        let alone = |endpoint: &String| {
            let config = Config { endpoints: vec![endpoint.clone()], ..self.0.config.clone() };
            Client(Arc::new(Inner::new(config)))
        };
        self.0.config.endpoints.iter().map(alone).collect()
    }

    /// The first endpoint, as it was given.
    pub fn endpoint(&self) -> &str {
        &self.0.config.endpoints[0]
    }

    pub fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn token_cache(&self) -> &TokenCache {
        &self.0.token
    }

    /// Makes the call on the first endpoint that can be reached and answers, and once more with a new token if the old
    /// one has expired.
    pub async fn call<T, F>(&self, kind: Kind, call: impl Fn(AuthedChannel) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let outcome = match self.attempt(kind, &call).await {
            Err(error) if self.forgets_token(&error) => self.attempt(kind, &call).await,
            outcome => outcome,
        };
        match outcome {
            Err(Error::TimedOut) if kind == Kind::Read => Err(Error::ReadTimedOut),
            Err(error) => Err(self.explained(error).await),
            outcome => outcome,
        }
    }

    /// An error about an endpoint that is none says what it is.
    pub(crate) async fn explained(&self, error: Error) -> Error {
        match self.0.config.endpoints.as_slice() {
            [endpoint] => diagnose::improve(error, &self.as_url(endpoint)).await,
            // Where others are left, the caller meant those.
            _ => error,
        }
    }

    /// With the scheme that is meant.
    fn as_url(&self, endpoint: &str) -> String {
        match (endpoint.contains("://"), &self.0.config.tls) {
            (false, Some(_)) => format!("https://{endpoint}"),
            _ => endpoint.to_owned(),
        }
    }

    async fn attempt<T, F>(&self, kind: Kind, call: impl Fn(AuthedChannel) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let config = &self.0.config;
        let mut trouble = Error::Unreachable { reason: "none was tried".to_owned() };
        let dial_deadline = Instant::now() + config.dial_timeout;
        let (mut deadline, mut is_repeated) = (None, false);
        loop {
            for _ in 0..config.endpoints.len() {
                let current = match self.connected(deadline.unwrap_or(dial_deadline)).await {
                    Ok(current) => current,
                    Err(error @ Error::BadEndpoint { .. }) => return Err(error),
                    Err(error) => {
                        trouble = trouble.prefer_to(error);
                        continue;
                    }
                };
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + config.call_timeout);
                let answer = match self.authed(current.1, deadline).await {
                    Ok(line) => by(deadline, call(line)).await,
                    // Nothing was sent yet.
                    Err(error) if error.may_be_read_elsewhere() => {
                        self.move_on(current.0);
                        trouble = error;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                match answer {
                    Err(error) if may_repeat(kind, &error) => {
                        self.move_on(current.0);
                        trouble = error;
                        is_repeated = true;
                    }
                    Err(Error::TimedOut) if is_repeated => return Err(self.timed_out_after(trouble).await),
                    outcome => return outcome,
                }
            }
            if Instant::now() + ROUND_PAUSE >= deadline.unwrap_or(dial_deadline) {
                return Err(trouble);
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    /// The deadline has cut off a repetition. Where the first call failed because the endpoint is none, that is the reason.
    async fn timed_out_after(&self, first: Error) -> Error {
        match self.explained(first).await {
            wrong @ Error::WrongEndpoint { .. } => wrong,
            _ => Error::TimedOut,
        }
    }

    /// Makes a call that may take long, until the deadline if there is one: again and elsewhere whenever an endpoint
    /// fails. So it must be one that does no harm when it is made twice.
    pub(crate) async fn retry_until<T, F>(
        &self,
        deadline: Option<Instant>,
        call: impl Fn(AuthedChannel) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut has_renewed = false;
        let attempts = async {
            loop {
                match self.channel().await {
                    Ok((place, line)) => match call(line).await.map_err(Error::from) {
                        Err(error) if !has_renewed && self.forgets_token(&error) => has_renewed = true,
                        Err(error) if error.may_be_read_elsewhere() => self.move_on(place),
                        outcome => return outcome.map(Response::into_inner),
                    },
                    Err(Error::Unreachable { .. }) => {}
                    Err(error) => return Err(error),
                }
                sleep(ROUND_PAUSE).await;
            }
        };
        match deadline {
            Some(deadline) => timeout_at(deadline, attempts).await.unwrap_or(Err(Error::TimedOut)),
            None => attempts.await,
        }
    }

    /// For work that is left when a value is dropped. Without a runtime it is not done.
    pub(crate) fn spawn_cleanup(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut afterwards = self.0.afterwards.lock().unwrap_or_else(PoisonError::into_inner);
        afterwards.retain(|work| !work.is_finished());
        afterwards.push(runtime.spawn(work));
    }

    /// Waits for the work that is left by dropped guards, leaderships and waits: after it their locks are
    /// released, or will be when their leases expire.
    pub async fn wait_for_releases(&self) {
        let afterwards =
            std::mem::take(&mut *self.0.afterwards.lock().unwrap_or_else(PoisonError::into_inner));
        for work in afterwards {
            // A task that panicked has reported it.
            let _ = work.await;
        }
    }

    /// A connection for a stream of its own, on the first endpoint that can be reached, with its index for
    /// `move_on`.
    pub(crate) async fn channel(&self) -> Result<(usize, AuthedChannel), Error> {
        let config = &self.0.config;
        let deadline = Instant::now() + config.dial_timeout;
        let mut trouble = Error::Unreachable { reason: "none was tried".to_owned() };
        loop {
            for _ in 0..config.endpoints.len() {
                match self.connected(deadline).await {
                    Err(error @ Error::Unreachable { .. }) => trouble = error,
                    Err(error) => return Err(error),
                    Ok((place, channel)) => match self.authed(channel, deadline).await {
                        Err(error) if error.may_be_read_elsewhere() => {
                            self.move_on(place);
                            trouble = error;
                        }
                        line => return line.map(|line| (place, line)),
                    },
                }
            }
            if Instant::now() + ROUND_PAUSE >= deadline {
                return Err(self.explained(trouble).await);
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    /// The endpoint of this index has failed: the next one is called from now on.
    pub(crate) fn move_on(&self, failed: usize) {
        let mut current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.nth == failed {
            *current = CurrentEndpoint { nth: (failed + 1) % self.0.config.endpoints.len(), channel: None };
        }
    }

    /// The current connection, or a new one to the endpoint whose turn it is.
    async fn connected(&self, deadline: Instant) -> Result<(usize, Channel), Error> {
        let current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let nth = current.nth;
        if let Some(channel) = current.channel {
            return Ok((nth, channel));
        }
        match self.dial(&self.0.config.endpoints[nth], deadline).await {
            Ok(channel) => {
                let mut current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner);
                if current.nth == nth {
                    current.channel = Some(channel.clone());
                }
                Ok((nth, channel))
            }
            Err(error) => {
                self.move_on(nth);
                Err(error)
            }
        }
    }

    async fn dial(&self, endpoint: &str, deadline: Instant) -> Result<Channel, Error> {
        let unreachable =
            |reason: &dyn std::fmt::Display| Error::Unreachable { reason: format!("{endpoint}: {reason}") };
        let dial_timeout = self.0.config.dial_timeout;
        let connection = address(endpoint, self.0.config.tls.as_ref())?
            .connect_timeout(dial_timeout)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let patience = deadline.saturating_duration_since(Instant::now()).min(dial_timeout);
        match timeout(patience, connection.connect()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(unreachable(&innermost(&error))),
            Err(_) => Err(unreachable(&"no connection in time")),
        }
    }
}

fn address(endpoint: &str, tls: Option<&Tls>) -> Result<Endpoint, Error> {
    let bad = |reason: String| Error::BadEndpoint { endpoint: endpoint.to_owned(), reason };
    let (scheme, address) = match endpoint.split_once("://") {
        None if tls.is_some() => ("https", endpoint),
        None => ("http", endpoint),
        Some((scheme @ ("http" | "https"), address)) => (scheme, address),
        Some(_) => return Err(bad("only http and https endpoints are spoken to".to_owned())),
    };
    let address =
        Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|error| bad(error.to_string()))?;
    if scheme == "http" {
        return Ok(address);
    }
    let (Some(tls), Some(host)) = (tls, address.uri().host()) else {
        return Err(bad("it uses TLS, and no authority to trust is configured".to_owned()));
    };
    let config = tls.config_for(host);
    address.tls_config(config).map_err(|error| bad(innermost(&error)))
}

pub(crate) async fn by<T, F>(deadline: Instant, call: F) -> Result<T, Error>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    match timeout_at(deadline, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(status.into()),
        Err(_) => Err(Error::TimedOut),
    }
}

/// An error leaves it open whether a write happened, unless it says otherwise.
fn may_repeat(kind: Kind, error: &Error) -> bool {
    match (kind, error) {
        (_, Error::Refused(_)) if error.is_certainly_not_executed() => true,
        (Kind::Read, _) => error.may_be_read_elsewhere(),
        _ => false,
    }
}

/// The innermost error, which is the most specific.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn refused(code: Code, message: &str) -> Error {
        Status::new(code, message).into()
    }

    #[test]
    fn a_write_is_repeated_only_when_no_server_executed_it() {
        let unavailable = refused(Code::Unavailable, base::Code::Stopped.message());
        assert!(may_repeat(Kind::Read, &unavailable));
        assert!(!may_repeat(Kind::Write, &unavailable));
        let busy = refused(Code::ResourceExhausted, base::Code::TooManyRequests.message());
        assert!(may_repeat(Kind::Read, &busy) && may_repeat(Kind::Write, &busy));
        let full = refused(Code::ResourceExhausted, base::Code::NoSpace.message());
        assert!(!may_repeat(Kind::Write, &full));
        assert!(!may_repeat(Kind::Read, &Error::TimedOut));
        let unsent = Status::from_error(Box::new(tonic::ConnectError("connection refused".into())));
        assert!(may_repeat(Kind::Write, &unsent.into()));
    }

    #[test]
    fn what_is_no_endpoint_is_refused_before_anything_is_sent() {
        let config = |endpoint: &str| Config {
            endpoints: vec![endpoint.to_owned()],
            dial_timeout: Duration::ZERO,
            call_timeout: Duration::ZERO,
            login: None,
            tls: None,
        };
        assert!(Client::new(config("127.0.0.1:2379")).is_ok());
        assert!(Client::new(config("http://host:1")).is_ok());
        for bad in ["https://host:1", "unix:///socket", "a b", ""] {
            let refusal = Client::new(config(bad)).expect_err(bad);
            assert!(matches!(refusal, Error::BadEndpoint { .. }), "{refusal}");
        }
    }
}
