//! A log that release 0.1.0 began is written as that release reads it, until it is upgraded.

use super::*;

/// Makes the log as 0.1.0 leaves it: older headers, and no manifest.
fn as_earlier_release_leaves_it(disk: &SimDisk) {
    for id in segment::ids(&disk.list().unwrap()) {
        let name = segment::name(id);
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; HEADER_BYTES as usize];
        file.read_at(0, &mut bytes).unwrap();
        let header = segment::check_header(&bytes, id).unwrap().unwrap();
        let mut old = Vec::new();
        segment::encode_header(segment::VERSION_WITHOUT_MANIFEST, id, header.first, &mut old);
        file.write_at(0, &old).unwrap();
        file.sync().unwrap();
    }
    manifest::remove(disk).unwrap();
}

fn versions(disk: &SimDisk) -> Vec<u32> {
    let version = |id| {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        disk.open(&segment::name(id)).unwrap().read_at(0, &mut bytes).unwrap();
        segment::check_header(&bytes, id).unwrap().unwrap().version
    };
    segment::ids(&disk.list().unwrap()).into_iter().map(version).collect()
}

fn old_log(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let mut wal = open(&disk).wal;
    wal.write(&[vote(b"term 3"), entry(1, b"one")]).unwrap();
    wal.sync().unwrap();
    drop(wal);
    as_earlier_release_leaves_it(&disk);
    disk
}

#[test]
fn it_stays_as_that_release_reads_it() {
    let disk = old_log(1);
    for position in 2..40 {
        let mut opened = open(&disk);
        assert!(opened.wal.is_of_earlier_release());
        assert_eq!(positions(&opened.records).last(), Some(&(position - 1)));
        opened.wal.write(&[entry(position, &[7; 500])]).unwrap();
        opened.wal.seal().unwrap();
        disk.crash();
    }
    assert!(versions(&disk).len() > 1, "it has gone on in more segments");
    assert!(versions(&disk).iter().all(|version| *version == segment::VERSION_WITHOUT_MANIFEST));
    assert!(!disk.exists(MANIFEST_NAME).unwrap());
}

#[test]
fn upgraded_it_goes_on_in_a_segment_that_that_release_refuses() {
    let disk = old_log(2);
    let mut wal = open(&disk).wal;
    wal.write(&[entry(2, b"two")]).unwrap();
    wal.upgrade().unwrap();
    wal.upgrade().unwrap();
    assert!(!wal.is_of_earlier_release());
    wal.write(&[entry(3, b"three")]).unwrap();
    wal.sync().unwrap();
    drop(wal);
    disk.crash();
    assert_eq!(versions(&disk), [segment::VERSION_WITHOUT_MANIFEST, segment::VERSION]);
    let opened = open(&disk);
    assert!(!opened.wal.is_of_earlier_release());
    assert_eq!(positions(&opened.records), [1, 2, 3]);
    let votes = opened.records.iter().filter(|record| record.sticky.is_some()).count();
    assert_eq!(votes, 2, "the vote is repeated at the head of the new segment");
}

/// Whatever was written to the disk when the process died in an upgrade.
#[test]
fn an_interrupted_upgrade_loses_nothing() {
    for n_ops in 0..60 {
        let disk = old_log(n_ops);
        let mut wal = open(&disk).wal;
        wal.write(&[entry(2, b"two")]).unwrap();
        wal.sync().unwrap();
        disk.fail_after_ops(n_ops);
        let outcome = wal.upgrade();
        drop(wal);
        disk.crash();
        let mut opened = open(&disk);
        assert_eq!(positions(&opened.records), [1, 2], "after {n_ops} operations");
        assert!(outcome.is_err() || !opened.wal.is_of_earlier_release());
        opened.wal.upgrade().unwrap();
        assert_eq!(positions(&open(&disk).records), [1, 2]);
        if outcome.is_ok() {
            return;
        }
    }
    panic!("an upgrade takes fewer operations");
}

/// The release before knows no manifest and may have released the segments that a left-over one lists.
#[test]
fn a_manifest_that_was_left_by_an_interrupted_upgrade_is_not_believed() {
    let disk = old_log(3);
    let listing = SegmentListing { first: 0, last: 1, newest_bytes: SEGMENT_BYTES };
    Manifest::create(&disk, listing).unwrap();
    let opened = open(&disk);
    assert_eq!(positions(&opened.records), [1]);
    assert!(opened.wal.is_of_earlier_release() && !disk.exists(MANIFEST_NAME).unwrap());
}

#[test]
fn a_later_segment_that_the_manifest_lists_is_missed() {
    let disk = old_log(4);
    let mut wal = open(&disk).wal;
    wal.upgrade().unwrap();
    drop(wal);
    disk.remove(&segment::name(2)).unwrap();
    assert!(matches!(try_open(&disk), Err(Error::Missing { .. })));
}
