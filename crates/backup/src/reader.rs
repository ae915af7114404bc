//! Reads backups: which there are, what one holds, and the contents of its objects, each verified before it is handed on.

use crate::error::Error;
use crate::key::BackupKey;
use crate::manifest::{BackupId, Manifest, ObjectRef};
use crate::object;
use crate::target::Target;
use crate::verify::Verified;
use crate::writer::{BACKUPS, manifest_path, object_path};
use bytes::Bytes;

/// The backups that were finished, the oldest first.
pub async fn list(target: &Target) -> Result<Vec<BackupId>, Error> {
    let kept = target.list(BACKUPS).await?;
    Ok(kept.iter().filter_map(|kept| BackupId::parse(kept.path.rsplit_once('/')?.1)).collect())
}

pub struct Reader<'a> {
    target: &'a Target,
    key: Option<&'a BackupKey>,
    manifest: Manifest,
}

impl<'a> Reader<'a> {
    /// The backup of this id, or the newest.
    pub async fn open(
        target: &'a Target,
        key: Option<&'a BackupKey>,
        id: Option<&str>,
    ) -> Result<Reader<'a>, Error> {
        let id = match id {
            Some(text) => BackupId::parse(text).ok_or_else(|| Error::NoBackup(text.to_owned()))?,
            None => list(target).await?.pop().ok_or_else(|| Error::NoBackups(target.shown().to_owned()))?,
        };
        let path = manifest_path(&id);
        let stored = target.get(&path).await?.ok_or_else(|| Error::NoBackup(id.to_string()))?;
        let text = object::decode(&path, &stored, key)?;
        let malformed = |_| Error::Damaged { name: path.clone(), what: "it is no manifest" };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(malformed)?;
        let version = value["version"].as_u64().and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
        if !Manifest::is_readable(version) {
            return Err(Error::Version { id: id.to_string(), version });
        }
        let manifest: Manifest = serde_json::from_value(value).map_err(malformed)?;
        if manifest.id != id {
            return Err(Error::Damaged { name: path, what: "it is the manifest of another backup" });
        }
        Ok(Reader { target, key, manifest })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Removes the objects that were found damaged, and names them: the next backup that needs them sends them again.
    pub async fn drop_damaged(&self, found: &Verified) -> Result<Vec<String>, Error> {
        let damaged = found.flaws.iter().filter_map(|flaw| match &flaw.error {
            Error::Damaged { name, .. } => Some(name.clone()),
            _ => None,
        });
        let mut dropped: Vec<String> = damaged.collect();
        dropped.sort_unstable();
        dropped.dedup();
        for name in &dropped {
            self.target.delete(&object_path(name)).await?;
        }
        Ok(dropped)
    }

    pub async fn content(&self, object: &ObjectRef) -> Result<Bytes, Error> {
        let stored = self.target.get(&object_path(&object.name)).await?;
        let stored = stored.ok_or_else(|| Error::Missing(object.name.clone()))?;
        let content = object::decode_named(&object.name, &stored, self.key)?;
        if content.len() as u64 != object.bytes {
            return Err(Error::Damaged { name: object.name.clone(), what: "it has another length" });
        }
        Ok(content.into())
    }
}
