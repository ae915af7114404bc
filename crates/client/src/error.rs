//! Why a call has no answer, or another one than expected.

use tonic::{Code, ConnectError, Status};

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("\"{endpoint}\" is not an endpoint: {reason}")]
    BadEndpoint { endpoint: String, reason: String },
    /// Something else than a member's port for clients, or TLS where there should be none, or the other way round.
    #[error("{endpoint} cannot be used: {reason}")]
    WrongEndpoint { endpoint: String, reason: String },
    #[error("no endpoint can be reached: {reason}")]
    Unreachable { reason: String },
    #[error("context deadline exceeded: no answer in time; a write may still happen")]
    TimedOut,
    /// The deadline of a call that changes nothing passed.
    #[error("context deadline exceeded: no answer in time; there may be no quorum")]
    ReadTimedOut,
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    /// The watch needed revisions that are compacted; the oldest one left is this.
    #[error("{}", base::Code::Compacted.message())]
    Compacted { revision: i64 },
    #[error("the watch was cancelled by the server: {reason}")]
    Canceled { reason: String },
    #[error("{}", base::Code::LeaseNotFound.message())]
    LeaseGone { id: i64 },
    #[error("lock {name:?} is held by {holder_id:?} with token {token}")]
    LockHeld { name: String, holder_id: String, token: i64 },
    #[error("the lock is lost: {reason}")]
    LockLost { reason: String },
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::Refused(Box::new(status))
    }
}

impl Error {
    /// The server refused for this reason.
    pub fn is_refusal(&self, code: base::Code) -> bool {
        matches!(self, Error::Refused(status)
            if status.code() as u8 == code.grpc() as u8 && status.message() == code.message())
    }

    /// The server does not know the call.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Error::Refused(status) if status.code() == Code::Unimplemented)
    }

    /// A refusal is more specific than a connection that failed after it.
    pub(crate) fn prefer_to(self, later: Error) -> Error {
        match self {
            Error::Refused(_) => self,
            _ => later,
        }
    }

    /// No server executed the call: there was no connection, or the server was overloaded.
    pub(crate) fn is_certainly_not_executed(&self) -> bool {
        let Error::Refused(status) = self else { return matches!(self, Error::Unreachable { .. }) };
        let busy = status.code() == Code::ResourceExhausted
            && status.message() == base::Code::TooManyRequests.message();
        busy || was_never_sent(status)
    }

    /// Another member, or the same one later, may answer a read.
    pub(crate) fn may_be_read_elsewhere(&self) -> bool {
        let Error::Refused(status) = self else { return false };
        // A status that has a cause was not sent by the server: the connection broke.
        let broken = std::error::Error::source(status).is_some();
        status.code() == Code::Unavailable || broken || self.is_certainly_not_executed()
    }

    /// It is about the request, and would be the same everywhere and later.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Error::Refused(status) => matches!(
                status.code(),
                Code::InvalidArgument
                    | Code::PermissionDenied
                    | Code::Unauthenticated
                    | Code::Unimplemented
                    | Code::FailedPrecondition
                    | Code::OutOfRange
                    | Code::NotFound
            ),
            Error::Unreachable { .. } | Error::TimedOut | Error::ReadTimedOut => false,
            _ => true,
        }
    }
}

fn was_never_sent(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}
