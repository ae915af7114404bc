//! A backup of a running member: pieces of what it had applied when the backup began, read from a pinned view on
//! blocking threads, as fast as its receiver takes them. A receiver that takes nothing for long
//! loses the backup, because the view keeps old pages of the store from being used again.

use crate::core::Core;
use crate::handle::MaintenanceHandle;
use crate::storage;
use base::limits::{BACKUP_IDLE_MILLIS_MAX, BACKUPS_MAX, SNAPSHOT_CHUNK_BYTES};
use base::{Code, Revision};
use bytes::Bytes;
use coord::rows::Meta;
use disk::StoreView;
use engine::backup::BackupOrigin;
use engine::{Backup, KeyHash};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Pieces that are read ahead of the receiver.
const PIECES_AHEAD: usize = 2;
/// How often the store is polled until it holds what was applied.
const FLUSH_POLL: Duration = Duration::from_millis(10);
/// How often at most.
const FLUSH_POLLS_MAX: usize = 3_000;
/// After each piece the thread rests for as long as the piece took, within these bounds: requests are urgent,
/// a backup is not.
const REST_MIN: Duration = Duration::from_micros(200);
const REST_MAX: Duration = Duration::from_millis(20);

/// One piece of a backup.
#[derive(Clone, Debug)]
pub struct BackupPiece {
    pub bytes: Bytes,
    /// The bytes after this piece.
    pub left_bytes: u64,
}

/// The receiver of the pieces.
pub struct BackupPieces {
    pieces: mpsc::Receiver<BackupPiece>,
    left_bytes: u64,
}

/// Limits how many backups run at a time.
pub(crate) fn backup_permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(BACKUPS_MAX))
}

impl MaintenanceHandle<'_> {
    /// Everything that this member has applied, as one file.
    pub async fn backup(self) -> Result<BackupPieces, Code> {
        let core = self.handle.core();
        let permit = core.reads.backups.clone().try_acquire_owned().map_err(|_| Code::TooManyRequests)?;
        let began = Instant::now();
        let view = flushed_view(core, self.handle.status().applied.0).await?;
        let identity = self.handle.identity();
        let at_millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64);
        let taken = BackupOrigin { cluster: identity.cluster, member: identity.member, at_millis };
        let begin = move || {
            let mut start = Instant::now();
            Backup::begin(view, taken, SNAPSHOT_CHUNK_BYTES, &mut || {
                thread::sleep(rest_after(start));
                start = Instant::now();
            })
        };
        let backup = tokio::task::spawn_blocking(begin).await.map_err(|_| Code::Stopped)?;
        // A row that cannot be read ends the process wherever it is read; this is only the first place.
        let backup = backup.map_err(|_| Code::Stopped)?;
        let left_bytes = backup.left_bytes();
        tracing::info!(bytes = left_bytes, "backup started");
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let seconds = core.metrics.etcd.snapshot_seconds.clone();
        tokio::spawn(async move {
            send(backup, sender, permit).await;
            seconds.observe(began.elapsed());
        });
        Ok(BackupPieces { pieces, left_bytes })
    }

    /// Covers everything applied: equal on every member at the same applied index.
    pub fn state_hash(self) -> u64 {
        self.handle.core().metrics.etcd.hash_seconds.observe(Duration::ZERO);
        self.handle.status().state_hash
    }

    /// The hash of all keys up to a revision, as etcd computes it, and the compacted revision that it was computed with.
    pub async fn hash_keys(self, revision: Revision) -> Result<KeyHash, Code> {
        let core = self.handle.core();
        let permit = core.reads.backups.clone().try_acquire_owned().map_err(|_| Code::TooManyRequests)?;
        let began = Instant::now();
        let view = flushed_view(core, self.handle.status().applied.0).await?;
        let hashing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut start = Instant::now();
            engine::hash_keys(view, revision, &mut || {
                thread::sleep(rest_after(start));
                start = Instant::now();
            })
        });
        let hash = hashing.await.map_err(|_| Code::Stopped)?.map_err(|_| Code::Stopped)?;
        core.metrics.etcd.hash_rev_seconds.observe(began.elapsed());
        if revision < hash.compacted { Err(Code::Compacted) } else { Ok(hash) }
    }
}

impl BackupPieces {
    /// The next piece; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<BackupPiece>, Code> {
        match self.pieces.recv().await {
            Some(piece) => {
                self.left_bytes = piece.left_bytes;
                Ok(Some(piece))
            }
            None if self.left_bytes == 0 => Ok(None),
            None => Err(Code::Timeout),
        }
    }
}

fn rest_after(start: Instant) -> Duration {
    start.elapsed().clamp(REST_MIN, REST_MAX)
}

/// The store as it is on the disk, once that is as far as what was applied.
pub(crate) async fn flushed_view(core: &Core, applied: u64) -> Result<Arc<StoreView>, Code> {
    // Rounds are counted, not time: a clock that jumps ends one pause early, and not the wait.
    for _ in 0..FLUSH_POLLS_MAX {
        let (reply, answer) = oneshot::channel();
        if !core.coord.storage.push(storage::StorageMessage::View { reply }.into()) {
            return Err(Code::Stopped);
        }
        let view = answer.await.map_err(|_| Code::Stopped)?;
        let meta = Meta::read(&*view).map_err(|_| Code::Stopped)?;
        if meta.map_or(0, |meta| meta.applied.index.0) >= applied {
            return Ok(view);
        }
        drop(view);
        sleep(FLUSH_POLL).await;
    }
    Err(Code::Timeout)
}

async fn send(mut backup: Backup, to: mpsc::Sender<BackupPiece>, permit: OwnedSemaphorePermit) {
    let idle_max = Duration::from_millis(BACKUP_IDLE_MILLIS_MAX);
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            let bytes = backup.next();
            (backup, bytes, rest_after(start))
        });
        let Ok((same, Some(bytes), rest)) = read.await else { break };
        backup = same;
        let piece = BackupPiece { bytes, left_bytes: backup.left_bytes() };
        if !matches!(timeout(idle_max, to.send(piece)).await, Ok(Ok(()))) {
            tracing::warn!(left_bytes = backup.left_bytes(), "backup aborted by its receiver");
            break;
        }
        sleep(rest).await;
    }
    drop(permit);
}
