//! The write-ahead log: batches of records, each one frame, in segments that are zeroed in advance and used again.
//! Records go in by `write`, are durable after `sync`, and come out by replay at the next `open`. What `sync` has
//! promised is replayed, or `open` fails and says where the damage is; what it has not promised is replayed whole or
//! cut off, never in part and never out of order. What may have been promised and may be lost is reported. On a full
//! disk the log waits for space. See docs/formats/wal.md.

mod frame;
mod manifest;
mod record;
mod recovery;
mod segment;
#[cfg(test)]
mod tests;

pub use manifest::NAME as MANIFEST_NAME;
pub use record::{RecordStream, WalRecord};
pub use recovery::{FrameLocation, LostFrames, RecoveryReport, ShortenedSegment, TornTail};
pub use segment::HEADER_BYTES;

use crate::disk::{Disk, File};
use crate::error::Error;
use frame::{FrameAddress, Sequence};
use manifest::{Manifest, SegmentListing};
use recovery::Recovered;
use segment::Segment;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct WalParams {
    /// The usual length of a segment; one batch that needs more gets a longer one.
    pub segment_bytes: u64,
    /// Released segments that are kept for reuse: as many as are usually released at one time.
    pub spares_max: usize,
}

/// No log keeps more spare segments.
pub const SPARES_MAX: usize = segment::SPARE_NAMES.len();

pub struct Wal {
    disk: Arc<dyn Disk>,
    params: WalParams,
    /// Oldest first; the last is written to. Never empty.
    segments: VecDeque<Segment>,
    file: Box<dyn File>,
    /// None for a log that an earlier release began and that is still written as that release reads it.
    manifest: Option<Manifest>,
    /// Where the next frame goes.
    offset: u64,
    /// The newest frame written, and the newest known to be durable.
    written: Sequence,
    durable: Sequence,
    sticky: BTreeMap<(RecordStream, u8), WalRecord>,
    released: [u64; RecordStream::ALL.len()],
    /// The length of a released segment that is kept to be the next, if there is one.
    spare_bytes: u64,
    /// Kept between writes for its memory.
    buffer: Vec<u8>,
    failed: bool,
}

/// Reads the log back as an opening does, and goes no further.
pub fn inspect(disk: &dyn Disk, replay: &mut dyn FnMut(WalRecord)) -> Result<RecoveryReport, Error> {
    Ok(recovery::recover(disk, replay)?.report)
}

/// A log that has been read and not been changed.
pub struct WalOpening {
    disk: Arc<dyn Disk>,
    params: WalParams,
    recovered: Recovered,
}

impl WalOpening {
    /// Replays every record in order into `replay`. A sticky record comes again at the head of each later segment.
    pub fn read(
        disk: Arc<dyn Disk>,
        params: WalParams,
        replay: &mut dyn FnMut(WalRecord),
    ) -> Result<WalOpening, Error> {
        let recovered = recovery::recover(&*disk, replay)?;
        Ok(WalOpening { disk, params, recovered })
    }

    pub fn report(&self) -> &RecoveryReport {
        &self.recovered.report
    }

    /// Cuts a torn tail and stands ready to append. `records`, which are sticky, take the place of what is cut in one
    /// write: a crash leaves either the tail as it was found or these records.
    pub fn start(self, records: &[WalRecord]) -> Result<Wal, Error> {
        assert!(records.iter().all(|record| record.sticky.is_some()), "an opening keeps sticky records");
        if self.recovered.segments.is_empty() {
            Wal::create(self.disk, self.params, records)
        } else {
            Wal::resume(self.disk, self.params, self.recovered, records)
        }
    }
}

impl Wal {
    pub fn open(
        disk: Arc<dyn Disk>,
        params: WalParams,
        replay: &mut dyn FnMut(WalRecord),
    ) -> Result<(Wal, RecoveryReport), Error> {
        let opening = WalOpening::read(disk, params, replay)?;
        let report = opening.report().clone();
        Ok((opening.start(&[])?, report))
    }

