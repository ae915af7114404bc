//! Writes a backup: contents go in and become objects, which are not sent if they are there already and whole; the manifest comes last.
//! While it runs, a marker lies in the target, so that objects which no manifest names yet are not pruned.

use crate::error::Error;
use crate::key::BackupKey;
use crate::manifest::{BackupId, Manifest, ObjectRef};
use crate::marker::{Marker, Markers};
use crate::object;
use crate::reader::Reader;
use crate::target::Target;
use std::collections::BTreeMap;

pub(crate) const OBJECTS: &str = "objects";
pub(crate) const BACKUPS: &str = "backups";
pub(crate) const RUNNING: &str = "running";
pub(crate) const PRUNING: &str = "pruning";

/// An object that lies in the target before it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoundObject {
    /// It has the length that was sent.
    Whole { stored_bytes: u64 },
    /// No manifest tells its length: an interrupted backup has sent it, or an earlier release.
    Unproven,
}

pub struct Writer<'a> {
    target: &'a Target,
    key: Option<&'a BackupKey>,
    marker: Marker<'a>,
    id: BackupId,
    found: BTreeMap<String, FoundObject>,
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
        id: BackupId,
    ) -> Result<Writer<'a>, Error> {
        let marker = Marker::begin(target, RUNNING, &id).await?;
        if let Some(pruning) = Markers::read(target, PRUNING).await?.working {
            marker.end().await?;
            return Err(Error::BeingPruned { target: target.shown().to_owned(), marker: pruning });
        }
        let found = found_objects(target, key).await?;
        Ok(Writer { target, key, marker, id, found, sent_bytes: 0 })
    }

    pub async fn put(&mut self, content: &[u8]) -> Result<ObjectRef, Error> {
        self.marker.renew().await?;
        let name = object::name_of(content, self.key);
        let stored_bytes = match self.stored_bytes(&name).await? {
            Some(stored_bytes) => stored_bytes,
            None => self.send(&object_path(&name), object::encode(content, self.key)?).await?,
        };
        self.found.insert(name.clone(), FoundObject::Whole { stored_bytes });
        Ok(ObjectRef { name, bytes: content.len() as u64, stored_bytes })
    }

    /// The length of an object that need not be sent.
    async fn stored_bytes(&self, name: &str) -> Result<Option<u64>, Error> {
        match self.found.get(name) {
            None => Ok(None),
            Some(FoundObject::Whole { stored_bytes }) => Ok(Some(*stored_bytes)),
            Some(FoundObject::Unproven) => {
                let stored = self.target.get(&object_path(name)).await?;
                let whole = stored.filter(|stored| object::decode_named(name, stored, self.key).is_ok());
                Ok(whole.map(|stored| stored.len() as u64))
            }
        }
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Only now is there a backup.
    pub async fn finish(mut self, mut manifest: Manifest) -> Result<Manifest, Error> {
        self.marker.renew().await?;
        manifest.sent_bytes = self.sent_bytes;
        let text = serde_json::to_vec(&manifest).expect("a manifest can be written as JSON");
        let stored = object::encode(&text, self.key)?;
        let path = manifest_path(&self.id);
        self.send(&path, stored).await?;
        self.marker.end().await?;
        Ok(manifest)
    }

    /// What was sent stays, and the next backup finds it.
    pub async fn give_up(self) -> Result<(), Error> {
        self.marker.end().await
    }

    async fn send(&mut self, path: &str, stored: Vec<u8>) -> Result<u64, Error> {
        let bytes = stored.len() as u64;
        self.target.put(path, stored).await?;
        self.sent_bytes += bytes;
        Ok(bytes)
    }
}

/// An object of another length than the newest manifest tells is damaged and sent again: it is none of these.
async fn found_objects(
    target: &Target,
    key: Option<&BackupKey>,
) -> Result<BTreeMap<String, FoundObject>, Error> {
    let told = newest_lengths(target, key).await?;
    let found = |name: &str, bytes: u64| match told.get(name) {
        Some(stored_bytes) if *stored_bytes == bytes => Some(FoundObject::Whole { stored_bytes: bytes }),
        Some(0) | None => Some(FoundObject::Unproven),
        Some(_) => None,
    };
    let kept = target.list(OBJECTS).await?.into_iter().filter(|kept| kept.bytes > 0);
    let named = kept.filter_map(|kept| {
        let (_, name) = kept.path.rsplit_once('/')?;
        Some((name.to_owned(), found(name, kept.bytes)?))
    });
    Ok(named.collect())
}

/// The lengths with which the newest backup left its objects.
async fn newest_lengths(target: &Target, key: Option<&BackupKey>) -> Result<BTreeMap<String, u64>, Error> {
    let lengths = |reader: Reader<'_>| {
        let objects = reader.manifest().objects();
        objects.map(|object| (object.name.clone(), object.stored_bytes)).collect()
    };
    match Reader::open(target, key, None).await {
        Ok(reader) => Ok(lengths(reader)),
        // Then it vouches for nothing, and every object is read before it is relied on.
        Err(
            Error::NoBackups(_)
            | Error::NoBackup(_)
            | Error::Damaged { .. }
            | Error::KeyNeeded(_)
            | Error::WrongKey(_)
            | Error::Version { .. },
        ) => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
