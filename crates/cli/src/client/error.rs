//! Why a verb failed, with the exit code that tells a script what to do about it.

use crate::args::USAGE;
use base::code::GrpcCode;
use std::process::ExitCode;
use tonic::Code;

/// As a shell reports a process that ended by SIGINT.
const INTERRUPTED: u8 = 130;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Call(#[from] client::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error("unhealthy cluster")]
    Unhealthy,
    #[error("watch is canceled by the server: {0}")]
    WatchEnded(client::Error),
    #[error("command {command:?} error ({reason})")]
    Command { command: String, reason: String },
    /// A lock was not to be had, or was lost.
    #[error("{reason}")]
    Lock { reason: client::Error, code: u8 },
    #[error("cannot write the answer: {0}")]
    Output(std::io::Error),
    #[error("{file}: {reason}")]
    File { file: String, reason: std::io::Error },
    #[error("the backup came without its SHA-256, or with another: save it again")]
    Digest,
    #[error(transparent)]
    Offline(#[from] server::Error),
    #[error(transparent)]
    Backup(#[from] backup::Error),
    /// The reason why a backup or a restore cannot be whole.
    #[error("{0}")]
    Incomplete(String),
    /// The data API has refused.
    #[error("{message} ({status})")]
    Rest { status: u16, message: String },
    #[error("no node of the data API has answered: {0}")]
    RestUnavailable(String),
    #[error("cannot read standard input: {0}")]
    Input(std::io::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    #[error("interrupted while waiting")]
    Interrupted,
}

impl Error {
    /// 2 for the caller's mistake, 4 for what may pass by itself, 1 for the rest.
    pub fn exit_code(&self) -> ExitCode {
        let number = match self {
            Error::Usage(_) | Error::Tls(_) => USAGE,
            Error::Lock { code, .. } => *code,
            Error::Unhealthy => GrpcCode::Unavailable.exit_code(),
            Error::Call(error) | Error::WatchEnded(error) => exit_code_of(error),
            Error::File { .. } | Error::Digest | Error::Offline(_) => 1,
            Error::Backup(_) | Error::Incomplete(_) => 1,
            Error::Command { .. } | Error::Output(_) | Error::Input(_) | Error::Signals(_) => 1,
            Error::Rest { status: 400..=428, .. } => USAGE,
            Error::Rest { status: 429 | 503 | 504, .. } | Error::RestUnavailable(_) => {
                GrpcCode::Unavailable.exit_code()
            }
            Error::Rest { .. } => 1,
            Error::Interrupted => INTERRUPTED,
        };
        ExitCode::from(number)
    }

    /// The server answered with this code.
    pub fn is_refusal(&self, code: Code) -> bool {
        matches!(self, Error::Call(client::Error::Refused(status)) if status.code() == code)
    }
}

fn exit_code_of(error: &client::Error) -> u8 {
    match error {
        client::Error::BadEndpoint { .. } | client::Error::WrongEndpoint { .. } => USAGE,
        client::Error::Unreachable { .. } => GrpcCode::Unavailable.exit_code(),
        client::Error::TimedOut | client::Error::ReadTimedOut => GrpcCode::DeadlineExceeded.exit_code(),
        client::Error::Refused(status) => {
            GrpcCode::from_number(status.code() as u8).map_or(1, |code| code.exit_code())
        }
        client::Error::Compacted { .. } => GrpcCode::OutOfRange.exit_code(),
        client::Error::LeaseGone { .. } => GrpcCode::NotFound.exit_code(),
        client::Error::LockHeld { .. } => GrpcCode::DeadlineExceeded.exit_code(),
        client::Error::LockLost { .. } => GrpcCode::Unavailable.exit_code(),
        client::Error::Canceled { .. } => 1,
    }
}
