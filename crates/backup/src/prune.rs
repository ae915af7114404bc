//! Removes old backups: their manifests first, then the objects that no other manifest names. It is refused while another
//! backup is being written, whose objects no manifest names yet, and a backup is refused while objects are removed.

use crate::error::Error;
use crate::key::BackupKey;
use crate::manifest::BackupId;
use crate::marker::{Marker, Markers, now_ms};
use crate::reader::{Reader, list};
use crate::target::Target;
use crate::writer::{OBJECTS, PRUNING, RUNNING, manifest_path};
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
    if dry_run {
        refuse_while_written(target).await?;
        return Pruning::of(target, key, keep).await.map(|pruning| pruning.pruned);
    }
    let mut marker = Marker::begin(target, PRUNING, &BackupId::at_ms(now_ms())).await?;
    let pruned = match refuse_while_written(target).await {
        Ok(left_behind) => remove(target, key, keep, &mut marker).await.map(|pruned| (pruned, left_behind)),
        Err(error) => Err(error),
    };
    let ended = marker.end().await;
    let (pruned, left_behind) = pruned?;
    for path in left_behind {
        target.delete(&path).await?;
    }
    ended.map(|()| pruned)
}

/// The markers that were left behind.
async fn refuse_while_written(target: &Target) -> Result<Vec<String>, Error> {
    let written = Markers::read(target, RUNNING).await?;
    if let Some(marker) = written.working {
        return Err(Error::UnderWay { target: target.shown().to_owned(), marker });
    }
    let pruned = Markers::read(target, PRUNING).await?;
    Ok([written.left_behind, pruned.left_behind].concat())
}

/// What is to be removed.
struct Pruning {
    pruned: Pruned,
    /// Paths of objects that no backup needs which stays.
    objects: Vec<String>,
}

impl Pruning {
    async fn of(target: &Target, key: Option<&BackupKey>, keep: usize) -> Result<Pruning, Error> {
        let mut old = list(target).await?;
        let kept = old.split_off(old.len().saturating_sub(keep));
        // All manifests that stay are read before anything is removed.
        let mut needed = BTreeSet::new();
        for id in &kept {
            let reader = Reader::open(target, key, Some(id.as_str())).await?;
            needed.extend(reader.manifest().objects().map(|object| object.name.clone()));
        }
        let mut pruned = Pruned { backups: old, kept: kept.len(), objects: 0, bytes: 0 };
        let mut objects = Vec::new();
        for object in target.list(OBJECTS).await? {
            let name = object.path.rsplit_once('/').map_or(object.path.as_str(), |(_, name)| name);
            if !needed.contains(name) {
                pruned.objects += 1;
                pruned.bytes += object.bytes;
                objects.push(object.path);
            }
        }
        Ok(Pruning { pruned, objects })
    }
}

async fn remove(
    target: &Target,
    key: Option<&BackupKey>,
    keep: usize,
    marker: &mut Marker<'_>,
) -> Result<Pruned, Error> {
    let Pruning { pruned, objects } = Pruning::of(target, key, keep).await?;
    let manifests = pruned.backups.iter().map(manifest_path);
    for path in manifests.chain(objects) {
        marker.renew().await?;
        target.delete(&path).await?;
    }
    Ok(pruned)
}
