//! The connection of the client verbs: several endpoints, one of which answers.
//! A call goes in; its answer comes out, or the reason why there is none. A read moves on to the next endpoint
//! whenever one is unavailable; a write does so only when it is certain that nobody executed it.

pub mod duration;
mod error;
mod options;

pub use error::Error;
pub use options::{Format, Options};

use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

/// The pause after all endpoints have been tried in vain.
const ROUND_PAUSE: Duration = Duration::from_millis(50);

/// Whether a call may be made again when it is not known what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

pub struct Client {
    endpoints: Vec<String>,
    dial_timeout: Duration,
    command_timeout: Duration,
}

impl Client {
    pub fn new(options: &Options) -> Result<Client, Error> {
        Ok(Client {
            endpoints: options.endpoints()?,
            dial_timeout: options.dial_timeout,
            command_timeout: options.command_timeout,
        })
    }

    /// One client for each endpoint, for verbs that ask every one of them.
    pub fn each(self) -> Vec<Client> {
        let (dial_timeout, command_timeout) = (self.dial_timeout, self.command_timeout);
        let alone = |endpoint| Client { endpoints: vec![endpoint], dial_timeout, command_timeout };
        self.endpoints.into_iter().map(alone).collect()
    }

    /// The first endpoint, as the user wrote it.
    pub fn endpoint(&self) -> &str {
        &self.endpoints[0]
    }

    /// Makes the call on the first endpoint that can be reached and answers.
    pub async fn call<T, F>(&self, kind: Kind, call: impl Fn(Channel) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut trouble = Error::Unreachable { reason: "none was tried".to_owned() };
        let dial_deadline = Instant::now() + self.dial_timeout;
        let mut deadline = None;
        loop {
            for endpoint in &self.endpoints {
                let channel = match self.dial(endpoint, deadline.unwrap_or(dial_deadline)).await {
                    Ok(channel) => channel,
                    Err(error) => {
                        trouble = trouble.or_rather(error);
                        continue;
                    }
                };
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.command_timeout);
                match timeout_at(deadline, call(channel)).await {
                    Ok(response) => return Ok(response),
                    Err(error) if may_repeat(kind, &error) => trouble = error,
                    Err(error) => return Err(error),
                }
            }
            if Instant::now() + ROUND_PAUSE >= deadline.unwrap_or(dial_deadline) {
                return Err(trouble);
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    async fn dial(&self, endpoint: &str, deadline: Instant) -> Result<Channel, Error> {
        let address = endpoint.strip_prefix("http://").unwrap_or(endpoint);
        let unreachable =
            |reason: &dyn std::fmt::Display| Error::Unreachable { reason: format!("{endpoint}: {reason}") };
        let connection = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| Error::Usage(format!("\"{endpoint}\" is not an endpoint: {error}")))?
            .connect_timeout(self.dial_timeout);
        let patience = deadline.saturating_duration_since(Instant::now()).min(self.dial_timeout);
        match timeout(patience, connection.connect()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(unreachable(&innermost(&error))),
            Err(_) => Err(unreachable(&"no connection in time")),
        }
    }
}

async fn timeout_at<T, F>(deadline: Instant, call: F) -> Result<T, Error>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    match tokio::time::timeout_at(deadline, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Error::Refused(Box::new(status))),
        Err(_) => Err(Error::TimedOut),
    }
}

/// A server that has too much to do refuses before it does anything; every other answer leaves it open
/// whether a write happened.
fn may_repeat(kind: Kind, error: &Error) -> bool {
    let Error::Refused(status) = error else { return false };
    let certainly_not_executed =
        status.code() == Code::ResourceExhausted && status.message() == base::Code::TooManyRequests.message();
    certainly_not_executed || (kind == Kind::Read && status.code() == Code::Unavailable)
}

/// The error that started it all, which is the one that tells something.
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

    fn refused(code: Code, message: &str) -> Error {
        Error::Refused(Box::new(Status::new(code, message)))
    }

    #[test]
    fn a_write_is_repeated_only_when_nobody_executed_it() {
        let unavailable = refused(Code::Unavailable, base::Code::Stopped.message());
        assert!(may_repeat(Kind::Read, &unavailable));
        assert!(!may_repeat(Kind::Write, &unavailable));
        let busy = refused(Code::ResourceExhausted, base::Code::TooManyRequests.message());
        assert!(may_repeat(Kind::Read, &busy) && may_repeat(Kind::Write, &busy));
        let full = refused(Code::ResourceExhausted, base::Code::NoSpace.message());
        assert!(!may_repeat(Kind::Write, &full));
        assert!(!may_repeat(Kind::Read, &Error::TimedOut));
    }
}
