//! A member's pure machines joined to its disk, without threads.
//! `open` brings a member back from its files; `MemberLog` makes records durable; `MemberStore` keeps the store,
//! flushes to it, and sends and receives snapshots of it. `open_mesh` does the same for the files of the mesh. The server calls these on its threads and the
//! simulator from its events, so both run the same code in the same order.

pub mod backup;
mod changes;
mod error;
mod keep_only;
mod key_hash;
mod log_file;
mod member_log;
mod member_store;
mod mesh;
mod mutant;
mod open;
mod restore;
mod snapshot;
mod store_owner;
mod verify;

pub use crate::mesh::verify::{MeshReport, verify_mesh};
pub use crate::mesh::{
    CatchUp, Incarnation, IncarnationFile, MeshFiles, MeshLog, MeshParams, MeshStore, MeshView, open_mesh,
};
pub use backup::Backup;
pub use error::Error;
pub use keep_only::keep_only;
pub use key_hash::{KeyHash, hash_keys};
pub use log_file::LogFile;
pub use member_log::MemberLog;
pub use member_store::{MemberStore, MemberStoreParams, StagedStore};
pub use mutant::Mutant;
pub use open::{MemberParams, OpenedMember, open};
pub use restore::{RestoreRules, RestoredBackup, restore};
pub use snapshot::SnapshotStream;
pub use store_owner::StoreOwner;
pub use verify::{Faults, MemberReport, verify};