    /// The manifest comes first, so a segment of this version without one has lost it.
    fn create(disk: Arc<dyn Disk>, params: WalParams, records: &[WalRecord]) -> Result<Wal, Error> {
        let mut buffer = Vec::new();
        let first = Sequence::NONE.next_opening();
        let head = SegmentHead {
            version: segment::VERSION,
            id: 1,
            sequence: first,
            durable: Sequence::NONE,
            frame_bytes: 0,
        };
        let mut manifest = match manifest::open(&*disk)? {
            Some(manifest) => manifest,
            None => Manifest::create(&*disk, SegmentListing::EMPTY)?,
        };
        let mut sticky = BTreeMap::new();
        note_sticky(&mut sticky, records);
        let started = head.start(&*disk, params, &sticky, &mut buffer)?;
        manifest.set(SegmentListing { first: 1, last: 1, newest_bytes: started.segment.len })?;
        Ok(Wal {
            spare_bytes: 0,
            disk,
            params,
            segments: VecDeque::from([started.segment]),
            file: started.file,
            manifest: Some(manifest),
            offset: started.offset,
            written: first,
            durable: first,
            sticky,
            released: [0; RecordStream::ALL.len()],
            buffer,
            failed: false,
        })
    }

    /// Goes on in the newest segment, with the first frame of a new opening: see the argument in `recovery`.
    fn resume(
        disk: Arc<dyn Disk>,
        params: WalParams,
        recovered: Recovered,
        records: &[WalRecord],
    ) -> Result<Wal, Error> {
        let newest = recovered.segments.back().expect("there is a segment to go on in");
        let (name, len) = (newest.name.clone(), newest.len);
        let file = disk.open(&name).map_err(Error::io("open", &name))?;
        if let Some(shortened) = &recovered.report.shortened {
            segment::write_zeroes(&*file, &name, shortened.found_bytes, shortened.listed_bytes)?;
        }
        // The replayed records may so far be only in the page cache, if the process died and the machine did not;
        // and if it died of a failed sync, only a new write makes the kernel take it to the disk.
        let tail = recovered.tail;
        segment::write(&*file, tail.offset, &tail.bytes).map_err(Error::io("write", &name))?;
        file.sync().map_err(Error::io("sync", &name))?;
        let manifest = if recovered.is_of_earlier_release {
            manifest::remove(&*disk)?;
            None
        } else {
            Some(resume_manifest(&*disk, &recovered.segments, &recovered.given_up)?)
        };
        let mut sticky = recovered.sticky;
        note_sticky(&mut sticky, records);
        let mut wal = Wal {
            spare_bytes: segment::spare_bytes(&*disk)?,
            disk,
            params,
            segments: recovered.segments,
            file,
            manifest,
            offset: recovered.end,
            written: recovered.last,
            durable: recovered.last,
            sticky,
            released: [0; RecordStream::ALL.len()],
            buffer: Vec::new(),
            failed: false,
        };
        let opening = wal.written.next_opening();
        if !wal.fits(frame::encoded_len(records)) {
            wal.roll(opening, 0)?;
            return Ok(wal);
        }
        wal.append(opening, records)?;
        wal.sync()?;
        if recovered.report.torn.is_some() {
            segment::write_zeroes(&*wal.file, &name, wal.offset, len)?;
        }
        Ok(wal)
    }

