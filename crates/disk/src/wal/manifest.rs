//! The manifest of a log: which segments there are and how long the newest is, so that a file that is gone or cut
//! short is told from the end of the log. Two slots in one file are written in turn, in place: a write that is torn
//! leaves the other slot, and a full disk does not prevent it. A segment is listed after its beginning is durable and
//! before anything else is written to it; a released segment leaves the manifest before its file is removed. See
//! docs/formats/wal.md.

use super::segment;
use crate::disk::{Disk, File};
use crate::error::Error;
use base::checksum;
use bytes::BufMut;

pub const NAME: &str = "wal-manifest";
/// Under this name it is made, so that it is whole or absent.
const FRESH_NAME: &str = "wal-manifest-fresh";
const MAGIC: [u8; 8] = *b"ALTHMANI";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 48;
/// Slots share no sector.
const SLOT_STRIDE: u64 = 4096;

/// What the manifest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentListing {
    /// The oldest segment that is needed, and the newest; there is none while the newest is below the oldest.
    pub first: u64,
    pub last: u64,
    pub newest_bytes: u64,
}

impl SegmentListing {
    /// The listing of a log that has no segment yet.
    pub const EMPTY: SegmentListing = SegmentListing { first: 1, last: 0, newest_bytes: 0 };
}

pub struct Manifest {
    file: Box<dyn File>,
    serial: u64,
    listing: SegmentListing,
}

/// None if there is no such file; one that cannot be read is damage, not absence.
pub fn read(disk: &dyn Disk) -> Result<Option<SegmentListing>, Error> {
    Ok(open(disk)?.map(|manifest| manifest.listing))
}

pub fn open(disk: &dyn Disk) -> Result<Option<Manifest>, Error> {
    if !disk.exists(NAME).map_err(Error::io("look for", NAME))? {
        return Ok(None);
    }
    let file = disk.open(NAME).map_err(Error::io("open", NAME))?;
    let len = file.len().map_err(Error::io("measure", NAME))?;
    let mut found = Vec::new();
    for slot in 0..2 {
        let mut bytes = [0; SLOT_BYTES];
        if len < slot * SLOT_STRIDE + SLOT_BYTES as u64 {
            continue;
        }
        file.read_at(slot * SLOT_STRIDE, &mut bytes).map_err(Error::io("read", NAME))?;
        found.extend(decode(&bytes)?);
    }
    match found.into_iter().max_by_key(|(serial, _)| *serial) {
        Some((serial, listing)) => Ok(Some(Manifest { file, serial, listing })),
        None => {
            let reason = "no part of it matches its checksum";
            Err(Error::Corrupt { file: NAME.to_owned(), offset: 0, reason })
        }
    }
}

/// Removes the manifest of a log whose newest segment is older than manifests: a release that does not know it may have
/// written to the log since.
pub fn remove(disk: &dyn Disk) -> Result<(), Error> {
    if disk.exists(NAME).map_err(Error::io("look for", NAME))? {
        disk.remove(NAME).map_err(Error::io("remove", NAME))?;
        disk.sync_dir().map_err(Error::io("sync the directory of", NAME))?;
    }
    Ok(())
}

impl Manifest {
    /// Durable when this returns.
    pub fn create(disk: &dyn Disk, listing: SegmentListing) -> Result<Manifest, Error> {
        if disk.exists(FRESH_NAME).map_err(Error::io("look for", FRESH_NAME))? {
            disk.remove(FRESH_NAME).map_err(Error::io("remove", FRESH_NAME))?;
        }
        let file = disk.create(FRESH_NAME).map_err(Error::io("create", FRESH_NAME))?;
        segment::write_zeroes(&*file, FRESH_NAME, 0, 2 * SLOT_STRIDE)?;
        let mut manifest = Manifest { file, serial: 0, listing: SegmentListing::EMPTY };
        manifest.write(listing)?;
        disk.rename(FRESH_NAME, NAME).map_err(Error::io("rename the manifest to", NAME))?;
        disk.sync_dir().map_err(Error::io("sync the directory of", NAME))?;
        Ok(manifest)
    }

