//! Reading the log back: every frame in order, and a judgement about the place where they end.
//! In: the directory; out: the records, and where writing goes on. The log is left as it was, except that a
//! segment whose creation was interrupted is removed.
//! A frame that had been durable is never dropped without an error.
//!
//! # How a torn tail is told from damage
//!
//! A frame carries `durable`, the newest frame that was known to be durable when it was written. Suppose that the
//! frames end at P, the last good one being S. If any valid frame anywhere behind P says `durable > S`, then the
//! frame behind S, which began at P, had been durable: this is damage, and the member must be replaced. If none says
//! so, what lay at P was never acknowledged: a torn tail, cut off. The last frames of a log have no successor that
//! confirms them, unless the log was sealed behind them; damage to them cannot be told from a torn tail, so
//! `LostFrames::LastFrame` is reported, and the owner of the log must not rely on having everything that it acknowledged.
//!
//! # How files that are gone or cut short are told from the end
//!
//! The manifest lists the segments and the length of the newest; a listed segment that is missing is damage, and so is an
//! older one without its last frames, which its successor names. The newest segment may have been cut at any frame:
//! then what is left is replayed, and `LostFrames::Unknown` is reported if frames may be gone.
//!
//! # Why a failed sync cannot leave a hole
//!
//! After a failed sync the kernel may drop what it could not write and still show it to readers: a process that
//! restarts on the same machine replays frames that no later sync will bring to the disk. So an opening writes again,
//! byte for byte, everything that no later frame confirms, and syncs that.
//!
//! # Why nothing that was cut can come back
//!
//! Behind the cut there may be whole frames (writes are reordered) and fragments of frames (they are torn)
//! which a later write could complete or lead up to. They are overwritten with zeroes, but that write may be
//! torn too, so it is not what we rely on. We rely on this:
//!
//! 1. Recovery accepts a frame only if its sequence is above that of the frame before it.
//! 2. Before anything else, an opening syncs the tail it found and then writes one frame at P, whose sequence
//!    is `OPENING_GAP` above S, and syncs it. Everything unsynced of earlier openings has a lower sequence:
//!    it was written behind S, fewer than `OPENING_GAP` frames long. So nothing old can follow that frame.
//! 3. If that first frame is itself lost, the next opening finds the same S (it was synced before) and writes
//!    the same bytes at the same place; a mixture of the two is the frame itself.
//! 4. Within one opening no place is written twice with different bytes, so nothing is mixed there.
//! 5. A recycled segment has a new file id, which is part of every checksum and of every frame's first word;
//!    a segment whose creation failed is removed and never recycled, so no file meets its own id again.

use super::frame::{self, Frame, FrameAddress, NoFrame, Sequence};
use super::manifest::{self, SegmentListing};
use super::record::{RecordStream, WalRecord};
use super::segment::{self, FRESH_NAME, HEADER_BYTES, Segment};
use crate::disk::Disk;
use crate::error::Error;
use crate::mutant::Mutant;
use base::mutant::planted;
use std::collections::{BTreeMap, VecDeque};

/// What an opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Where a tail was cut off that no later frame confirms.
    pub torn: Option<TornTail>,
    /// The newest segment is shorter than the manifest says.
    pub shortened: Option<ShortenedSegment>,
    pub lost: LostFrames,
    /// A segment whose creation was interrupted was removed.
    pub unfinished_segment: bool,
    pub segments: u64,
    pub frames: u64,
    pub records: u64,
    /// Bytes of frames.
    pub bytes: u64,
    /// The newest frame that holds records.
    pub newest: Option<FrameLocation>,
}

/// Where a frame lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLocation {
    pub file: String,
    pub offset: u64,
    pub len: u64,
}

/// What may be missing of the acknowledged frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostFrames {
    #[default]
    Nothing,
    /// Frames behind the last one that was sealed or is confirmed by a later frame.
    LastFrame,
    /// Any number of frames at the end.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortenedSegment {
    pub file: String,
    pub found_bytes: u64,
    pub listed_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub file: String,
    pub offset: u64,
}

