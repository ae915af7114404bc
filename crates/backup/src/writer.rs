//! Writes a backup: contents go in and become objects, which are not sent if they are there already; the manifest comes last.
//! While it runs, a marker lies in the target, so that objects which no manifest names yet are not pruned.

use crate::error::Error;
use crate::key::BackupKey;
use crate::manifest::{BackupId, Manifest, ObjectRef};
use crate::object;
use crate::pace::Pace;
use crate::target::Target;
use std::collections::BTreeSet;

pub(crate) const OBJECTS: &str = "objects";
pub(crate) const BACKUPS: &str = "backups";
pub(crate) const RUNNING: &str = "running";

pub struct Writer<'a> {
    target: &'a Target,
    key: Option<&'a BackupKey>,
    pace: Pace,
    id: BackupId,
    /// Names of the objects that are there.
    known: BTreeSet<String>,
    sent_bytes: u64,
}

pub(crate) fn object_path(name: &str) -> String {
    format!("{OBJECTS}/{}/{name}", name.get(..2).unwrap_or("00"))
}

pub(crate) fn manifest_path(id: &BackupId) -> String {
    format!("{BACKUPS}/{id}")
}

impl<'a> Writer<'a> {
    pub async fn begin(
        target: &'a Target,
        key: Option<&'a BackupKey>,
        pace: Pace,
        id: BackupId,
    ) -> Result<Writer<'a>, Error> {
        target.put(&format!("{RUNNING}/{id}"), Vec::new()).await?;
        let kept = target.list(OBJECTS).await?;
        let known = kept.into_iter().filter(|kept| kept.bytes > 0);
        let known = known.filter_map(|kept| Some(kept.path.rsplit_once('/')?.1.to_owned())).collect();
        Ok(Writer { target, key, pace, id, known, sent_bytes: 0 })
    }

    pub async fn put(&mut self, content: &[u8]) -> Result<ObjectRef, Error> {
        let name = object::name_of(content, self.key);
        if !self.known.contains(&name) {
            self.send(&object_path(&name), object::encode(content, self.key)?).await?;
            self.known.insert(name.clone());
        }
        Ok(ObjectRef { name, bytes: content.len() as u64 })
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Only now is there a backup.
    pub async fn finish(mut self, mut manifest: Manifest) -> Result<Manifest, Error> {
        manifest.sent_bytes = self.sent_bytes;
        let text = serde_json::to_vec(&manifest).expect("a manifest can be written as JSON");
        let stored = object::encode(&text, self.key)?;
        let path = manifest_path(&self.id);
        self.send(&path, stored).await?;
        self.target.delete(&format!("{RUNNING}/{}", self.id)).await?;
        Ok(manifest)
    }

    /// What was sent stays, and the next backup finds it.
    pub async fn give_up(self) -> Result<(), Error> {
        self.target.delete(&format!("{RUNNING}/{}", self.id)).await
    }

    async fn send(&mut self, path: &str, stored: Vec<u8>) -> Result<(), Error> {
        let bytes = stored.len() as u64;
        self.target.put(path, stored).await?;
        self.sent_bytes += bytes;
        self.pace.spend(bytes).await;
        Ok(())
    }
}