    pub fn listing(&self) -> SegmentListing {
        self.listing
    }

    /// Durable when this returns.
    pub fn set(&mut self, listing: SegmentListing) -> Result<(), Error> {
        if listing == self.listing {
            return Ok(());
        }
        self.write(listing)
    }

    fn write(&mut self, listing: SegmentListing) -> Result<(), Error> {
        self.serial += 1;
        let at = self.serial % 2 * SLOT_STRIDE;
        segment::write(&*self.file, at, &encode(self.serial, listing)).map_err(Error::io("write", NAME))?;
        self.file.sync().map_err(Error::io("sync", NAME))?;
        self.listing = listing;
        Ok(())
    }
}

fn encode(serial: u64, listing: SegmentListing) -> Vec<u8> {
    let mut out = Vec::with_capacity(SLOT_BYTES);
    out.put_slice(&MAGIC);
    out.put_u32_le(VERSION);
    out.put_u32_le(0);
    out.put_u64_le(serial);
    out.put_u64_le(listing.first);
    out.put_u64_le(listing.last);
    out.put_u64_le(listing.newest_bytes);
    let crc = crc_of(&out);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The checksum is the same in all versions, so that a newer file is told from a damaged one.
fn decode(bytes: &[u8; SLOT_BYTES]) -> Result<Option<(u64, SegmentListing)>, Error> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if bytes[..8] != MAGIC || half(12) != crc_of(bytes) {
        return Ok(None);
    }
    if half(8) != VERSION {
        return Err(Error::Version { file: NAME.to_owned(), found: half(8).into(), known: VERSION.into() });
    }
    let listing = SegmentListing { first: word(24), last: word(32), newest_bytes: word(40) };
    Ok(Some((word(16), listing)))
}

fn crc_of(slot: &[u8]) -> u32 {
    checksum::crc32(&[&slot[..12], &slot[16..SLOT_BYTES]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    fn listing(last: u64) -> SegmentListing {
        SegmentListing { first: 3, last, newest_bytes: 4096 }
    }

    #[test]
    fn the_last_listing_that_was_written_is_read() {
        let disk = SimDisk::new(1);
        assert_eq!(read(&disk).unwrap(), None);
        let mut manifest = Manifest::create(&disk, listing(7)).unwrap();
        for last in 8..20 {
            manifest.set(listing(last)).unwrap();
            disk.fork().crash();
            assert_eq!(read(&disk).unwrap(), Some(listing(last)));
        }
    }

    #[test]
    fn a_write_that_is_cut_down_leaves_the_listing_before_it() {
        for seed in 0..50 {
            let disk = SimDisk::new(seed);
            let mut manifest = Manifest::create(&disk, listing(7)).unwrap();
            disk.fail_after_ops(seed % 2);
            assert!(manifest.set(listing(8)).is_err());
            disk.crash();
            let found = read(&disk).unwrap().unwrap();
            assert!([listing(7), listing(8)].contains(&found), "{found:?}");
        }
    }

    #[test]
    fn damage_to_one_slot_leaves_the_other_and_to_both_is_an_error() {
        for at in 0..SLOT_BYTES as u64 {
            let disk = SimDisk::new(at);
            let mut manifest = Manifest::create(&disk, listing(7)).unwrap();
            manifest.set(listing(8)).unwrap();
            disk.flip_bit(NAME, at);
            assert_eq!(read(&disk).unwrap(), Some(listing(7)), "byte {at}");
            disk.flip_bit(NAME, SLOT_STRIDE + at);
            assert!(matches!(read(&disk), Err(Error::Corrupt { .. })), "byte {at}");
            disk.truncate_durably(NAME, at);
            assert!(matches!(read(&disk), Err(Error::Corrupt { .. })), "cut at {at}");
        }
    }
}
