//! Why a verb did not do what it was asked, with the exit code that tells a script what to do about it.

use crate::args::USAGE;
use base::code::Grpc;
use std::process::ExitCode;
use tonic::Status;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("no endpoint can be reached: {reason}")]
    Unreachable { reason: String },
    #[error("context deadline exceeded: no answer in time; a write may still happen")]
    TimedOut,
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    #[error("unhealthy cluster")]
    Unhealthy,
    #[error("cannot write the answer: {0}")]
    Output(std::io::Error),
    #[error("cannot read standard input: {0}")]
    Input(std::io::Error),
}

impl Error {
    /// 2 for the caller's mistake, 4 for what may pass by itself, 1 for the rest.
    pub fn exit_code(&self) -> ExitCode {
        let number = match self {
            Error::Usage(_) => USAGE,
            Error::Unreachable { .. } | Error::Unhealthy => Grpc::Unavailable.exit_code(),
            Error::TimedOut => Grpc::DeadlineExceeded.exit_code(),
            Error::Refused(status) => {
                Grpc::from_number(status.code() as u8).map_or(1, |code| code.exit_code())
            }
            Error::Output(_) | Error::Input(_) => 1,
        };
        ExitCode::from(number)
    }

    /// A refusal tells more than a connection that failed after it.
    pub(super) fn or_rather(self, later: Error) -> Error {
        match self {
            Error::Refused(_) => self,
            _ => later,
        }
    }
}
