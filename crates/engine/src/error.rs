//! Errors after which a member cannot use its disk. None of these is retried in the same process.

/// Advice for a member whose files are damaged.
const WHAT_TO_DO: &str = "Replace this member, unless files were moved and can be brought back: stop it and move its data \
    directory away; where the cluster has other members, start it empty and they send it everything; restore a single \
    member from a backup (`althing snapshot restore`)";

/// Advice for a node of the mesh.
const WHAT_TO_DO_IN_MESH: &str = "Move the directory `mesh` away, unless files were moved and can be brought back; the \
    node is then filled from its replicas, and a node without others has lost what was in it";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}{}", .0, advice(.0, WHAT_TO_DO))]
    Disk(#[from] disk::Error),

    #[error("the mesh: {}{}", .0, advice(.0, WHAT_TO_DO_IN_MESH))]
    MeshDisk(disk::Error),

    #[error("the store is damaged: {0}. {WHAT_TO_DO}")]
    Store(coord::CorruptRow),

    #[error(transparent)]
    Backup(#[from] crate::backup::BackupError),

    #[error(
        "the revision {revision} cannot be raised by {by}: give a number above zero that does not overflow"
    )]
    Raise { revision: i64, by: i64 },

    #[error(
        "this member's state diverged from that of the majority, and the member stopped. Replace it: `althing \
         member replace`, or remove it, move its data directory away, and let an empty one join"
    )]
    Diverged,

    #[error("there is a store and no write-ahead log: its files `wal-*` are missing. {WHAT_TO_DO}")]
    LogMissing,

    #[error(
        "{file} has {found_bytes} bytes and should have {listed_bytes}: the end of the write-ahead log was cut off. \
         {WHAT_TO_DO}"
    )]
    Shortened { file: String, found_bytes: u64, listed_bytes: u64 },

    #[error(
        "the write-ahead log holds a record that this release cannot read: start the newer release that wrote it"
    )]
    UnknownRecord,

    #[error("the store of the mesh is missing although its other files are there. {WHAT_TO_DO_IN_MESH}")]
    MeshStoreMissing,

    #[error("the file `life` of the mesh is damaged. {WHAT_TO_DO_IN_MESH}")]
    IncarnationIllegible,

    #[error("the mesh holds a row that no node writes: {row:02x?}. {WHAT_TO_DO_IN_MESH}")]
    MeshRow { row: Vec<u8> },

    #[error(
        "the write-ahead log begins at entry {log_first} but the store ends at entry {store}: entries between \
         them are missing. {WHAT_TO_DO}"
    )]
    Gap { store: u64, log_first: u64 },
}

impl Error {
    /// The same error, about the files of the mesh.
    pub(crate) fn of_mesh(self) -> Error {
        match self {
            Error::Disk(error) => Error::MeshDisk(error),
            other => other,
        }
    }
}

fn advice(error: &disk::Error, what_to_do: &str) -> String {
    if error.is_damage() { format!(". {what_to_do}") } else { String::new() }
}

impl From<coord::CorruptRow> for Error {
    fn from(corrupt: coord::CorruptRow) -> Error {
        Error::Store(corrupt)
    }
}

impl From<raft::LogGap> for Error {
    fn from(gap: raft::LogGap) -> Error {
        Error::Gap { store: gap.store.0, log_first: gap.log_first.0 }
    }
}
