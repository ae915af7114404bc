//! Errors of certificates, with the file that is at fault.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {reason}", file.display())]
    Read { file: PathBuf, reason: std::io::Error },
    #[error("cannot write {}: {reason}", file.display())]
    Write { file: PathBuf, reason: std::io::Error },
    #[error("{} holds no {what} in the PEM format", file.display())]
    Nothing { file: PathBuf, what: &'static str },
    #[error("{}: {reason}", file.display())]
    Unusable { file: PathBuf, reason: String },
    #[error("no file of this system's certificate authorities was found; name one with --cacert")]
    NoSystemRoots,
    #[error("the system gives no random numbers to make keys of")]
    NoRandomness,
    #[error("a certificate that was made here cannot be used: {reason}")]
    Made { reason: String },
}
