//! redb's storage trait over a file of ours, with a checksum for every page.
//! The engine checks its own checksums only when it repairs a file; this layer checks at every read, so rot
//! is an error and never an answer. Checksums lie in the same file, one page of them before each group of
//! pages, and reach the disk with the next sync: see docs/formats/store.md.
//!
//! Why this keeps the engine's own crash safety: a committed page is never written again in place, so neither
//! is its checksum, and the commit (two-phase, always) syncs pages and checksums before the header that
//! makes them count. A crash can only part a page from its checksum if nothing refers to it yet. Page 0, the
//! engine's header, is written in place; it has checksums of its own and gets none here.

use crate::disk::File;
use crate::full_disk;
use crate::mutant::Mutant;
use base::checksum;
use redb::StorageBackend;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const PAGE: u64 = 4096;
/// Pages that one page of checksums speaks for.
pub const GROUP_PAGES: u64 = PAGE / 4;

pub struct Backend {
    file: Box<dyn File>,
    /// Held to look one up or to note one, never while one is computed: a background read of the whole store could
    /// otherwise be preempted while it holds the lock, with all other threads waiting.
    sums: Mutex<Sums>,
}

/// The checksums of all pages, as they are to be on the disk after the next sync.
struct Sums {
    /// By page; zero for a page that was never written.
    by_page: Vec<u32>,
    dirty_groups: BTreeSet<u64>,
}

