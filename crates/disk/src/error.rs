//! Errors of files, always with the file's name. None of these is retried: the server reports the error and stops the
//! process.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{action} {file}: {source}")]
    Io { action: &'static str, file: String, source: io::Error },

    #[error(
        "{file} is damaged at byte {offset}: {reason}. What was written there had been made durable, so it \
         cannot be skipped without breaking promises"
    )]
    Corrupt { file: String, offset: u64, reason: &'static str },

    #[error("{file} is missing")]
    Missing { file: String },

    #[error(
        "{file} has format version {found}, and this build knows version {known}: start the newer release \
         that wrote it"
    )]
    Version { file: String, found: u64, known: u64 },

    #[error("an earlier write or sync of the log failed, so what it holds is unknown: restart the process")]
    Poisoned,

    #[error("{file} is damaged: pages that it refers to do not match their checksums")]
    Pages { file: String },

    #[error("{file} is damaged: {what}")]
    Unreadable { file: String, what: String },

    #[error("store {file}: {source}")]
    Store { file: String, source: Box<redb::Error> },
}

impl Error {
    /// Durable data cannot be read any more.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Corrupt { .. } | Error::Missing { .. } | Error::Pages { .. } | Error::Unreadable { .. }
        )
    }

    pub fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, file: file.to_string(), source }
    }

    /// An error of the engine while it opens a file is damage, unless it is an I/O error.
    pub(crate) fn or_unreadable(self) -> Error {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        match self {
            Error::Store { file, source } => match &*source {
                redb::Error::Io(error) if ![InvalidData, UnexpectedEof].contains(&error.kind()) => {
                    Error::Store { file, source }
                }
                _ => Error::Unreadable { file, what: source.to_string() },
            },
            Error::Io { file, source, .. } if [InvalidData, UnexpectedEof].contains(&source.kind()) => {
                Error::Unreadable { file, what: source.to_string() }
            }
            other => other,
        }
    }

    pub(crate) fn store<E: Into<redb::Error>>(file: &str) -> impl FnOnce(E) -> Error {
        move |source| Error::Store { file: file.to_string(), source: Box::new(source.into()) }
    }
}
