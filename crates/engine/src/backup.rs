//! Writes a backup: a bbolt database with etcd's buckets and one of our own, and a SHA-256 over all of it, as etcd's
//! tools expect. A view goes in; pieces of known total length come out as they are asked for, so a slow receiver
//! costs nothing but the pinned view. Laid out in docs/formats/backup.md.

mod error;
mod export;
mod first_format;
mod head;
mod keys;
mod read;

pub use error::BackupError;
pub use keys::{SavedKey, SavedKeys};
pub use read::{DigestRule, Source, Summary, Take, read};

use crate::error::Error;
use base::{ClusterId, NodeId};
use bbolt::Writer;
use bytes::Bytes;
use coord::{PointError, RestorePoint};
use disk::StoreView;
use export::Export;
use ring::digest::{self, SHA256, SHA256_OUTPUT_LEN as DIGEST_BYTES};
use std::sync::Arc;

/// etcd's tools expect a digest if the length of the file modulo this is the length of a digest.
const PAGE_BYTES: u64 = 512;

/// The bucket for rows that etcd has no bucket for.
const OWN_BUCKET: &str = "althing";
/// The first byte of its rows is that of a table, or this for the one about the backup itself.
const ORIGIN_ROW: u8 = 0xff;

/// The cluster and member that took a backup, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupOrigin {
    pub cluster: ClusterId,
    pub member: NodeId,
    /// Milliseconds since 1970.
    pub at_millis: u64,
}

impl BackupOrigin {
    fn encode(&self) -> Vec<u8> {
        [self.cluster.0, self.member.0, self.at_millis]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    }

    fn decode(bytes: &[u8]) -> Option<BackupOrigin> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(BackupOrigin {
            cluster: ClusterId(number(0)?),
            member: NodeId(number(8)?),
            at_millis: number(16)?,
        })
    }
}

pub struct Backup {
    export: Export,
    writer: Writer,
    piece_bytes: usize,
    digest: digest::Context,
    step: BackupStep,
    left_bytes: u64,
}

enum BackupStep {
    /// The first pages, which are known from the first walk.
    Head(Vec<u8>),
    Pages,
    Done,
}

impl Backup {
    /// Walks the view once to know the length and the first pages, and calls `rest` after each piece.
    pub fn begin(
        view: Arc<StoreView>,
        taken: BackupOrigin,
        piece_bytes: usize,
        rest: &mut dyn FnMut(),
    ) -> Result<Backup, Error> {
        let (mut export, mut writer) = (Export::new(view.clone(), taken)?, Writer::default());
        let mut bytes = 0;
        while export.fill(&mut writer, piece_bytes)? {
            bytes += writer.take().len();
            rest();
        }
        let (last, head) = writer.finish();
        let left_bytes = (head.len() + bytes + last.len() + DIGEST_BYTES) as u64;
        let (export, writer) = (Export::new(view, taken)?, Writer::default());
        let (digest, step) = (digest::Context::new(&SHA256), BackupStep::Head(head));
        Ok(Backup { export, writer, piece_bytes, digest, step, left_bytes })
    }

    /// Bytes of the backup that were not read yet.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    fn piece(&mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.step, BackupStep::Pages) {
            BackupStep::Head(head) => Some(head),
            BackupStep::Pages => {
                let more = self.export.fill(&mut self.writer, self.piece_bytes);
                if more.expect("the same view was read before") {
                    return Some(self.writer.take());
                }
                self.step = BackupStep::Done;
                Some(std::mem::take(&mut self.writer).finish().0)
            }
            BackupStep::Done => {
                self.step = BackupStep::Done;
                None
            }
        }
    }
}

impl Iterator for Backup {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = self.piece()?;
        self.digest.update(&piece);
        if let BackupStep::Done = self.step {
            piece.extend_from_slice(self.digest.clone().finish().as_ref());
        }
        self.left_bytes -= piece.len() as u64;
        Some(piece.into())
    }
}

/// What came after a backup is not in it.
pub(crate) fn check_moment(point: RestorePoint, summary: &Summary) -> Result<(), BackupError> {
    match (point, summary.taken) {
        (RestorePoint::Time(millis), Some(taken)) if millis > taken.at_millis.cast_signed() => {
            Err(BackupError::LaterTime { taken: base::date::rfc3339(taken.at_millis) })
        }
        _ => Ok(()),
    }
}

impl From<PointError> for Error {
    fn from(error: PointError) -> Error {
        match error {
            PointError::Corrupt(row) => Error::Store(row),
            PointError::Compacted(compacted) => BackupError::Compacted { compacted: compacted.0 }.into(),
            PointError::Later(newest) => BackupError::Later { newest: newest.0 }.into(),
            PointError::UnknownTime => BackupError::UnknownTime.into(),
            PointError::FirstFormat => BackupError::FirstFormat.into(),
        }
    }
}

#[cfg(test)]
mod tests;
