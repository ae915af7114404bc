//! Backups of both planes. What is saved goes in as rows and bytes, and comes out again as they were: in between lie objects,
//! which are named by their content, and manifests, which say which objects a backup is made of. A manifest is written last, so
//! a backup that was interrupted is none; what it had sent is found by the next one and not sent again. An object that is
//! missing or damaged is an error that names it. The bytes are described in docs/formats/backup-objects.md.

mod copies;
mod error;
mod key;
mod manifest;
mod marker;
mod object;
mod pace;
mod prune;
mod reader;
mod row_pass;
mod rows;
mod target;
mod verify;
mod writer;

pub use copies::{Copies, MergedRow};
pub use error::Error;
pub use key::BackupKey;
pub use manifest::{
    BackupId, CoordPart, Manifest, MeshPart, NamespaceEntry, NodeEntry, ObjectRef, PartitionPart,
    VERSION as MANIFEST_VERSION,
};
pub use pace::Pace;
pub use prune::{Pruned, prune};
pub use reader::{Reader, list};
pub use row_pass::RowPass;
pub use rows::{BELOW_COLLECTION, DataRow, RowChunks, decode_rows};
pub use target::Target;
pub use verify::{Flaw, Verified, verify};
pub use writer::Writer;
