//! Torn tails are cut; damage to what was durable is an error that names its place.

use super::*;

/// Three frames, each synced; where each begins, and where the last ends.
fn three_frames(seed: u64) -> (SimDisk, String, [u64; 4]) {
    let disk = SimDisk::new(seed);
    let mut wal = open(&disk).wal;
    let mut starts = [0; 4];
    for position in 1..=3 {
        starts[position - 1] = wal.offset;
        wal.write(&[entry(position as u64, &[0xa5; 40])]).unwrap();
        wal.sync().unwrap();
    }
    starts[3] = wal.offset;
    let name = wal.newest().name.clone();
    (disk, name, starts)
}

#[track_caller]
fn assert_corrupt(disk: &SimDisk, file: &str, offset: u64) {
    match try_open(disk).map(|opened| positions(&opened.records)) {
        Err(error @ Error::Corrupt { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&format!("{file} is damaged at byte {offset}:")), "{text}");
            assert!(error.is_damage());
        }
        other => panic!("expected damage at {offset} of {file}, got {other:?}"),
    }
}

#[test]
fn a_torn_tail_is_cut_wherever_it_was_torn() {
    let (_, _, starts) = three_frames(0);
    for cut in starts[2]..starts[3] {
        let (disk, name, starts) = three_frames(cut);
        let file = disk.open(&name).unwrap();
        file.write_at(cut, &vec![0; (starts[3] - cut) as usize]).unwrap();
        file.sync().unwrap();
        let mut opened = open(&disk);
        assert_eq!(positions(&opened.records), [1, 2], "cut at {cut}");
        // Before the fourth byte there is nothing to see.
        let torn = (cut >= starts[2] + 4).then(|| TornTail { file: name.clone(), offset: starts[2] });
        assert_eq!(opened.recovery.torn, torn, "cut at {cut}");
        opened.wal.write(&[entry(3, b"again")]).unwrap();
        opened.wal.sync().unwrap();
        disk.crash();
        let opened = open(&disk);
        assert_eq!(positions(&opened.records), [1, 2, 3]);
        assert_eq!(opened.recovery.torn, None, "a cut tail is not reported again");
    }
}

#[test]
fn a_flipped_bit_in_what_was_durable_is_damage() {
    let (_, _, starts) = three_frames(0);
    for at in starts[0]..starts[2] {
        let (disk, name, starts) = three_frames(at);
        disk.flip_bit(&name, at);
        let frame = if at < starts[1] { starts[0] } else { starts[1] };
        assert_corrupt(&disk, &name, frame);
    }
}

#[test]
fn a_flipped_bit_in_the_beginning_of_a_segment_is_damage() {
    let (_, _, starts) = three_frames(0);
    for at in 0..starts[0] {
        let (disk, name, _) = three_frames(at);
        disk.flip_bit(&name, at);
        let offset = if at < HEADER_BYTES { 0 } else { HEADER_BYTES };
        assert_corrupt(&disk, &name, offset);
    }
}

#[test]
fn a_flipped_bit_in_the_last_frame_passes_as_a_torn_tail() {
    let (_, _, starts) = three_frames(0);
    for at in starts[2]..starts[3] {
        let (disk, name, _) = three_frames(at);
        disk.flip_bit(&name, at);
        assert_eq!(positions(&open(&disk).records), [1, 2]);
    }
}

#[test]
fn a_lost_sector_in_the_middle_is_damage() {
    let (disk, name, starts) = three_frames(1);
    let file = disk.open(&name).unwrap();
    file.write_at(starts[0], &vec![0; (starts[2] - starts[0]) as usize]).unwrap();
    assert_corrupt(&disk, &name, starts[0]);
}

/// The dangerous case: of five unsynced frames the first is lost and the last survives; the new opening then
/// writes a frame that ends exactly where the survivor begins, and the zeroes written over it are lost too.
#[test]
fn a_frame_that_was_cut_does_not_come_back() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    wal.write(&[entry(1, b"durable")]).unwrap();
    wal.sync().unwrap();
    let mut starts = Vec::new();
    for position in 2..=6 {
        starts.push(wal.offset);
        wal.write(&[entry(position, &[0xa5; 48])]).unwrap();
    }
    let name = wal.newest().name.clone();
    let (lost, survivor, end) = (starts[0], starts[4], wal.offset);
    let file = disk.open(&name).unwrap();
    let mut remains = vec![0; (end - survivor) as usize];
    file.read_at(survivor, &mut remains).unwrap();
    file.write_at(lost, &vec![0; (starts[1] - lost) as usize]).unwrap();

    let mut opened = open(&disk);
    assert_eq!(positions(&opened.records), [1]);
    assert_eq!(opened.recovery.torn, Some(TornTail { file: name.clone(), offset: lost }));
    let mut zeroed = vec![1; remains.len()];
    file.read_at(survivor, &mut zeroed).unwrap();
    assert!(zeroed.iter().all(|byte| *byte == 0));
    file.write_at(survivor, &remains).unwrap();

    let overhead = 48;
    let len = (survivor - opened.wal.offset - overhead) as usize;
    opened.wal.write(&[entry(2, &vec![7; len])]).unwrap();
    opened.wal.sync().unwrap();
    assert_eq!(opened.wal.offset, survivor);
    assert_eq!(positions(&open(&disk).records), [1, 2]);
}

