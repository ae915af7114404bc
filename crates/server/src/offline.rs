//! What is done to the directory of a member that does not run: restore a backup into it, or verify it.
//! The directory is locked meanwhile, so a running member is never disturbed and none can start in between.

use crate::error::Error;
use crate::identity;
use crate::mesh::start;
use crate::server::{DataDir, STORE_CACHE_BYTES, StartMembers, UNINDEXED_KEYS_MAX};
use crate::status::Identity;
use base::limits::SNAPSHOT_CHUNK_BYTES;
use disk::RealDisk;
use engine::MemberStoreParams;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use coord::RestorePoint;
pub use engine::backup::{DigestRule, SavedKey, SavedKeys, Source, Summary, read as read_backup};
pub use engine::{Faults, MemberReport, MeshReport, RestoreRules, RestoredBackup};

/// The cluster that begins with a backup, as one of its members sees it.
#[derive(Clone, Debug)]
pub struct NewMember {
    pub name: String,
    pub initial_cluster: Vec<crate::config::ClusterMember>,
    pub cluster_token: String,
    pub data_dir: PathBuf,
}

/// Makes a directory from a backup of ours or of etcd. `progress` hears how many bytes were read.
pub fn restore(
    member: &NewMember,
    source: &mut dyn Source,
    rules: RestoreRules,
    progress: &mut dyn FnMut(u64),
) -> Result<(RestoredBackup, Identity), Error> {
    // Only the identity goes into the directory, and not the addresses.
    let roster = StartMembers::founder(&member.name, &member.initial_cluster, &member.cluster_token, false)?;
    let DataDir { disk, lock, .. } = DataDir::open(&member.data_dir)?;
    let found = disk.list().map_err(|source| Error::DataDir {
        action: "list files",
        path: member.data_dir.clone(),
        source,
    })?;
    // What an earlier cluster left of its mesh would be taken for this one's.
    if !found.is_empty() || member.data_dir.join(start::DIR).exists() {
        return Err(Error::NotEmpty { path: member.data_dir.clone() });
    }
    let member_store = MemberStoreParams {
        cache_bytes: STORE_CACHE_BYTES,
        chunk_bytes: SNAPSHOT_CHUNK_BYTES,
        unindexed_keys_max: UNINDEXED_KEYS_MAX,
    };
    let restored = engine::restore(disk.clone(), member_store, source, rules, progress)?;
    // Last: a directory with an identity is a whole one.
    identity::claim(&*disk, &member.data_dir, &roster.identity)?;
    drop(lock);
    Ok((restored, roster.identity))
}

/// What a sound directory holds; the mesh's part is missing where there never was one.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    pub member: MemberReport,
    pub mesh: Option<MeshReport>,
}

/// Checks every checksum of the logs and stores, and that they fit together; changes nothing.
pub fn verify(data_dir: &Path, step: &mut dyn FnMut(&str)) -> Result<Result<VerifyReport, Faults>, Error> {
    if !data_dir.is_dir() {
        return Err(Error::NoDirectory { path: data_dir.to_owned() });
    }
    let DataDir { disk, lock, .. } = DataDir::open(data_dir)?;
    let member = engine::verify(disk, STORE_CACHE_BYTES, step);
    step("the mesh");
    let mesh = verify_mesh(&data_dir.join(start::DIR))?;
    drop(lock);
    Ok(match (member, mesh) {
        (Ok(member), Ok(mesh)) => Ok(VerifyReport { member, mesh }),
        (member, mesh) => Err(member.err().into_iter().flatten().chain(mesh.err()).collect()),
    })
}

fn verify_mesh(path: &Path) -> Result<Result<Option<MeshReport>, engine::Error>, Error> {
    if !path.is_dir() {
        return Ok(Ok(None));
    }
    let trouble = |source| Error::DataDir { action: "open files", path: path.to_owned(), source };
    let disk = RealDisk::open(path.to_owned()).map_err(trouble)?;
    Ok(engine::verify_mesh(Arc::new(disk), start::CACHE_BYTES))
}
