//! The power goes at every single operation of a creation, a roll, a release and a recovery.

use super::*;

/// Runs `act` with the power failing after 0, 1, 2… operations until it succeeds, each time on a disk made by
/// `prepare` and judged, after the crash, by `judge`.
fn at_every_operation(
    prepare: impl Fn(&SimDisk),
    act: impl Fn(&SimDisk) -> Result<(), Error>,
    judge: impl Fn(&SimDisk),
) {
    for seed in 0..20 {
        for ops in 0.. {
            let disk = SimDisk::new(seed * 1000 + ops);
            prepare(&disk);
            disk.fail_after_ops(ops);
            let done = act(&disk).is_ok();
            disk.crash();
            judge(&disk);
            if done {
                assert!(ops > 2, "the power never went");
                break;
            }
        }
    }
}

fn fill(wal: &mut Wal, from: u64, to: u64) -> Result<(), Error> {
    for position in from..to {
        wal.write(&[entry(position, &[8; 600]), vote(&position.to_le_bytes())])?;
        wal.sync()?;
    }
    Ok(())
}

fn assert_starts_with_all(disk: &SimDisk, synced: u64) {
    let records = open(disk).records;
    let positions = positions(&records);
    let expected: Vec<u64> = (1..=positions.len() as u64).collect();
    assert_eq!(positions, expected);
    assert!(positions.len() as u64 >= synced, "{positions:?}");
    // The newest sticky record is always that of the newest entry.
    let newest = records.iter().rfind(|record| record.sticky.is_some());
    assert_eq!(newest.map(|record| record.payload.clone()), newest_vote(positions.len() as u64));
}

fn newest_vote(position: u64) -> Option<Bytes> {
    (position > 0).then(|| Bytes::copy_from_slice(&position.to_le_bytes()))
}

#[test]
fn the_first_creation_can_be_cut_anywhere() {
    at_every_operation(
        |_| {},
        |disk| try_open(disk).map(drop),
        |disk| {
            assert!(open(disk).records.is_empty());
        },
    );
}

#[test]
fn rolling_to_a_fresh_segment_can_be_cut_anywhere() {
    at_every_operation(
        |disk| fill(&mut open(disk).wal, 1, 6).unwrap(),
        |disk| fill(&mut try_open(disk)?.wal, 6, 14),
        |disk| assert_starts_with_all(disk, 5),
    );
}

#[test]
fn recovery_itself_can_be_cut_anywhere() {
    at_every_operation(
        |disk| {
            let mut wal = open(disk).wal;
            fill(&mut wal, 1, 12).unwrap();
            for position in 12..15 {
                wal.write(&[entry(position, &[8; 600]), vote(&u64::to_le_bytes(position))]).unwrap();
            }
            disk.crash();
        },
        |disk| {
            for _ in 0..3 {
                try_open(disk)?;
            }
            Ok(())
        },
        |disk| assert_starts_with_all(disk, 11),
    );
}

#[test]
fn recycling_can_be_cut_anywhere() {
    let act = |disk: &SimDisk| {
        let mut wal = try_open(disk)?.wal;
        wal.release(RecordStream::Raft, 9)?;
        for position in 12..40 {
            wal.write(&[entry(position, &[8; 600])])?;
            wal.sync()?;
            wal.release(RecordStream::Raft, position - 3)?;
        }
        Ok(())
    };
    at_every_operation(
        |disk| fill(&mut open(disk).wal, 1, 12).unwrap(),
        act,
        |disk| {
            let positions = positions(&open(disk).records);
            assert!(positions.is_sorted_by(|a, b| a + 1 == *b), "{positions:?}");
            assert!(positions.len() >= 3 && positions.last() >= Some(&11), "{positions:?}");
        },
    );
}