/// A log over several segments; the names of all but the newest.
fn several_segments() -> (SimDisk, Vec<String>) {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    for position in 1..30 {
        wal.write(&[entry(position, &[9; 600])]).unwrap();
    }
    wal.sync().unwrap();
    let names: Vec<_> = wal.segments.iter().map(|segment| segment.name.clone()).collect();
    (disk, names)
}

#[test]
fn damage_to_the_end_of_an_older_segment_is_found_by_the_next() {
    let (disk, names) = several_segments();
    // Header and head frame take 64 bytes and each frame 648, so six frames fill a segment.
    let last_frame = 64 + 5 * 648;
    disk.flip_bit(&names[1], last_frame + 100);
    assert_corrupt(&disk, &names[1], last_frame);
}

#[test]
fn a_missing_segment_is_damage_wherever_it_lay() {
    let (disk, names) = several_segments();
    for name in &names {
        let disk = disk.fork();
        disk.remove_durably(name);
        match try_open(&disk).map(|opened| opened.records.len()) {
            Err(Error::Missing { file }) => assert_eq!(file, *name),
            other => panic!("expected that {name} is missed, got {other:?}"),
        }
    }
    for name in names.iter().map(String::as_str).chain([MANIFEST_NAME]) {
        disk.remove_durably(name);
    }
    assert!(open(&disk).records.is_empty(), "without any file there is no log");
}

#[test]
fn a_lone_segment_without_a_beginning_is_damage_unless_it_is_the_first() {
    let (disk, _) = several_segments();
    let mut wal = open(&disk).wal;
    wal.release(RecordStream::Raft, 100).unwrap();
    let name = wal.newest().name.clone();
    assert_eq!(wal.segments(), 1);
    disk.open(&name).unwrap().write_at(0, &[0; SEGMENT_BYTES as usize]).unwrap();
    assert_corrupt(&disk, &name, 0);
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (disk, name, _) = three_frames(1);
    let file = disk.open(&name).unwrap();
    let mut header = vec![0; HEADER_BYTES as usize];
    file.read_at(0, &mut header).unwrap();
    header[8] = 9;
    let crc = base::checksum::crc32(&[&header[..12], &header[16..]]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    file.write_at(0, &header).unwrap();
    assert!(matches!(try_open(&disk), Err(Error::Version { found: 9, known: 2, .. })));
}

#[test]
fn a_frame_is_not_accepted_at_another_place_or_in_another_file() {
    let mut bytes = vec![0; 64];
    let place = FrameAddress { file_id: 3, offset: 64 };
    frame::encode(place, Sequence(9), Sequence(8), &[entry(1, b"abc")], &mut bytes);
    assert_eq!(frame::check(&bytes, place).unwrap().records, [entry(1, b"abc")]);
    assert!(frame::check(&bytes, FrameAddress { file_id: 4, ..place }).is_err());
    let moved = bytes[64..].to_vec();
    assert!(frame::check(&moved, FrameAddress { offset: 0, ..place }).is_err());
}

proptest::proptest! {
    #[test]
    fn a_frame_of_any_bytes_is_read_without_a_panic(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        len in proptest::prelude::any::<u32>(),
        count in proptest::prelude::any::<u32>(),
    ) {
        // A frame whose tag is right and the rest is noise.
        let place = FrameAddress { file_id: 1, offset: 0 };
        let mut bytes = Vec::new();
        frame::encode(place, Sequence(1), Sequence(0), &[], &mut bytes);
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..16].copy_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&body);
        let _ = frame::check(&bytes, place);
        let _ = frame::check(&body, place);
    }
}

/// The planted bug does what its name says, so that a checker has something to find.
#[test]
fn the_planted_bug_accepts_a_torn_frame() {
    use crate::mutant::Mutant;
    use base::mutant::plant;
    let (disk, name, starts) = three_frames(1);
    let file = disk.open(&name).unwrap();
    file.write_at(starts[3] - 8, &[0; 8]).unwrap();
    plant(Some(Mutant::TornTailAccepted.into()));
    let opened = open(&disk);
    plant(None);
    assert_eq!(positions(&opened.records), [1, 2, 3]);
    assert_ne!(opened.records[2], entry(3, &[0xa5; 40]));
}

