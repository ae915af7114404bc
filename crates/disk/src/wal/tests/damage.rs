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
            assert!(text.contains("Replace this member"), "{text}");
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
        let torn = (cut >= starts[2] + 4).then(|| Torn { file: name.clone(), offset: starts[2] });
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
    assert_eq!(opened.recovery.torn, Some(Torn { file: name.clone(), offset: lost }));
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
fn a_missing_segment_is_damage() {
    let (disk, names) = several_segments();
    disk.remove(&names[2]).unwrap();
    assert_corrupt(&disk, &names[2], 0);
}

#[test]
fn a_lone_segment_without_a_beginning_is_damage_unless_it_is_the_first() {
    let (disk, _) = several_segments();
    let mut wal = open(&disk).wal;
    wal.release(Stream::Raft, 100).unwrap();
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
    assert!(matches!(try_open(&disk), Err(Error::Version { found: 9, known: 1, .. })));
}

#[test]
fn a_frame_is_not_accepted_at_another_place_or_in_another_file() {
    let mut bytes = vec![0; 64];
    let place = Place { file_id: 3, offset: 64 };
    frame::encode(place, Sequence(9), Sequence(8), &[entry(1, b"abc")], &mut bytes);
    assert_eq!(frame::check(&bytes, place).unwrap().records, [entry(1, b"abc")]);
    assert!(frame::check(&bytes, Place { file_id: 4, ..place }).is_err());
    let moved = bytes[64..].to_vec();
    assert!(frame::check(&moved, Place { offset: 0, ..place }).is_err());
}

proptest::proptest! {
    #[test]
    fn a_frame_of_any_bytes_is_read_without_a_panic(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        len in proptest::prelude::any::<u32>(),
        count in proptest::prelude::any::<u32>(),
    ) {
        // A frame whose tag is right and the rest is noise.
        let place = Place { file_id: 1, offset: 0 };
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
    use base::mutant::{Mutant, plant};
    let (disk, name, starts) = three_frames(1);
    let file = disk.open(&name).unwrap();
    file.write_at(starts[3] - 8, &[0; 8]).unwrap();
    plant(Some(Mutant::TornTailAccepted));
    let opened = open(&disk);
    plant(None);
    assert_eq!(positions(&opened.records), [1, 2, 3]);
    assert_ne!(opened.records[2], entry(3, &[0xa5; 40]));
}
