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
    #[error("the system provides no random numbers for keys")]
    NoRandomness,
    #[error("a generated certificate cannot be used: {reason}")]
    Made { reason: String },
}