#[test]
fn a_missing_manifest_is_damage_and_one_without_segments_is_a_log_that_was_not_begun() {
    let (disk, _) = several_segments();
    disk.remove_durably(MANIFEST_NAME);
    assert!(matches!(try_open(&disk).map(drop), Err(Error::Missing { file }) if file == MANIFEST_NAME));
    let disk = SimDisk::new(1);
    Manifest::create(&disk, SegmentListing::EMPTY).unwrap();
    assert!(open(&disk).records.is_empty());
}

/// Wherever the file ends: what is whole is replayed, and what may be missing is reported.
#[test]
fn a_segment_that_was_cut_short_is_noticed() {
    let (_, _, starts) = three_frames(0);
    for len in (starts[0]..SEGMENT_BYTES).step_by(4) {
        let (disk, name, starts) = three_frames(1);
        disk.truncate_durably(&name, len);
        let mut opened = open(&disk);
        let whole = starts[1..].iter().filter(|end| **end <= len).count() as u64;
        assert_eq!(positions(&opened.records), (1..=whole).collect::<Vec<_>>(), "cut at {len}");
        let shortened =
            ShortenedSegment { file: name.clone(), found_bytes: len, listed_bytes: SEGMENT_BYTES };
        assert_eq!(opened.recovery.shortened, Some(shortened));
        let lost = if len < starts[3] + frame::HEAD_BYTES as u64 {
            LostFrames::Unknown
        } else {
            LostFrames::Nothing
        };
        assert_eq!(opened.recovery.lost, lost, "cut at {len}");
        opened.wal.write(&[entry(whole + 1, b"again")]).unwrap();
        opened.wal.sync().unwrap();
        disk.crash();
        let opened = open(&disk);
        assert_eq!(positions(&opened.records).last(), Some(&(whole + 1)));
        assert_eq!(opened.recovery.shortened, None, "it has its length again");
    }
}

#[test]
fn a_beginning_that_was_cut_short_is_damage() {
    let (_, _, starts) = three_frames(0);
    for len in 0..starts[0] {
        let (disk, name, _) = three_frames(1);
        disk.truncate_durably(&name, len);
        assert!(matches!(try_open(&disk).map(drop), Err(Error::Corrupt { .. })), "cut at {len}");
    }
}

#[test]
fn what_was_sealed_is_never_taken_for_torn() {
    let (_, _, starts) = three_frames(0);
    for at in starts[2]..starts[3] {
        let (disk, name, _) = three_frames(at);
        open(&disk).wal.seal().unwrap();
        disk.flip_bit(&name, at);
        assert_corrupt(&disk, &name, starts[2]);
    }
}

/// The records of an opening are in the place of the torn tail, or the tail is still there.
#[test]
fn an_opening_that_is_cut_down_leaves_its_records_or_what_it_found() {
    for seed in 0..200 {
        let (disk, name, starts) = three_frames(seed);
        disk.flip_bit(&name, starts[2] + 40);
        let params = WalParams { segment_bytes: SEGMENT_BYTES, spares_max: 1 };
        let opening = WalOpening::read(Arc::new(disk.clone()), params, &mut |_| {}).unwrap();
        assert_eq!(opening.report().lost, LostFrames::LastFrame);
        disk.fail_after_ops(seed % 6);
        let started = opening.start(&[vote(b"in doubt")]).is_ok();
        disk.crash();
        let opened = open(&disk);
        let kept = opened.records.contains(&vote(b"in doubt"));
        assert!(kept || opened.recovery.lost == LostFrames::LastFrame, "seed {seed}");
        assert!(kept || !started);
    }
}

/// A log of an earlier release has no manifest; once it is upgraded it must not lose it.
#[test]
fn a_log_without_a_manifest_is_taken_over() {
    let (disk, names) = several_segments();
    disk.remove_durably(MANIFEST_NAME);
    for name in &names {
        let file = disk.open(name).unwrap();
        let mut header = vec![0; HEADER_BYTES as usize];
        file.read_at(0, &mut header).unwrap();
        header[8] = 1;
        let crc = base::checksum::crc32(&[&header[..12], &header[16..]]);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        file.write_at(0, &header).unwrap();
        file.sync().unwrap();
    }
    let mut opened = open(&disk);
    assert_eq!(positions(&opened.records), (1..30).collect::<Vec<_>>());
    assert_eq!(opened.wal.segments(), names.len());
    opened.wal.upgrade().unwrap();
    assert_eq!(opened.wal.segments(), names.len() + 1);
    drop(opened);
    disk.crash();
    assert_eq!(positions(&open(&disk).records), (1..30).collect::<Vec<_>>());
    disk.remove_durably(MANIFEST_NAME);
    assert!(matches!(try_open(&disk).map(drop), Err(Error::Missing { .. })));
}