impl Backend {
    pub fn open(file: Box<dyn File>) -> io::Result<Backend> {
        let n_pages = logical_pages(file.len()?);
        let mut by_page = Vec::with_capacity(n_pages as usize);
        let mut bytes = [0; PAGE as usize];
        for group in 0..n_pages.div_ceil(GROUP_PAGES) {
            file.read_at(sums_offset(group), &mut bytes)?;
            by_page.extend(
                bytes.chunks_exact(4).map(|sum| u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]])),
            );
        }
        by_page.truncate(n_pages as usize);
        Ok(Backend { file, sums: Mutex::new(Sums { by_page, dirty_groups: BTreeSet::new() }) })
    }

    /// The engine would refuse all further work after an error, reads included, although nothing is lost. Readers are
    /// not blocked meanwhile.
    fn wait_for_space(&self, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
        full_disk::retry_when_full(&*self.file, Mutant::FullDiskIgnored, act)
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sums {
    fn of(&self, page: u64) -> u32 {
        self.by_page.get(page as usize).copied().unwrap_or(0)
    }

    /// Page 0 has checksums of the engine.
    fn note(&mut self, page: u64, sum: u32) {
        if page > 0 {
            self.by_page[page as usize] = sum;
            self.dirty_groups.insert(page / GROUP_PAGES);
        }
    }

    fn resize(&mut self, n_pages: u64) {
        let kept = n_pages.min(self.by_page.len() as u64);
        self.by_page.resize(n_pages as usize, 0);
        // The group that the border lies in may still hold sums of pages that were cut off.
        self.dirty_groups.retain(|group| group * GROUP_PAGES < n_pages);
        if kept < n_pages || !kept.is_multiple_of(GROUP_PAGES) {
            self.dirty_groups.insert(kept / GROUP_PAGES);
        }
    }

    fn take_dirty(&mut self) -> Vec<(u64, [u8; PAGE as usize])> {
        let groups = std::mem::take(&mut self.dirty_groups);
        groups.into_iter().map(|group| (group, self.encode_group(group))).collect()
    }

    fn encode_group(&self, group: u64) -> [u8; PAGE as usize] {
        let mut out = [0; PAGE as usize];
        let start = (group * GROUP_PAGES) as usize;
        let end = self.by_page.len().min(start + GROUP_PAGES as usize);
        for (slot, sum) in out.chunks_exact_mut(4).zip(&self.by_page[start.min(end)..end]) {
            slot.copy_from_slice(&sum.to_le_bytes());
        }
        out
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.sums().by_page.len() as u64 * PAGE)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        for run in runs(offset, out.len()) {
            let part = &mut out[run.bytes.clone()];
            self.file.read_at(physical(run.offset), part)?;
            if run.offset < PAGE {
                continue;
            }
            for (page, bytes) in (run.offset / PAGE..).zip(part.chunks(PAGE as usize)) {
                let sum = self.sums().of(page);
                check(page, sum, whole_page(page, run.offset, bytes)?)?;
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let n_pages = len / PAGE;
        if !len.is_multiple_of(PAGE) {
            return Err(io::Error::other("the engine asked for a part of a page"));
        }
        self.wait_for_space(|| self.file.set_len(physical_len(n_pages)))?;
        self.sums().resize(n_pages);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        // Readers compare with the sums, and must not wait for the disk.
        let groups = self.sums().take_dirty();
        for (group, encoded) in groups {
            self.wait_for_space(|| self.file.write_at(sums_offset(group), &encoded))?;
        }
        self.file.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        for run in runs(offset, data.len()) {
            let part = &data[run.bytes.clone()];
            self.wait_for_space(|| self.file.write_at(physical(run.offset), part))?;
            if run.offset < PAGE {
                continue;
            }
            for (page, bytes) in (run.offset / PAGE..).zip(part.chunks(PAGE as usize)) {
                let sum = page_sum(page, whole_page(page, run.offset, bytes)?);
                self.sums().note(page, sum);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

/// A part of a request that is contiguous on the disk: page 0 alone, or pages of one group.
struct Run {
    /// As the engine counts.
    offset: u64,
    /// Which bytes of the request.
    bytes: Range<usize>,
}

fn runs(offset: u64, len: usize) -> impl Iterator<Item = Run> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at;
        let border = if start < PAGE { PAGE } else { (start / PAGE / GROUP_PAGES + 1) * GROUP_PAGES * PAGE };
        at = end.min(border);
        (start < end).then(|| Run { offset: start, bytes: (start - offset) as usize..(at - offset) as usize })
    })
}

/// The engine moves whole pages, except in its header; that it keeps to this is checked, not assumed.
fn whole_page(page: u64, run_offset: u64, bytes: &[u8]) -> io::Result<&[u8]> {
    if bytes.len() as u64 == PAGE && run_offset.is_multiple_of(PAGE) {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("the engine asked for a part of page {page}")))
}

/// A page never written has nothing to be compared with.
fn check(page: u64, sum: u32, bytes: &[u8]) -> io::Result<()> {
    if sum == 0 || sum == page_sum(page, bytes) { Ok(()) } else { Err(damaged(page)) }
}

fn page_sum(page: u64, bytes: &[u8]) -> u32 {
    // Zero means "never written"; one value in four thousand million is given up for that.
    checksum::crc32(&[&page.to_le_bytes(), bytes]).max(1)
}

fn damaged(page: u64) -> io::Error {
    let text = format!(
        "page {page}, at byte {}, is damaged: its checksum does not match. `althing verify` says what to do",
        physical(page * PAGE)
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Where a byte of the engine's lies in the file.
pub fn physical(offset: u64) -> u64 {
    let (page, rest) = (offset / PAGE, offset % PAGE);
    (page + page / GROUP_PAGES + 1) * PAGE + rest
}

fn physical_len(n_pages: u64) -> u64 {
    (n_pages + n_pages.div_ceil(GROUP_PAGES)) * PAGE
}

/// The inverse; a file that a crash left with half a page counts without it.
fn logical_pages(file_len: u64) -> u64 {
    let pages = file_len / PAGE;
    let (groups, rest) = (pages / (GROUP_PAGES + 1), pages % (GROUP_PAGES + 1));
    groups * GROUP_PAGES + rest.saturating_sub(1)
}

fn sums_offset(group: u64) -> u64 {
    group * (GROUP_PAGES + 1) * PAGE
}
