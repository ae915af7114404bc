//! The log against a list: what was synced comes back, what was not comes back whole or never.

mod damage;
mod earlier_release;
mod model;
mod power;
mod spares;

use super::*;
use crate::SimDisk;
use bytes::Bytes;

const SEGMENT_BYTES: u64 = 4096;

fn entry(position: u64, payload: &[u8]) -> WalRecord {
    WalRecord { stream: RecordStream::Raft, position, sticky: None, payload: Bytes::copy_from_slice(payload) }
}

fn vote(payload: &[u8]) -> WalRecord {
    WalRecord {
        stream: RecordStream::Raft,
        position: 0,
        sticky: Some(1),
        payload: Bytes::copy_from_slice(payload),
    }
}

struct Opened {
    wal: Wal,
    recovery: RecoveryReport,
    records: Vec<WalRecord>,
}

fn try_open(disk: &SimDisk) -> Result<Opened, Error> {
    open_with(disk, SEGMENT_BYTES)
}

fn open_with(disk: &SimDisk, segment_bytes: u64) -> Result<Opened, Error> {
    let mut records = Vec::new();
    let params = WalParams { segment_bytes, spares_max: SPARES_MAX };
    let (wal, recovery) = Wal::open(Arc::new(disk.clone()), params, &mut |record| records.push(record))?;
    Ok(Opened { wal, recovery, records })
}

fn open(disk: &SimDisk) -> Opened {
    try_open(disk).unwrap()
}

fn positions(records: &[WalRecord]) -> Vec<u64> {
    records.iter().filter(|record| record.sticky.is_none()).map(|record| record.position).collect()
}

#[test]
fn an_empty_log_opens_empty_again_and_again() {
    let disk = SimDisk::new(1);
    for _ in 0..300 {
        let opened = open(&disk);
        assert!(opened.records.is_empty());
        assert_eq!(opened.recovery.torn, None);
        drop(opened);
        disk.crash();
    }
}

#[test]
fn records_come_back_byte_for_byte() {
    let disk = SimDisk::new(1);
    let batch = [
        entry(1, b""),
        vote(b"yes"),
        WalRecord {
            stream: RecordStream::Mesh,
            position: u64::MAX,
            sticky: Some(255),
            payload: Bytes::new(),
        },
        entry(2, &[0xff; 999]),
    ];
    let mut wal = open(&disk).wal;
    wal.write(&batch[..1]).unwrap();
    wal.write(&batch[1..]).unwrap();
    assert!(wal.needs_sync());
    wal.sync().unwrap();
    assert!(!wal.needs_sync());
    disk.crash();
    assert_eq!(open(&disk).records, batch);
}

#[test]
fn a_frame_longer_than_a_segment_gets_a_longer_segment() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    let big = vec![7; 10 * SEGMENT_BYTES as usize];
    wal.write(&[entry(1, b"before"), vote(b"me")]).unwrap();
    wal.write(&[entry(2, &big)]).unwrap();
    wal.write(&[entry(3, b"after")]).unwrap();
    wal.sync().unwrap();
    disk.crash();
    let mut opened = open(&disk);
    assert_eq!(positions(&opened.records), [1, 2, 3]);
    assert!(opened.records.contains(&entry(2, &big)));
    opened.wal.release(RecordStream::Raft, 3).unwrap();
    assert_eq!(opened.wal.segments(), 1);
    assert!(opened.wal.size_bytes() < 2 * SEGMENT_BYTES, "the long segment is gone");
}

#[test]
fn released_segments_are_recycled_and_sticky_records_outlive_them() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    wal.write(&[vote(b"old")]).unwrap();
    wal.write(&[vote(b"new")]).unwrap();
    for position in 1..200 {
        wal.write(&[entry(position, &[5; 500])]).unwrap();
        wal.sync().unwrap();
        wal.release(RecordStream::Raft, position - 1).unwrap();
    }
    assert!(wal.segments() <= 2, "{} segments", wal.segments());
    assert!(disk.used_bytes() <= 4 * SEGMENT_BYTES, "{} bytes", disk.used_bytes());
    disk.crash();
    let records = open(&disk).records;
    assert_eq!(records.iter().rfind(|record| record.sticky.is_some()), Some(&vote(b"new")));
    let positions = positions(&records);
    assert_eq!(positions.last(), Some(&199));
    assert!(positions.is_sorted_by(|a, b| a + 1 == *b), "{positions:?}");
}