/// The state from which writing goes on.
pub struct Recovered {
    pub report: RecoveryReport,
    pub segments: VecDeque<Segment>,
    /// The newest segment has the format of a release that kept no manifest.
    pub is_of_earlier_release: bool,
    /// Files of segments that the manifest no longer lists.
    pub given_up: Vec<String>,
    /// Where the frames end in the newest segment.
    pub end: u64,
    pub last: Sequence,
    pub sticky: BTreeMap<(RecordStream, u8), WalRecord>,
    /// Frames of the newest segment that no later frame confirms, with their offsets.
    unvouched: VecDeque<(Sequence, u64)>,
    /// The bytes from the first of them to the end of the frames, and where they begin.
    pub tail: UnvouchedTail,
}

/// What an opening writes again before it relies on it.
#[derive(Default)]
pub struct UnvouchedTail {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

pub fn recover(disk: &dyn Disk, replay: &mut dyn FnMut(WalRecord)) -> Result<Recovered, Error> {
    let names = disk.list().map_err(Error::io("list", "the data directory"))?;
    if names.iter().any(|name| name == FRESH_NAME) {
        disk.remove(FRESH_NAME).map_err(Error::io("remove", FRESH_NAME))?;
    }
    let listing = listing_that_counts(disk, &segment::ids(&names))?;
    let (given_up, mut ids): (Vec<u64>, Vec<u64>) =
        segment::ids(&names).into_iter().partition(|id| listing.is_some_and(|listing| *id < listing.first));
    check_all_present(&ids, listing)?;
    let mut recovered = Recovered {
        report: RecoveryReport::default(),
        segments: VecDeque::new(),
        is_of_earlier_release: false,
        given_up: given_up.into_iter().map(segment::name).collect(),
        end: 0,
        last: Sequence::NONE,
        sticky: BTreeMap::new(),
        unvouched: VecDeque::new(),
        tail: UnvouchedTail::default(),
    };
    let is_listed = |id: u64| listing.is_some_and(|listing| listing.last >= id);
    if let Some(newest) = ids.last().copied()
        && is_unfinished(&read_file(disk, newest)?, newest, ids.len() > 1, is_listed(newest))?
    {
        remove_unfinished(disk, newest)?;
        recovered.report.unfinished_segment = true;
        ids.pop();
    }
    for id in &ids {
        let newest = (Some(id) == ids.last()).then_some(listing);
        recovered.replay_segment(disk, *id, newest, replay)?;
    }
    Ok(recovered)
}

/// A manifest beside a newest segment of an earlier release is one whose log was about to be upgraded, and may be out of date:
/// that release may have gone on. One that lists a later segment is not: then that segment is gone.
fn listing_that_counts(disk: &dyn Disk, ids: &[u64]) -> Result<Option<SegmentListing>, Error> {
    let (Some(listing), Some(newest)) = (manifest::read(disk)?, ids.last().copied()) else {
        return manifest::read(disk);
    };
    let header = segment::check_header(&read_file(disk, newest)?, newest)?;
    let is_old = header.is_some_and(|header| header.version == segment::VERSION_WITHOUT_MANIFEST);
    Ok(Some(listing).filter(|listing| !is_old || listing.last > newest))
}

/// Ids are without a gap, and everything that is listed is there. A segment that is not listed yet may be there as well.
fn check_all_present(ids: &[u64], listing: Option<SegmentListing>) -> Result<(), Error> {
    let missing = |id: u64| Err(Error::Missing { file: segment::name(id) });
    if let Some(pair) = ids.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        return missing(pair[0] + 1);
    }
    let Some(SegmentListing { first, last, .. }) = listing else { return Ok(()) };
    if first > last || planted(Mutant::MissingSegmentAccepted) {
        return Ok(());
    }
    match (ids.first(), ids.last()) {
        (Some(oldest), Some(newest)) if *oldest == first && *newest >= last => Ok(()),
        (Some(oldest), _) if *oldest == first => missing(last),
        _ => missing(first),
    }
}

