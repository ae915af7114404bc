//! Why a file is not a complete backup.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("the backup cannot be read: {0}")]
    Read(io::Error),

    #[error("this is not a backup of Althing or of etcd")]
    NotABackup,

    #[error(
        "there is no SHA-256 at its end: the file is cut off, or it was copied from a data directory of etcd and not saved \
         as a snapshot; --skip-hash-check takes it as it is"
    )]
    NoDigest,

    #[error("the database is {0}")]
    Database(String),

    #[error("bucket {bucket} holds {what}")]
    Row { bucket: String, what: &'static str },

    #[error(
        "the backup has format version {found}, and this build knows version {known}: use a newer release"
    )]
    Version { found: u8, known: u8 },

    #[error("the backup is cut off after {at} bytes: save it again")]
    Cut { at: u64 },

    #[error("the backup is damaged at byte {at}: {what}")]
    Damaged { at: u64, what: &'static str },

    #[error("there are bytes after the end of the backup")]
    TooLong,

    #[error("what is older than revision {compacted} was compacted before the backup was taken")]
    Compacted { compacted: i64 },

    #[error("the newest revision of the backup is {newest}: a later backup has later ones")]
    Later { newest: i64 },

    #[error("the backup was taken at {taken}: a later backup has what came then")]
    LaterTime { taken: String },

    #[error("the backup does not have the times of revisions so long ago: give a revision")]
    UnknownTime,

    #[error("a backup of release 0.1.0 is restored as a whole only")]
    FirstFormat,
}
