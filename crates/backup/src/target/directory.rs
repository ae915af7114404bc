//! A directory that keeps backups. A file is written under another name, synced and renamed, so that none is half there.

use super::StoredObject;
use crate::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The end of the name of a file that is being written.
const PART: &str = ".part";

pub(super) struct Directory {
    root: PathBuf,
}

impl Directory {
    pub fn new(root: PathBuf) -> Directory {
        Directory { root }
    }

    pub fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let to = self.root.join(path);
        let parent = to.parent().unwrap_or(&self.root);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(Error::file(parent))?;
        let part = PathBuf::from(format!("{}{PART}", to.display()));
        let written = write(&part, bytes).and_then(|()| fs::rename(&part, &to)).map_err(Error::file(&to));
        if written.is_err() {
            // The first error matters more than the file left behind.
            let _ = fs::remove_file(&part);
        }
        written?;
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(Error::file(parent))
    }

    pub fn get(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let from = self.root.join(path);
        match fs::read(&from) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file(&from)(error)),
        }
    }

    pub fn delete(&self, path: &str) -> Result<(), Error> {
        let at = self.root.join(path);
        match fs::remove_file(&at) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(&at)(error)),
            _ => Ok(()),
        }
    }

    pub fn list(&self, folder: &str) -> Result<Vec<StoredObject>, Error> {
        let mut kept = Vec::new();
        self.walk(&self.root.join(folder), &mut kept)?;
        Ok(kept)
    }

    fn walk(&self, folder: &Path, kept: &mut Vec<StoredObject>) -> Result<(), Error> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::file(folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::file(folder))?;
            let path = entry.path();
            let about = entry.metadata().map_err(Error::file(&path))?;
            if about.is_dir() {
                self.walk(&path, kept)?;
            } else if let Some(path) = path.strip_prefix(&self.root).ok().and_then(Path::to_str)
                && !path.ends_with(PART)
            {
                kept.push(StoredObject { path: path.to_owned(), bytes: about.len() });
            }
        }
        Ok(())
    }
}

fn write(part: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_listed_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::new(dir.path().join("new"));
        assert_eq!(directory.list("objects").unwrap(), [], "nothing is there yet");
        directory.put("objects/ab/one", b"1").unwrap();
        directory.put("objects/cd/two", b"22").unwrap();
        directory.put("backups/x", b"").unwrap();
        fs::write(dir.path().join("new/objects/ab/three.part"), b"half").unwrap();
        let mut listed = directory.list("objects").unwrap();
        listed.sort_by(|left, right| left.path.cmp(&right.path));
        let kept = |path: &str, bytes| StoredObject { path: path.to_owned(), bytes };
        assert_eq!(listed, [kept("objects/ab/one", 1), kept("objects/cd/two", 2)]);
        assert_eq!(directory.get("objects/cd/two").unwrap().unwrap(), b"22");
        directory.delete("objects/cd/two").unwrap();
        directory.delete("objects/cd/two").unwrap();
        assert_eq!(directory.get("objects/cd/two").unwrap(), None);
    }

    #[test]
    fn a_place_that_is_a_file_is_named_in_the_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Directory::new(file.path().to_owned()).put("a/b", b"").unwrap_err().to_string();
        assert!(error.contains(file.path().to_str().unwrap()), "{error}");
    }
}
