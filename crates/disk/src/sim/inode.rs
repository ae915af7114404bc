//! The bytes of one simulated file, and how to take back what was not synced.
//! Bytes are kept once, as the running process sees them; every unsynced change keeps what it replaced, so a
//! write costs its own length, a sync costs nothing, and only a crash walks the changes back and forth.

use super::Counters;
use base::Rng;
use std::io;

const SECTOR: u64 = 4096;

#[derive(Clone, Default)]
pub struct Inode {
    bytes: Vec<u8>,
    changes: Vec<Change>,
    pub handles: u64,
}

#[derive(Clone)]
struct Change {
    kind: Kind,
    sync_state: SyncState,
    /// Before a crash: the bytes that the change replaced. While a crash is simulated: the bytes that it wrote.
    other: Vec<u8>,
    len_before: u64,
}

#[derive(Clone)]
enum Kind {
    Write { offset: u64, len: u64 },
    SetLen { len: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncState {
    Pending,
    /// Its sync failed: the kernel believes it clean and no later sync writes it.
    Unknown,
    /// Synced, but kept in the list because an `Unknown` change lies below it.
    Durable,
}

/// What a crash does to a file's pending writes; the extremes are drawn often, since they are often the
/// interesting ones.
#[derive(Clone, Copy)]
pub enum CrashOutcome {
    AllLost,
    AllKept,
    BySector,
}

impl CrashOutcome {
    pub fn draw(rng: &mut Rng) -> CrashOutcome {
        *rng.pick(&[
            CrashOutcome::AllLost,
            CrashOutcome::AllKept,
            CrashOutcome::BySector,
            CrashOutcome::BySector,
        ])
    }

    fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            CrashOutcome::AllLost => false,
            CrashOutcome::AllKept => true,
            CrashOutcome::BySector => rng.chance(500_000),
        }
    }
}

impl Inode {
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let from = start.checked_add(out.len()).and_then(|end| self.bytes.get(start..end));
        out.copy_from_slice(from.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let old_end = self.bytes.len();
        let replaced = self.bytes[start.min(old_end)..end.min(old_end)].to_vec();
        self.remember(Kind::Write { offset, len: bytes.len() as u64 }, replaced);
        if end > old_end {
            resize(&mut self.bytes, end);
        }
        self.bytes[start..end].copy_from_slice(bytes);
    }

    pub fn set_len(&mut self, len: u64) {
        let cut = self.bytes.get(len as usize..).unwrap_or_default().to_vec();
        self.remember(Kind::SetLen { len }, cut);
        resize(&mut self.bytes, len as usize);
    }

    fn remember(&mut self, kind: Kind, other: Vec<u8>) {
        self.changes.push(Change {
            kind,
            sync_state: SyncState::Pending,
            other,
            len_before: self.bytes.len() as u64,
        });
    }

    pub fn sync(&mut self) {
        if self.changes.iter().all(|change| change.sync_state == SyncState::Pending) {
            self.changes.clear();
            return;
        }
        self.set_sync_state(SyncState::Durable);
    }

    pub fn sync_failed(&mut self) {
        self.set_sync_state(SyncState::Unknown);
    }

    fn set_sync_state(&mut self, sync_state: SyncState) {
        for change in self.changes.iter_mut().filter(|change| change.sync_state == SyncState::Pending) {
            change.sync_state = sync_state;
        }
    }

    pub fn flip(&mut self, offset: u64, bit: u32) {
        self.bytes[offset as usize] ^= 1 << bit;
    }

    /// Walks back to what was surely durable, then forward again with what survives.
    pub fn crash(&mut self, outcome: CrashOutcome, rng: &mut Rng, counters: &mut Counters) {
        let mut changes = std::mem::take(&mut self.changes);
        for change in changes.iter_mut().rev() {
            self.undo(change);
        }
        // Lengths are journalled by the file system: of these a prefix survives.
        let mut lengths_survive = true;
        for change in &changes {
            let certain = change.sync_state == SyncState::Durable;
            match change.kind {
                Kind::SetLen { len } => {
                    lengths_survive = certain || (lengths_survive && outcome.keeps(rng));
                    if lengths_survive {
                        resize(&mut self.bytes, len as usize);
                    }
                }
                Kind::Write { offset, len } => {
                    for (start, end) in sectors(offset, len) {
                        let kept = certain || outcome.keeps(rng);
                        counters.sectors_kept += u64::from(kept);
                        counters.sectors_lost += u64::from(!kept);
                        if kept {
                            let part = &change.other[(start - offset) as usize..(end - offset) as usize];
                            self.put(start, part);
                        }
                    }
                }
            }
        }
    }

    fn undo(&mut self, change: &mut Change) {
        let replaced = std::mem::take(&mut change.other);
        match change.kind {
            Kind::Write { offset, len } => {
                change.other = self.bytes[offset as usize..(offset + len) as usize].to_vec();
                self.bytes[offset as usize..offset as usize + replaced.len()].copy_from_slice(&replaced);
                self.bytes.truncate(change.len_before as usize);
            }
            Kind::SetLen { len } => {
                resize(&mut self.bytes, change.len_before as usize);
                let start = (len as usize).min(self.bytes.len());
                self.bytes[start..].copy_from_slice(&replaced);
            }
        }
    }

    fn put(&mut self, offset: u64, part: &[u8]) {
        let end = offset as usize + part.len();
        if end > self.bytes.len() {
            resize(&mut self.bytes, end);
        }
        self.bytes[offset as usize..end].copy_from_slice(part);
    }
}

/// The parts of a write that lie in one sector each.
fn sectors(offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at;
        at = end.min((start / SECTOR + 1) * SECTOR);
        (start < end).then_some((start, at))
    })
}

/// A file that starts long is taken from the allocator as untouched zero pages, which costs almost nothing.
fn resize(bytes: &mut Vec<u8>, len: usize) {
    if bytes.is_empty() && bytes.capacity() < len {
        *bytes = vec![0; len];
    } else {
        bytes.resize(len, 0);
    }
}
