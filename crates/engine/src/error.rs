//! Why a member cannot go on with its disk. None of these is retried in the same process.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Disk(#[from] disk::Error),

    #[error(
        "the store is damaged: {0}. Replace this member: stop it, move its data directory away, and start it \
         empty so that it is rebuilt from its peers"
    )]
    Store(coord::Corrupt),

    #[error(transparent)]
    Backup(#[from] crate::backup::BackupError),

    #[error("the revision {revision} cannot be raised by {by}: give a number above zero that leaves room")]
    Raise { revision: i64, by: i64 },

    #[error(
        "this member's state had become another than that of the majority, and it stopped. Replace it: `althing \
         member replace`, or remove it, move its data directory away, and let an empty one join"
    )]
    Astray,

    #[error(
        "the write-ahead log holds a record that this release cannot read: start the newer release that wrote it"
    )]
    UnknownRecord,

    #[error(
        "the store of the mesh is missing although its other files are there: move the directory `mesh` away; the node is then filled from its replicas"
    )]
    MeshStoreMissing,

    #[error(
        "the file `life` of the mesh is damaged: move the directory `mesh` away; the node is then filled from its replicas"
    )]
    LifeIllegible,

    #[error(
        "the mesh holds a row that no node writes: {row:02x?}. Move the directory `mesh` away; the node is then filled from its replicas"
    )]
    MeshRow { row: Vec<u8> },

    #[error(
        "the write-ahead log begins at entry {log_first} but the store ends at entry {store}: entries between \
         them are missing. Replace this member: stop it, move its data directory away, and start it empty so \
         that it is rebuilt from its peers"
    )]
    Gap { store: u64, log_first: u64 },
}

impl From<coord::Corrupt> for Error {
    fn from(corrupt: coord::Corrupt) -> Error {
        Error::Store(corrupt)
    }
}

impl From<raft::Gap> for Error {
    fn from(gap: raft::Gap) -> Error {
        Error::Gap { store: gap.store.0, log_first: gap.log_first.0 }
    }
}
