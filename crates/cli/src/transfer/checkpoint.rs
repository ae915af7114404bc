//! How far a transfer is, in a file: where the source goes on, and what was counted. It is replaced in one step, after what it vouches for.

use super::row::{Row, RowChecksum};
use super::source::Position;
use crate::client::Error;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;

const VERSION: u32 = 1;
/// Keys that are named of each kind of trouble.
const NAMED_MAX: usize = 10;

/// Keys about which there is something to say, the first ones by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedKeys {
    pub n: u64,
    named: Vec<String>,
}

impl NamedKeys {
    pub fn add(&mut self, name: String) {
        self.n += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(name);
        }
    }

    /// None if there are none.
    pub fn summary(&self, what: &str) -> Option<String> {
        let more = if self.n > self.named.len() as u64 { ", …" } else { "" };
        (self.n > 0).then(|| format!("{} keys {what}: {}{more}", self.n, self.named.join(", ")))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferCounts {
    /// Rows that are where they should be: read back, or read from the finished file.
    pub rows: u64,
    /// The checksum of these rows, as `RowChecksum` prints it.
    checksum: String,
    pub written: u64,
    /// Keys that ended with their leases or times while they were read.
    pub ended: u64,
    /// Keys that hold something else, and stay.
    pub kept: NamedKeys,
    pub refused: NamedKeys,
    pub left_out: NamedKeys,
    /// Keys that held something else when they were read back.
    pub changed: NamedKeys,
    /// The length of the file of an export.
    pub file_bytes: u64,
}

impl TransferCounts {
    pub fn checksum(&self) -> RowChecksum {
        RowChecksum::parse(&self.checksum).unwrap_or_default()
    }

    pub fn add(&mut self, row: &Row) {
        let mut checksum = self.checksum();
        checksum.add(row);
        self.rows += 1;
        self.checksum = checksum.to_string();
    }
}

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    job: String,
    position: Position,
    counts: TransferCounts,
}

pub struct Checkpoint {
    path: Option<PathBuf>,
    /// What is transferred where: another job must not go on from here.
    job: String,
}

impl Checkpoint {
    /// Without a path nothing is kept.
    pub fn new(path: Option<PathBuf>, job: String) -> Checkpoint {
        Checkpoint { path, job }
    }

    /// What the run before has left.
    pub fn read(&self) -> Result<Option<(Position, TransferCounts)>, Error> {
        let Some(path) = self.path.as_ref().filter(|path| path.exists()) else { return Ok(None) };
        let file = path.display().to_string();
        let text = std::fs::read(path).map_err(|reason| Error::File { file: file.clone(), reason })?;
        let saved: Saved = serde_json::from_slice(&text)
            .map_err(|error| Error::Usage(format!("{file} is no checkpoint of a transfer: {error}")))?;
        if saved.version != VERSION || saved.job != self.job {
            let problem = format!("{file} is the checkpoint of another transfer: {}", saved.job);
            return Err(Error::Usage(problem));
        }
        Ok(Some((saved.position, saved.counts)))
    }

    pub fn save(&self, position: Position, counts: &TransferCounts) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |reason| Error::File { file: path.display().to_string(), reason };
        let saved = Saved { version: VERSION, job: self.job.clone(), position, counts: counts.clone() };
        let text = serde_json::to_vec(&saved).unwrap_or_default();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut file = match dir {
            Some(dir) => tempfile::NamedTempFile::new_in(dir),
            None => tempfile::NamedTempFile::new_in("."),
        }
        .map_err(failed)?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(path).map(drop).map_err(|error| failed(error.error))
    }

    /// When all is done.
    pub fn remove(&self) -> Result<(), Error> {
        match self.path.as_ref().filter(|path| path.exists()) {
            None => Ok(()),
            Some(path) => std::fs::remove_file(path)
                .map_err(|reason| Error::File { file: path.display().to_string(), reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_for_its_own_transfer_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint");
        let checkpoint = |job: &str| Checkpoint::new(Some(path.clone()), job.to_owned());
        let mut counts = TransferCounts::default();
        counts.add(&Row::of_bytes(b"a".to_vec(), b"1".to_vec()));
        (0..12).for_each(|n| counts.kept.add(format!("k{n}")));
        assert_eq!(checkpoint("a").read().unwrap(), None);
        checkpoint("a").save(Position::List { nth: 7 }, &counts).unwrap();
        assert_eq!(checkpoint("a").read().unwrap(), Some((Position::List { nth: 7 }, counts.clone())));
        assert!(checkpoint("b").read().is_err());
        let told = counts.kept.summary("stay").unwrap();
        assert!(told.starts_with("12 keys stay: k0, ") && told.ends_with("k9, …"), "{told}");
        checkpoint("a").remove().unwrap();
        assert_eq!(checkpoint("a").read().unwrap(), None);
        std::fs::write(&path, "{}").unwrap();
        assert!(checkpoint("a").read().is_err());
    }
}
