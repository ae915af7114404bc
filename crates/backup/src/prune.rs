//! Removes old backups: their manifests first, then the objects that no other manifest names. It is refused while another
//! backup is being written, whose objects no manifest names yet.

use crate::error::Error;
use crate::key::BackupKey;
use crate::manifest::BackupId;
use crate::reader::{Reader, list};
use crate::target::Target;
use crate::writer::{OBJECTS, RUNNING, manifest_path};
use std::collections::BTreeSet;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub backups: Vec<BackupId>,
    pub kept: usize,
    pub objects: u64,
    pub bytes: u64,
}

/// Keeps the newest so many. With `dry_run` nothing is removed.
pub async fn prune(
    target: &Target,
    key: Option<&BackupKey>,
    keep: usize,
    dry_run: bool,
) -> Result<Pruned, Error> {
    if let Some(marker) = target.list(RUNNING).await?.into_iter().next() {
        return Err(Error::UnderWay { target: target.shown().to_owned(), marker: marker.path });
    }
    let mut old = list(target).await?;
    let kept = old.split_off(old.len().saturating_sub(keep));
    // All manifests that stay are read before anything is removed.
    let mut needed = BTreeSet::new();
    for id in &kept {
        let reader = Reader::open(target, key, Some(id.as_str())).await?;
        needed.extend(reader.manifest().objects().map(|object| object.name.clone()));
    }
    if !dry_run {
        for id in &old {
            target.delete(&manifest_path(id)).await?;
        }
    }
    let mut pruned = Pruned { backups: old, kept: kept.len(), objects: 0, bytes: 0 };
    for object in target.list(OBJECTS).await? {
        let name = object.path.rsplit_once('/').map_or(object.path.as_str(), |(_, name)| name);
        if needed.contains(name) {
            continue;
        }
        if !dry_run {
            target.delete(&object.path).await?;
        }
        pruned.objects += 1;
        pruned.bytes += object.bytes;
    }
    Ok(pruned)
}
