//! Why a backup could not be written, read or restored. Every error names the object, file or bucket that it is about.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{0}")]
    Target(String),
    /// The bucket could not be reached, or not in time.
    #[error("{address}: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("{request}: the bucket answers {status} {code}: {message}")]
    Bucket { request: String, status: u16, code: String, message: String },
    #[error("there is no backup in {0}")]
    NoBackups(String),
    #[error("there is no backup {0}: `althing backup ls` lists them")]
    NoBackup(String),
    #[error("object {0} is missing")]
    Missing(String),
    #[error("object {name} is damaged: {what}")]
    Damaged { name: String, what: &'static str },
    #[error("object {0} is encrypted: give its --key-file")]
    KeyNeeded(String),
    #[error("object {0} was encrypted with another key")]
    WrongKey(String),
    #[error("{path}: a key is 64 hexadecimal digits, or 32 bytes")]
    BadKey { path: String },
    #[error("backup {id} has format {version}, which this release does not read")]
    Version { id: String, version: u32 },
    #[error(
        "another backup into {target} has not ended ({marker}): if no process writes there, remove that file, or wait an hour"
    )]
    UnderWay { target: String, marker: String },
    #[error("{target} is being pruned ({marker}): if no process does so, remove that file, or wait an hour")]
    BeingPruned { target: String, marker: String },
    #[error(
        "this process stood still for an hour ({marker}), and others may have removed what it relies on: start it again"
    )]
    StoodStill { marker: String },
}

impl Error {
    pub(crate) fn file(path: &std::path::Path) -> impl Fn(std::io::Error) -> Error + '_ {
        move |source| Error::File { path: path.display().to_string(), source }
    }
}
