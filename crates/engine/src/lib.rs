//! A member's pure machines joined to its disk, without threads.
//! `open` brings a member back from its files; `Journal` makes records durable; `Vault` keeps the store,
//! flushes to it, and sends and receives snapshots of it. `open_mesh` does the same for the files of the mesh. The server calls these on its threads and the
//! simulator from its events, so both run the same code in the same order.

pub mod backup;
mod changes;
mod error;
mod journal;
mod key_hash;
mod mesh;
mod open;
mod restore;
mod snapshot;
mod vault;
mod verify;

pub use crate::mesh::verify::{MeshReport, verify_mesh};
pub use crate::mesh::{
    Life, LifeFile, MeshFiles, MeshLog, MeshParams, MeshStore, MeshView, Standing, open_mesh,
};
pub use backup::Backup;
pub use error::Error;
pub use journal::Journal;
pub use key_hash::{KeyHash, hash_keys};
pub use open::{Member, Params, open};
pub use restore::{Restored, restore};
pub use snapshot::SnapshotStream;
pub use vault::{Staged, Vault, VaultParams};
pub use verify::{Faults, Report, verify};
