//! A disk whose writes stay in memory, over files that are not changed. An inspection opens a member's files as a
//! start would, repairs included, and leaves no trace. Memory grows with what is written, which an inspection keeps
//! small.

use crate::disk::{DirLock, Disk, File};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE: usize = 4096;

pub struct ScratchDisk {
    below: Arc<dyn Disk>,
    /// Every file that is there; opened when it is first asked for.
    files: Mutex<BTreeMap<String, Slot>>,
}

#[derive(Clone)]
enum Slot {
    Untouched,
    Open(Arc<Layer>),
}

/// A file with pages of ours over those below.
struct Layer {
    below: Option<Box<dyn File>>,
    over: Mutex<ChangedPages>,
}

struct ChangedPages {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    len: u64,
    /// How much of the file below still shows.
    below_len: u64,
}

impl ScratchDisk {
    pub fn over(below: Arc<dyn Disk>) -> io::Result<ScratchDisk> {
        let files = below.list()?.into_iter().map(|name| (name, Slot::Untouched)).collect();
        Ok(ScratchDisk { below, files: Mutex::new(files) })
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file keeps its contents under another name, so it is opened before it gets one.
    fn layer(&self, name: &str) -> io::Result<Arc<Layer>> {
        let mut files = self.files();
        let slot = files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        if let Slot::Open(layer) = slot {
            return Ok(layer.clone());
        }
        let layer = Arc::new(Layer::new(Some(self.below.open(name)?))?);
        *slot = Slot::Open(layer.clone());
        Ok(layer)
    }
}

impl Disk for ScratchDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.layer(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut files = self.files();
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let layer = Arc::new(Layer::new(None)?);
        files.insert(name.to_owned(), Slot::Open(layer.clone()));
        Ok(Box::new(layer))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.files().contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let layer = self.layer(from)?;
        let mut files = self.files();
        files.remove(from);
        files.insert(to.to_owned(), Slot::Open(layer));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn DirLock>> {
        self.below.lock()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.below.free_bytes()
    }
}

impl Layer {
    fn new(below: Option<Box<dyn File>>) -> io::Result<Layer> {
        let len = below.as_ref().map_or(Ok(0), |below| below.len())?;
        Ok(Layer { below, over: Mutex::new(ChangedPages { pages: BTreeMap::new(), len, below_len: len }) })
    }

    fn over(&self) -> MutexGuard<'_, ChangedPages> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file below shows of a page.
    fn page_below(&self, page: u64, below_len: u64) -> io::Result<Box<[u8; PAGE]>> {
        let mut bytes = Box::new([0; PAGE]);
        let start = page * PAGE as u64;
        let shown = below_len.saturating_sub(start).min(PAGE as u64) as usize;
        if let Some(below) = self.below.as_ref().filter(|_| shown > 0) {
            below.read_at(start, &mut bytes[..shown])?;
        }
        Ok(bytes)
    }
}

/// The parts of a stretch of bytes, page by page: page, offset in it, length.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = offset;
    let end = offset + len as u64;
    std::iter::from_fn(move || {
        let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
        let part = (PAGE - within).min((end - at) as usize);
        at += part as u64;
        (part > 0).then_some((page, within, part))
    })
}

impl File for Arc<Layer> {
    fn read_at(&self, offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        let over = self.over();
        if offset + out.len() as u64 > over.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Long reads of unwritten ranges need no copies.
        if let (Some(below), true) = (&self.below, over.pages.is_empty() && over.len == over.below_len) {
            return below.read_at(offset, out);
        }
        for (page, within, part) in parts(offset, out.len()) {
            let (now, rest) = out.split_at_mut(part);
            match over.pages.get(&page) {
                Some(bytes) => now.copy_from_slice(&bytes[within..within + part]),
                None => {
                    let bytes = self.page_below(page, over.below_len)?;
                    now.copy_from_slice(&bytes[within..within + part]);
                }
            }
            out = rest;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut over = self.over();
        over.len = over.len.max(offset + bytes.len() as u64);
        let below_len = over.below_len;
        for (page, within, part) in parts(offset, bytes.len()) {
            let (now, rest) = bytes.split_at(part);
            let target = match over.pages.entry(page) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(slot) => slot.insert(self.page_below(page, below_len)?),
            };
            target[within..within + part].copy_from_slice(now);
            bytes = rest;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.over().len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut over = self.over();
        over.below_len = over.below_len.min(len);
        let (last, within) = (len / PAGE as u64, (len % PAGE as u64) as usize);
        over.pages.retain(|page, _| *page <= last);
        if let Some(bytes) = over.pages.get_mut(&last) {
            bytes[within..].fill(0);
        }
        over.len = len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;
    use base::Rng;

    #[test]
    fn a_scratch_behaves_as_a_file_and_leaves_the_one_below_alone() {
        let below = SimDisk::new(1);
        let original: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
        below.create("a").unwrap().write_at(0, &original).unwrap();
        let scratch = ScratchDisk::over(Arc::new(below.clone())).unwrap();
        let file = scratch.open("a").unwrap();
        let mut model = original.clone();
        let mut rng = Rng::new(7);
        for _ in 0..2_000 {
            let offset = rng.between(0, 30_000) as usize;
            let len = rng.between(0, 9_000) as usize;
            match rng.between(0, 10) {
                0 => {
                    file.set_len(offset as u64).unwrap();
                    model.resize(offset, 0);
                }
                1..4 => {
                    let bytes = vec![rng.between(0, 256) as u8; len];
                    file.write_at(offset as u64, &bytes).unwrap();
                    model.resize(model.len().max(offset + len), 0);
                    model[offset..offset + len].copy_from_slice(&bytes);
                }
                _ => {
                    let mut out = vec![0; len];
                    let read = file.read_at(offset as u64, &mut out);
                    assert_eq!(read.is_ok(), offset + len <= model.len());
                    assert!(read.is_err() || out == model[offset..offset + len]);
                }
            }
            assert_eq!(file.len().unwrap(), model.len() as u64);
        }
        let mut untouched = vec![0; original.len()];
        below.open("a").unwrap().read_at(0, &mut untouched).unwrap();
        assert_eq!(untouched, original);
    }

    #[test]
    fn names_are_its_own() {
        let below = SimDisk::new(1);
        below.create("a").unwrap().write_at(0, b"x").unwrap();
        let scratch = ScratchDisk::over(Arc::new(below.clone())).unwrap();
        scratch.rename("a", "b").unwrap();
        scratch.create("c").unwrap();
        assert_eq!(scratch.list().unwrap(), ["b", "c"]);
        assert_eq!(scratch.open("b").unwrap().len().unwrap(), 1);
        scratch.remove("b").unwrap();
        assert!(!scratch.exists("b").unwrap());
        assert_eq!(below.list().unwrap(), ["a"]);
    }
}