impl Recovered {
    /// `newest` is set for the newest segment, with what the manifest says, if there is one.
    fn replay_segment(
        &mut self,
        disk: &dyn Disk,
        id: u64,
        newest: Option<Option<SegmentListing>>,
        replay: &mut dyn FnMut(WalRecord),
    ) -> Result<(), Error> {
        let mut bytes = read_file(disk, id)?;
        let header = segment::check_header(&bytes, id)?;
        let header = header.ok_or_else(|| corrupt(id, 0, "the header of a segment does not match"))?;
        let is_of_earlier_release = header.version == segment::VERSION_WITHOUT_MANIFEST;
        if !is_of_earlier_release && newest == Some(None) {
            return Err(Error::Missing { file: manifest::NAME.to_owned() });
        }
        self.check_head(&bytes, id, header.first)?;
        let found_bytes = bytes.len() as u64;
        if let Some(listing) = newest.flatten().filter(|listing| listing.last == id) {
            self.lengthen(&mut bytes, id, listing.newest_bytes);
        }
        self.segments.push_back(Segment::new(id, bytes.len() as u64));
        self.end = HEADER_BYTES;
        self.unvouched.clear();
        let no_frame = loop {
            match frame::check_replayed(&bytes, FrameAddress { file_id: id, offset: self.end }) {
                Ok(frame) if frame.sequence > self.last => self.replay_frame(frame, replay),
                Ok(_) => break NoFrame::Nothing,
                Err(no_frame) => break no_frame,
            }
        };
        self.report.segments += 1;
        if newest.is_some() {
            self.is_of_earlier_release = is_of_earlier_release;
            self.tail = self.unvouched_tail(&bytes);
            self.check_tail(&bytes, id, no_frame)?;
            self.check_loss(found_bytes);
        }
        Ok(())
    }

    /// What was cut off the file reads as zeroes.
    fn lengthen(&mut self, bytes: &mut Vec<u8>, id: u64, listed_bytes: u64) {
        let found_bytes = bytes.len() as u64;
        if found_bytes < listed_bytes && !planted(Mutant::ShortSegmentAccepted) {
            bytes.resize(listed_bytes as usize, 0);
            self.report.shortened =
                Some(ShortenedSegment { file: segment::name(id), found_bytes, listed_bytes });
        }
    }

    /// A segment of an earlier release was never sealed. One that was cut short behind its frames has lost none: where a
    /// frame would begin, nothing was begun.
    fn check_loss(&mut self, found_bytes: u64) {
        let is_cut = self.report.shortened.is_some() && self.end + frame::HEAD_BYTES as u64 > found_bytes;
        let is_torn = self.report.torn.is_some();
        self.report.lost = if !is_torn && !is_cut {
            LostFrames::Nothing
        } else if self.report.shortened.is_some() || self.is_of_earlier_release {
            LostFrames::Unknown
        } else {
            LostFrames::LastFrame
        };
    }

    /// The header was synced together with the first frame.
    fn unvouched_tail(&self, bytes: &[u8]) -> UnvouchedTail {
        let offset = match self.unvouched.front() {
            Some((_, HEADER_BYTES)) => 0,
            Some((_, offset)) => *offset,
            None => self.end,
        };
        UnvouchedTail { offset, bytes: bytes[offset as usize..self.end as usize].to_vec() }
    }

    /// The first frame of a segment was written when everything before it had been synced, so it tells what
    /// the segment before must end with.
    fn check_head(&self, bytes: &[u8], id: u64, first: Sequence) -> Result<(), Error> {
        let head = frame::check(bytes, FrameAddress { file_id: id, offset: HEADER_BYTES })
            .ok()
            .filter(|head| head.sequence == first)
            .ok_or_else(|| corrupt(id, HEADER_BYTES, "the first frame of a segment does not match"))?;
        match self.segments.back() {
            Some(before) if head.durable != self.last => {
                Err(corrupt(before.id, self.end, "frames are missing before the next segment"))
            }
            _ => Ok(()),
        }
    }

