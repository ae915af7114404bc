//! Trouble with files, always with the file's name, and with what the operator can do about it.
//! None of these is retried: the server reports the error and stops the process.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{action} {file}: {source}")]
    Io { action: &'static str, file: String, source: io::Error },

    #[error(
        "{file} is damaged at byte {offset}: {reason}. What was written there had been made durable, so it \
         cannot be skipped without breaking promises. Replace this member: stop it, move its data directory \
         away, and start it empty so that it is rebuilt from its peers"
    )]
    Corrupt { file: String, offset: u64, reason: &'static str },

    #[error(
        "{file} has format version {found}, and this build knows version {known}: start the newer release \
         that wrote it"
    )]
    Version { file: String, found: u64, known: u64 },

    #[error("an earlier write or sync of the log failed, so what it holds is unknown: restart the process")]
    Poisoned,

    #[error("{file} is damaged: pages that it refers to do not match their checksums")]
    Pages { file: String },

    #[error("store {file}: {source}")]
    Store { file: String, source: Box<redb::Error> },
}

impl Error {
    pub fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, file: file.to_string(), source }
    }

    pub(crate) fn store<E: Into<redb::Error>>(file: &str) -> impl FnOnce(E) -> Error {
        move |source| Error::Store { file: file.to_string(), source: Box::new(source.into()) }
    }
}
