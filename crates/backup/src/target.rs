//! Where backups are kept: a directory, or a bucket that speaks S3. Both keep files by path, and a file is there whole or not
//! at all.

mod bucket;
mod directory;

use crate::error::Error;
use bucket::Bucket;
use directory::Directory;
use std::path::PathBuf;

/// A file that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub path: String,
    pub bytes: u64,
}

pub struct Target {
    shown: String,
    place: TargetKind,
}

enum TargetKind {
    Directory(Directory),
    Bucket(Box<Bucket>),
}

impl Target {
    /// `s3://BUCKET/PREFIX`, or the path of a directory. Credentials and endpoint of a bucket come from the variables and files
    /// that other tools use.
    pub fn parse(text: &str) -> Result<Target, Error> {
        let place = match text.split_once("://") {
            Some(("s3", rest)) => TargetKind::Bucket(Box::new(Bucket::parse(rest)?)),
            Some(("file", path)) => TargetKind::Directory(Directory::new(PathBuf::from(path))),
            Some((scheme, _)) => {
                return Err(Error::Target(format!(
                    "{scheme}:// is no place for backups: give a directory or s3://"
                )));
            }
            None => TargetKind::Directory(Directory::new(PathBuf::from(text))),
        };
        Ok(Target { shown: text.to_owned(), place })
    }

    /// As it was given.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) async fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), Error> {
        match &self.place {
            TargetKind::Directory(directory) => directory.put(path, &bytes),
            TargetKind::Bucket(bucket) => bucket.put(path, bytes.into()).await,
        }
    }

    /// None if there is no such file.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        match &self.place {
            TargetKind::Directory(directory) => directory.get(path),
            TargetKind::Bucket(bucket) => bucket.get(path).await,
        }
    }

    /// It is no error if there is no such file.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), Error> {
        match &self.place {
            TargetKind::Directory(directory) => directory.delete(path),
            TargetKind::Bucket(bucket) => bucket.delete(path).await,
        }
    }

    /// Every file below a folder, in order.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<StoredObject>, Error> {
        let mut kept = match &self.place {
            TargetKind::Directory(directory) => directory.list(folder)?,
            TargetKind::Bucket(bucket) => bucket.list(folder).await?,
        };
        kept.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        Ok(kept)
    }
}
