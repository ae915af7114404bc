//! What is done to the directory of a member that does not run: a backup restored into it, or all of it verified.
//! The directory is locked meanwhile, so a member that runs is never disturbed and none can start in between.

use crate::error::Error;
use crate::identity;
use crate::server::{Directory, Roster, STORE_CACHE_BYTES, UNINDEXED_KEYS_MAX};
use crate::status::Identity;
use base::limits::SNAPSHOT_CHUNK_BYTES;
use engine::VaultParams;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use engine::backup::{Summary, read as read_backup};
pub use engine::{Faults, Report, Restored};

/// The cluster that begins with a backup, as one of its members sees it.
#[derive(Clone, Debug)]
pub struct NewMember {
    pub name: String,
    pub initial_cluster: Vec<crate::config::Member>,
    pub cluster_token: String,
    pub data_dir: PathBuf,
}

/// Makes a directory from a backup; `raise_by` of zero leaves the revision as it was. `progress` hears how many
/// bytes were read.
pub fn restore(
    member: &NewMember,
    source: &mut dyn Read,
    raise_by: i64,
    progress: &mut dyn FnMut(u64),
) -> Result<(Restored, Identity), Error> {
    let roster = Roster::founder(&member.name, &member.initial_cluster, &member.cluster_token)?;
    let Directory { disk, lock } = Directory::open(&member.data_dir)?;
    let found = disk.list().map_err(|source| Error::DataDir {
        action: "list files",
        path: member.data_dir.clone(),
        source,
    })?;
    if !found.is_empty() {
        return Err(Error::NotEmpty { path: member.data_dir.clone() });
    }
    let vault = VaultParams {
        cache_bytes: STORE_CACHE_BYTES,
        chunk_bytes: SNAPSHOT_CHUNK_BYTES,
        unindexed_keys_max: UNINDEXED_KEYS_MAX,
    };
    let restored = engine::restore(disk.clone(), vault, source, raise_by, progress)?;
    // Last: a directory with an identity is a whole one.
    identity::claim(&*disk, &member.data_dir, &roster.identity)?;
    drop(lock);
    Ok((restored, roster.identity))
}

/// Checks every checksum of log and store, and that they fit together; changes nothing.
pub fn verify(data_dir: &Path, step: &mut dyn FnMut(&str)) -> Result<Result<Report, Faults>, Error> {
    if !data_dir.is_dir() {
        return Err(Error::NoDirectory { path: data_dir.to_owned() });
    }
    let Directory { disk, lock } = Directory::open(data_dir)?;
    let outcome = engine::verify(disk, STORE_CACHE_BYTES, step);
    drop(lock);
    Ok(outcome)
}
