//! A backup on its way out: a head, the rows of a pinned view in chunks, an end, and a SHA-256 over all of it.
//! A view goes in; pieces of known total length come out as they are asked for, so whoever takes them slowly
//! costs nothing but the pinned view. Laid out in docs/formats/backup.md, and padded so that etcd's tools,
//! which know a backup by its length, take it for one.

mod error;
mod head;
mod read;

pub use error::BackupError;
pub use head::Head;
pub use read::{Summary, read};

use crate::error::Error;
use base::sha256::{DIGEST_BYTES, Sha256};
use base::{ClusterId, NodeId};
use bytes::Bytes;
use coord::rows::Meta;
use disk::StoreView;
use disk::store::chunk::Chunks;
use std::sync::Arc;

/// etcd's tools take a file for a backup with a digest if its length leaves this when divided by 512.
const PAGE_BYTES: u64 = 512;
/// Before each frame.
const LENGTH_BYTES: u64 = 4;

/// Who takes it, and when.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub cluster: ClusterId,
    pub member: NodeId,
    /// Milliseconds since 1970.
    pub at_millis: u64,
}

pub struct Backup {
    head: Head,
    chunks: Chunks,
    digest: Sha256,
    step: Step,
    left_bytes: u64,
}

enum Step {
    Head,
    Chunks,
    Done,
}

impl Backup {
    /// Walks the view once to know how long it will be, and may rest after each chunk.
    pub fn begin(
        view: Arc<StoreView>,
        taken: Taken,
        chunk_bytes: usize,
        rest: &mut dyn FnMut(),
    ) -> Result<Backup, Error> {
        let meta = Meta::read(&*view)?;
        let chunks = Chunks::new(view, chunk_bytes);
        let extent = chunks.measure(rest);
        let frames = head::BYTES + extent.bytes + LENGTH_BYTES * (extent.chunks + 1);
        let total_bytes = frames.next_multiple_of(PAGE_BYTES) + DIGEST_BYTES as u64;
        let head = Head { taken, meta, chunks: extent.chunks, total_bytes };
        Ok(Backup { head, chunks, digest: Sha256::default(), step: Step::Head, left_bytes: total_bytes })
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// What is still to come.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    fn piece(&mut self) -> Option<Vec<u8>> {
        match self.step {
            Step::Head => {
                self.step = Step::Chunks;
                Some(self.head.encode())
            }
            Step::Chunks => match self.chunks.next() {
                Some(chunk) => {
                    let len = u32::try_from(chunk.len()).expect("a chunk is far below 4 GiB");
                    Some([&len.to_le_bytes()[..], &chunk].concat())
                }
                None => {
                    self.step = Step::Done;
                    // The end is a frame without length; zeroes are both it and the padding.
                    Some(vec![0; (self.left_bytes - DIGEST_BYTES as u64) as usize])
                }
            },
            Step::Done => None,
        }
    }
}

impl Iterator for Backup {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = self.piece()?;
        self.digest.update(&piece);
        if let Step::Done = self.step {
            piece.extend_from_slice(&std::mem::take(&mut self.digest).finish());
        }
        self.left_bytes -= piece.len() as u64;
        Some(piece.into())
    }
}

#[cfg(test)]
mod tests;
