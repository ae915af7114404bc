//! One file of the log: a header, then frames, then space that was written with zeroes in advance so that a
//! sync has no metadata to write. In: names and an id; out: a file that is ready for frames.
//! A segment exists under its own name before its header says so, and its header is durable before any frame
//! but the first is written.

use super::frame::Sequence;
use super::record::{RecordStream, WalRecord};
use crate::disk::{Disk, File};
use crate::error::Error;
use crate::full_disk;
use crate::mutant::Mutant;
use base::checksum;
use bytes::BufMut;
use std::io;

/// Magic, version, checksum, file id, first sequence.
pub const HEADER_BYTES: u64 = 32;
pub const VERSION: u32 = 2;
/// The version of logs without a manifest.
pub const VERSION_WITHOUT_MANIFEST: u32 = 1;
/// Released segments, kept for the next rolls.
pub const SPARE_NAMES: [&str; 5] = ["wal-spare", "wal-spare-1", "wal-spare-2", "wal-spare-3", "wal-spare-4"];
/// A segment that is being filled with zeroes; a leftover of it is worth nothing.
pub const FRESH_NAME: &str = "wal-fresh";

/// With free space for so many segments, a few more spare ones do not matter.
const AMPLE_SEGMENTS: u64 = 64;
const MAGIC: [u8; 8] = *b"ALTHWAL\0";
const PREFIX: &str = "wal-";
static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];

pub struct Segment {
    pub id: u64,
    pub name: String,
    pub len: u64,
    /// The highest position of each stream in it: what must be released before it can go.
    pub highest: [u64; RecordStream::ALL.len()],
}

impl Segment {
    pub fn new(id: u64, len: u64) -> Segment {
        Segment { id, name: name(id), len, highest: [0; RecordStream::ALL.len()] }
    }

    pub fn note(&mut self, record: &WalRecord) {
        // A sticky record is repeated in later segments and keeps none alive.
        if record.sticky.is_none() {
            let highest = &mut self.highest[slot(record.stream)];
            *highest = record.position.max(*highest);
        }
    }
}

/// A stream's place in arrays that have one entry for each.
pub fn slot(stream: RecordStream) -> usize {
    stream as usize - 1
}

pub fn name(id: u64) -> String {
    format!("{PREFIX}{id:016x}")
}

/// The ids of all segments of a directory, sorted.
pub fn ids(names: &[String]) -> Vec<u64> {
    let mut ids: Vec<u64> = names.iter().filter_map(|name| id(name)).collect();
    ids.sort_unstable();
    ids
}

fn id(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let id = u64::from_str_radix(digits, 16).ok()?;
    (self::name(id) == name).then_some(id)
}

pub fn encode_header(version: u32, id: u64, first: Sequence, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_slice(&MAGIC);
    out.put_u32_le(version);
    out.put_u32_le(0);
    out.put_u64_le(id);
    out.put_u64_le(first.0);
    let crc = header_crc(&out[start..]);
    out[start + 12..start + 16].copy_from_slice(&crc.to_le_bytes());
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub first: Sequence,
    pub version: u32,
}

/// The header of the segment, or `None` when this is not the header of segment `id`.
/// The checksum is the same in all versions, so that a newer file is told from a damaged one.
pub fn check_header(bytes: &[u8], id: u64) -> Result<Option<Header>, Error> {
    let Some(header) = bytes.get(..HEADER_BYTES as usize) else { return Ok(None) };
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if header[..8] != MAGIC || half(12) != header_crc(header) || word(16) != id {
        return Ok(None);
    }
    let version = half(8);
    if ![VERSION_WITHOUT_MANIFEST, VERSION].contains(&version) {
        return Err(Error::Version { file: name(id), found: version.into(), known: VERSION.into() });
    }
    Ok(Some(Header { first: Sequence(word(24)), version }))
}

fn header_crc(header: &[u8]) -> u32 {
    checksum::crc32(&[&header[..12], &header[16..HEADER_BYTES as usize]])
}

/// A file named for segment `id` with at least `len` bytes, its name durable. Its contents are zeroes or
/// remains of an earlier segment, never those of `id`.
pub fn place_file(disk: &dyn Disk, id: u64, len: u64, len_usual: u64) -> Result<(Box<dyn File>, u64), Error> {
    let name = name(id);
    let blank = match take_spare(disk, len, len_usual)? {
        Some(spare) => spare,
        None => make_fresh(disk, len)?,
    };
    disk.rename(blank.name, &name).map_err(Error::io("rename a segment to", &name))?;
    disk.sync_dir().map_err(Error::io("sync the directory of", &name))?;
    Ok((blank.file, blank.len))
}

struct BlankSegment {
    name: &'static str,
    file: Box<dyn File>,
    len: u64,
}

/// The length of the segment that is kept for the next roll; zero without one.
pub fn spare_bytes(disk: &dyn Disk) -> Result<u64, Error> {
    Ok(take_spare(disk, 0, 0)?.map_or(0, |spare| spare.len))
}

/// A spare that is too short was kept under other settings, and is useless.
fn take_spare(disk: &dyn Disk, len_needed: u64, len_usual: u64) -> Result<Option<BlankSegment>, Error> {
    for name in SPARE_NAMES {
        if !disk.exists(name).map_err(Error::io("look for", name))? {
            continue;
        }
        let file = disk.open(name).map_err(Error::io("open", name))?;
        let len = file.len().map_err(Error::io("measure", name))?;
        if len >= len_needed {
            return Ok(Some(BlankSegment { name, file, len }));
        }
        if len < len_usual {
            disk.remove(name).map_err(Error::io("remove", name))?;
        }
    }
    Ok(None)
}

/// A name under which one more spare segment of this length may be kept; none if there are enough of them. Where the
/// disk has little space only one is kept, and the others are removed: they would take the space of new data.
pub fn spare_name(disk: &dyn Disk, len: u64, spares_max: usize) -> Result<Option<&'static str>, Error> {
    let free_bytes = disk.free_bytes().map_err(Error::io("measure the disk of", SPARE_NAMES[0]))?;
    let kept = if free_bytes / len < AMPLE_SEGMENTS { spares_max.min(1) } else { spares_max };
    let exists = |name: &&str| disk.exists(name).map_err(Error::io("look for", name));
    for name in &SPARE_NAMES[kept..] {
        if exists(name)? {
            disk.remove(name).map_err(Error::io("remove", name))?;
        }
    }
    for name in &SPARE_NAMES[..kept] {
        if !exists(name)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn make_fresh(disk: &dyn Disk, len: u64) -> Result<BlankSegment, Error> {
    let name = FRESH_NAME;
    let file = disk.create(name).map_err(Error::io("create", name))?;
    write_zeroes(&*file, name, 0, len)?;
    file.sync().map_err(Error::io("sync", name))?;
    Ok(BlankSegment { name, file, len })
}

/// Writes when there is space: on a full disk it waits.
pub fn write(file: &dyn File, at: u64, bytes: &[u8]) -> io::Result<()> {
    full_disk::retry_when_full(file, Mutant::FullLogIgnored, || file.write_at(at, bytes))
}

pub fn write_zeroes(file: &dyn File, name: &str, from: u64, to: u64) -> Result<(), Error> {
    let mut at = from;
    while at < to {
        let len = (to - at).min(ZEROES.len() as u64);
        write(file, at, &ZEROES[..len as usize]).map_err(Error::io("write zeroes to", name))?;
        at += len;
    }
    Ok(())
}