    fn replay_frame(&mut self, frame: Frame, replay: &mut dyn FnMut(WalRecord)) {
        self.report.frames += 1;
        self.report.records += frame.records.len() as u64;
        self.report.bytes += frame.len;
        self.unvouched.push_back((frame.sequence, self.end));
        while self.unvouched.pop_front_if(|(sequence, _)| *sequence <= frame.durable).is_some() {}
        let segment = self.segments.back_mut().expect("the segment being read was pushed before");
        if !frame.records.is_empty() {
            self.report.newest =
                Some(FrameLocation { file: segment.name.clone(), offset: self.end, len: frame.len });
        }
        self.end += frame.len;
        self.last = frame.sequence;
        for record in frame.records {
            segment.note(&record);
            if let Some(kind) = record.sticky {
                self.sticky.insert((record.stream, kind), record.clone());
            }
            replay(record);
        }
    }

    fn check_tail(&mut self, bytes: &[u8], id: u64, no_frame: NoFrame) -> Result<(), Error> {
        let place = FrameAddress { file_id: id, offset: self.end };
        let mut torn = no_frame != NoFrame::Nothing || frame::has_lost_its_tag(bytes, place);
        for frame in frames_behind(bytes, id, self.end).filter(|frame| frame.sequence > self.last) {
            if frame.durable > self.last {
                let reason = match no_frame {
                    NoFrame::Broken(reason) => reason,
                    NoFrame::Nothing => "a frame is missing",
                };
                return Err(corrupt(id, self.end, reason));
            }
            torn = true;
        }
        self.report.torn = torn.then(|| TornTail { file: segment::name(id), offset: self.end });
        Ok(())
    }
}

/// True when the creation of the newest segment did not come to its end. Its header and first frame are
/// synced before it is listed, before anything else is written to it and before an older segment is given up, so any of
/// these proves that they were whole once.
fn is_unfinished(bytes: &[u8], id: u64, has_older: bool, is_listed: bool) -> Result<bool, Error> {
    let header = segment::check_header(bytes, id)?;
    let head = frame::check(bytes, FrameAddress { file_id: id, offset: HEADER_BYTES });
    match (header, head) {
        (Some(_), Ok(_)) => return Ok(false),
        (None, Ok(_)) => return Err(corrupt(id, 0, "the header of a segment does not match")),
        (_, Err(_)) => {}
    }
    let was_whole =
        is_listed || frames_behind(bytes, id, HEADER_BYTES).next().is_some() || !(has_older || id == 1);
    if was_whole {
        let offset = if header.is_some() { HEADER_BYTES } else { 0 };
        return Err(corrupt(id, offset, "the beginning of a segment does not match"));
    }
    Ok(true)
}

/// All valid frames that begin behind `offset`, wherever they begin.
fn frames_behind(bytes: &[u8], id: u64, offset: u64) -> impl Iterator<Item = Frame> + '_ {
    (offset..bytes.len() as u64)
        .step_by(frame::ALIGN)
        .skip(1)
        .filter_map(move |offset| frame::check(bytes, FrameAddress { file_id: id, offset }).ok())
}

fn remove_unfinished(disk: &dyn Disk, id: u64) -> Result<(), Error> {
    let name = segment::name(id);
    disk.remove(&name).map_err(Error::io("remove the unfinished segment", &name))?;
    disk.sync_dir().map_err(Error::io("sync the directory of", &name))
}

fn read_file(disk: &dyn Disk, id: u64) -> Result<Vec<u8>, Error> {
    let name = segment::name(id);
    let file = disk.open(&name).map_err(Error::io("open", &name))?;
    let len = file.len().map_err(Error::io("measure", &name))?;
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes).map_err(Error::io("read", &name))?;
    Ok(bytes)
}

fn corrupt(id: u64, offset: u64, reason: &'static str) -> Error {
    Error::Corrupt { file: segment::name(id), offset, reason }
}