    /// Writes one batch behind the last, in one call to the disk. Durable only after `sync`.
    pub fn write(&mut self, records: &[WalRecord]) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        self.unless_failed(|wal| {
            let len = frame::encoded_len(records);
            if !wal.fits(len) {
                wal.sync_file()?;
                wal.roll(wal.written.next(), len)?;
            }
            wal.append(wal.written.next(), records)
        })
    }

    /// Makes everything written so far durable.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.unless_failed(Wal::sync_file)
    }

    /// Makes everything written so far durable, and records that behind it: later damage to it is then recognised as
    /// damage, and not taken for a torn write.
    pub fn seal(&mut self) -> Result<(), Error> {
        self.unless_failed(|wal| {
            wal.sync_file()?;
            let next = wal.written.next();
            if wal.fits(frame::encoded_len(&[])) {
                wal.append(next, &[])?;
                wal.sync_file()
            } else {
                wal.roll(next, 0)
            }
        })
    }

    /// Everything of `stream` at or below `position` is no longer needed. Segments that no stream needs are released,
    /// oldest first; their records may still come again at the next open, if the power goes now.
    pub fn release(&mut self, stream: RecordStream, position: u64) -> Result<(), Error> {
        let released = &mut self.released[segment::slot(stream)];
        *released = position.max(*released);
        self.unless_failed(|wal| {
            let older = wal.segments.len() - 1;
            let n_released =
                wal.segments.iter().take(older).take_while(|oldest| wal.is_released(oldest)).count();
            if let Some(manifest) = wal.manifest.as_mut().filter(|_| n_released > 0) {
                let first = wal.segments[n_released].id;
                manifest.set(SegmentListing { first, ..manifest.listing() })?;
            }
            for _ in 0..n_released {
                let oldest = wal.segments.pop_front().expect("there are more than were released");
                wal.give_up(&oldest)?;
            }
            Ok(())
        })
    }

    /// Whether the release before the manifest can read this log.
    pub fn is_of_earlier_release(&self) -> bool {
        self.manifest.is_none()
    }

    /// Gives a log of an earlier release a manifest, and goes on in a segment of this version, which that release
    /// refuses. What was written is durable afterwards.
    pub fn upgrade(&mut self) -> Result<(), Error> {
        self.unless_failed(|wal| {
            if wal.manifest.is_some() {
                return Ok(());
            }
            wal.sync_file()?;
            wal.manifest = Some(Manifest::create(&*wal.disk, listing_of(&wal.segments))?);
            wal.roll(wal.written.next(), 0)
        })
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of all segments on the disk, used or not.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// The bytes that the next segment can take without new disk space.
    pub fn spare_bytes(&self) -> u64 {
        self.spare_bytes
    }

    /// Whether a batch of payloads of these lengths goes into the newest segment. A batch that does not fit may have
    /// to wait for disk space.
    pub fn has_space_for(&self, payload_lens: impl Iterator<Item = usize>) -> bool {
        let newest = self.segments.back().expect("a log has at least one segment");
        self.offset + frame::len_of(payload_lens) as u64 <= newest.len
    }

    /// True when something written is not yet durable.
    pub fn needs_sync(&self) -> bool {
        self.durable < self.written
    }

    /// After a failure the contents of the disk are unknown, so a new process must read the log again.
    fn unless_failed(&mut self, act: impl FnOnce(&mut Wal) -> Result<(), Error>) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned);
        }
        let result = act(self);
        self.failed = result.is_err();
        result
    }

    fn newest(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a log has at least one segment")
    }

    fn fits(&mut self, len: usize) -> bool {
        self.offset + len as u64 <= self.newest().len
    }

    fn append(&mut self, sequence: Sequence, records: &[WalRecord]) -> Result<(), Error> {
        let place = FrameAddress { file_id: self.newest().id, offset: self.offset };
        self.buffer.clear();
        frame::encode(place, sequence, self.durable, records, &mut self.buffer);
        let segment = self.segments.back_mut().expect("a log has at least one segment");
        segment::write(&*self.file, self.offset, &self.buffer).map_err(Error::io("write", &segment.name))?;
        self.offset += self.buffer.len() as u64;
        self.written = sequence;
        for record in records {
            segment.note(record);
        }
        note_sticky(&mut self.sticky, records);
        Ok(())
    }

    fn sync_file(&mut self) -> Result<(), Error> {
        if self.needs_sync() {
            let name = &self.segments.back().expect("a log has at least one segment").name;
            self.file.sync().map_err(Error::io("sync", name))?;
            self.durable = self.written;
        }
        Ok(())
    }

    /// Begins the next segment, with space for a frame of `frame_bytes`. Everything before has been synced.
    fn roll(&mut self, sequence: Sequence, frame_bytes: usize) -> Result<(), Error> {
        let has_manifest = self.manifest.is_some();
        let version = if has_manifest { segment::VERSION } else { segment::VERSION_WITHOUT_MANIFEST };
        let id = self.newest().id + 1;
        let head = SegmentHead { version, id, sequence, durable: self.durable, frame_bytes };
        let started = head.start(&*self.disk, self.params, &self.sticky, &mut self.buffer)?;
        if let Some(manifest) = &mut self.manifest {
            let listing = manifest.listing();
            let (last, newest_bytes) = (started.segment.id, started.segment.len);
            manifest.set(SegmentListing { last, newest_bytes, ..listing })?;
        }
        self.segments.push_back(started.segment);
        self.spare_bytes = segment::spare_bytes(&*self.disk)?;
        self.file = started.file;
        self.offset = started.offset;
        self.written = sequence;
        self.durable = sequence;
        Ok(())
    }

    fn is_released(&self, segment: &Segment) -> bool {
        segment.highest.iter().zip(&self.released).all(|(highest, released)| highest <= released)
    }

    /// The names change one by one, each durable before the next, so that no crash leaves a gap in them.
    fn give_up(&mut self, oldest: &Segment) -> Result<(), Error> {
        let (name, WalParams { segment_bytes, spares_max }) = (&oldest.name, self.params);
        let spare = if oldest.len == segment_bytes {
            segment::spare_name(&*self.disk, segment_bytes, spares_max)?
        } else {
            None
        };
        match spare {
            Some(spare) => self.disk.rename(name, spare).map_err(Error::io("rename", name))?,
            None => self.disk.remove(name).map_err(Error::io("remove", name))?,
        }
        self.disk.sync_dir().map_err(Error::io("sync the directory of", name))?;
        self.spare_bytes = segment::spare_bytes(&*self.disk)?;
        Ok(())
    }
}