#[test]
fn a_segment_that_was_given_up_is_known_to_be_spare_until_it_is_used_again() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    let fill = |wal: &mut Wal, first: u64| {
        let segments = wal.segments();
        for position in first.. {
            wal.write(&[entry(position, &[7; 500])]).unwrap();
            if wal.segments() > segments {
                return position;
            }
        }
        unreachable!("a segment is full at some time")
    };
    let last = fill(&mut wal, 1);
    assert_eq!(wal.spare_bytes(), 0);
    wal.sync().unwrap();
    wal.release(RecordStream::Raft, last).unwrap();
    assert_eq!((wal.spare_bytes(), wal.segments()), (SEGMENT_BYTES, 1));
    drop(wal);
    let mut wal = open(&disk).wal;
    assert_eq!(wal.spare_bytes(), SEGMENT_BYTES, "and after a restart");
    fill(&mut wal, last + 1);
    assert_eq!(wal.spare_bytes(), 0);
}

#[test]
fn a_segment_stays_while_any_stream_needs_it() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    wal.write(&[WalRecord { stream: RecordStream::Mesh, ..entry(70, b"mesh") }]).unwrap();
    for position in 1..50 {
        wal.write(&[entry(position, &[5; 500])]).unwrap();
    }
    let segments = wal.segments();
    wal.release(RecordStream::Raft, 100).unwrap();
    assert_eq!(wal.segments(), segments);
    wal.release(RecordStream::Mesh, 69).unwrap();
    assert_eq!(wal.segments(), segments);
    wal.release(RecordStream::Mesh, 70).unwrap();
    assert_eq!(wal.segments(), 1);
}

#[test]
fn a_failed_sync_poisons_the_log() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    wal.write(&[entry(1, b"x")]).unwrap();
    disk.fail_next_sync();
    assert!(matches!(wal.sync(), Err(Error::Io { action: "sync", .. })));
    assert!(matches!(wal.sync(), Err(Error::Poisoned)));
    assert!(matches!(wal.write(&[entry(2, b"y")]), Err(Error::Poisoned)));
    assert!(matches!(wal.release(RecordStream::Raft, 1), Err(Error::Poisoned)));
}

#[test]
fn a_full_disk_poisons_the_log_and_loses_nothing_synced() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    disk.set_space(disk.used_bytes() + SEGMENT_BYTES + 100);
    let mut synced = 0;
    let error = loop {
        let written = wal.write(&[entry(synced + 1, &[1; 300])]).and_then(|()| wal.sync());
        match written {
            Ok(()) => synced += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("wal-fresh"), "{error}");
    assert!(matches!(wal.sync(), Err(Error::Poisoned)));
    drop(wal);
    disk.set_space(u64::MAX);
    assert_eq!(positions(&open(&disk).records), (1..=synced).collect::<Vec<_>>());
}

/// The store or an operator frees the space that the log waits for.
#[test]
fn a_log_that_finds_no_space_waits_for_it_and_loses_nothing() {
    for looks in [1, 3] {
        let disk = SimDisk::new(1);
        let mut wal = open(&disk).wal;
        disk.set_space(disk.used_bytes() + 2 * SEGMENT_BYTES + 100);
        disk.free_space_after(looks);
        for position in 1..=100 {
            wal.write(&[entry(position, &[1; 300])]).and_then(|()| wal.sync()).unwrap();
        }
        assert_eq!(disk.counters().waits_for_space, u64::from(looks));
        disk.crash();
        assert_eq!(positions(&open(&disk).records), (1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_left_of_a_segment_is_written_without_asking_for_space() {
    let disk = SimDisk::new(1);
    let mut wal = open(&disk).wal;
    disk.set_space(0);
    let mut position = 0;
    while wal.has_space_for([300].into_iter()) {
        position += 1;
        wal.write(&[entry(position, &[1; 300])]).and_then(|()| wal.sync()).unwrap();
    }
    assert_eq!(disk.counters().space_refused, 0);
    assert!(wal.write(&[entry(position + 1, &[1; 300])]).is_err());
}

#[test]
fn files_of_others_are_left_alone() {
    let disk = SimDisk::new(1);
    for name in ["wal-1", "wal-zzzzzzzzzzzzzzzz", "store", "WAL-0000000000000001"] {
        disk.create(name).unwrap();
    }
    drop(open(&disk));
    assert_eq!(disk.list().unwrap().len(), 6, "its segment and its manifest came to them");
}

#[test]
fn it_works_on_a_real_directory() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(crate::RealDisk::open(dir.path().to_path_buf()).unwrap());
    let params = WalParams { segment_bytes: SEGMENT_BYTES, spares_max: 1 };
    for round in 0..5 {
        let mut seen = Vec::new();
        let (mut wal, recovery) = Wal::open(disk.clone(), params, &mut |record| seen.push(record)).unwrap();
        assert_eq!(recovery.torn, None);
        let positions = positions(&seen);
        assert_eq!(positions.last().copied().unwrap_or(0), round * 20);
        for position in round * 20 + 1..=round * 20 + 20 {
            wal.write(&[entry(position, &[3; 700])]).unwrap();
        }
        wal.sync().unwrap();
        wal.release(RecordStream::Raft, round * 20).unwrap();
        assert!(wal.segments() < 12);
    }
}
