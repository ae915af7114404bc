//! Segments that are kept for later use: how many, which are taken, and which are of no use.

use super::*;
use crate::wal::segment::SPARE_NAMES;

/// Writes until so many segments are full, and answers with the last position.
fn fill(wal: &mut Wal, from: u64, segments: usize) -> u64 {
    let mut position = from;
    while wal.segments() <= segments {
        position += 1;
        wal.write(&[entry(position, &[1; 300])]).unwrap();
    }
    wal.sync().unwrap();
    position
}

fn spares(disk: &SimDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| SPARE_NAMES.contains(&name.as_str())).collect()
}

#[test]
fn as_many_are_kept_as_may_be_and_all_are_used_before_one_is_made() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    let last = fill(&mut wal, 0, SPARES_MAX + 2);
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!(spares(&disk), SPARE_NAMES, "two more were removed");
    let used = disk.used_bytes();
    let last = fill(&mut wal, last, SPARES_MAX);
    assert_eq!(spares(&disk), [""; 0]);
    assert_eq!(disk.used_bytes(), used);
    drop(wal);
    disk.crash();
    assert_eq!(positions(&open(&disk).records).last(), Some(&last));
}

#[test]
fn where_there_is_little_space_one_is_kept() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    let last = fill(&mut wal, 0, 4);
    disk.set_space(63 * SEGMENT_BYTES);
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!(spares(&disk), SPARE_NAMES[..1]);
}

#[test]
fn where_space_has_become_little_all_but_one_are_removed() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    let last = fill(&mut wal, 0, SPARES_MAX);
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!(spares(&disk), SPARE_NAMES);
    let last = fill(&mut wal, last, 1);
    disk.set_space(63 * SEGMENT_BYTES);
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!(
        (spares(&disk).as_slice(), wal.spare_bytes()),
        (&[SPARE_NAMES[0].to_owned()][..], SEGMENT_BYTES)
    );
}

#[test]
fn those_of_a_shorter_kind_are_removed_when_one_is_wanted() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    let last = fill(&mut wal, 0, 4);
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!(spares(&disk).len(), 4);
    drop(wal);
    let mut wal = open_with(&disk, 2 * SEGMENT_BYTES).unwrap().wal;
    let last = fill(&mut wal, last, 2);
    assert_eq!(spares(&disk), [""; 0]);
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!(spares(&disk).len(), 1, "the first segment was of the shorter kind");
}