fn note_sticky(sticky: &mut BTreeMap<(RecordStream, u8), WalRecord>, records: &[WalRecord]) {
    for record in records {
        if let Some(kind) = record.sticky {
            sticky.insert((record.stream, kind), record.clone());
        }
    }
}

fn listing_of(segments: &VecDeque<Segment>) -> SegmentListing {
    let (oldest, newest) = segments.front().zip(segments.back()).expect("a log has at least one segment");
    SegmentListing { first: oldest.id, last: newest.id, newest_bytes: newest.len }
}

/// The manifest lists what was found, and files that it no longer lists go: a crash may have come between.
fn resume_manifest(
    disk: &dyn Disk,
    segments: &VecDeque<Segment>,
    given_up: &[String],
) -> Result<Manifest, Error> {
    let found = listing_of(segments);
    let manifest = match manifest::open(disk)? {
        Some(mut manifest) => {
            manifest.set(found)?;
            manifest
        }
        None => Manifest::create(disk, found)?,
    };
    for name in given_up {
        disk.remove(name).map_err(Error::io("remove", name))?;
        disk.sync_dir().map_err(Error::io("sync the directory of", name))?;
    }
    Ok(manifest)
}

/// The beginning of a segment: its header and its first frame, which repeats the sticky records.
struct SegmentHead {
    version: u32,
    id: u64,
    sequence: Sequence,
    durable: Sequence,
    frame_bytes: usize,
}

struct StartedSegment {
    segment: Segment,
    file: Box<dyn File>,
    offset: u64,
}

impl SegmentHead {
    /// Makes the segment: its file under its name, then header and first frame, all durable.
    fn start(
        self,
        disk: &dyn Disk,
        params: WalParams,
        sticky: &BTreeMap<(RecordStream, u8), WalRecord>,
        buffer: &mut Vec<u8>,
    ) -> Result<StartedSegment, Error> {
        let records: Vec<WalRecord> = sticky.values().cloned().collect();
        let place = FrameAddress { file_id: self.id, offset: HEADER_BYTES };
        buffer.clear();
        segment::encode_header(self.version, self.id, self.sequence, buffer);
        frame::encode(place, self.sequence, self.durable, &records, buffer);
        let offset = buffer.len() as u64;
        let len_needed = params.segment_bytes.max(offset + self.frame_bytes as u64);
        let (file, len) = segment::place_file(disk, self.id, len_needed, params.segment_bytes)?;
        let segment = Segment::new(self.id, len);
        segment::write(&*file, 0, buffer).map_err(Error::io("write", &segment.name))?;
        file.sync().map_err(Error::io("sync", &segment.name))?;
        Ok(StartedSegment { segment, file, offset })
    }
}
