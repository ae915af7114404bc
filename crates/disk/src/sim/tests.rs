//! The simulated disk keeps what it must, and loses what it may.

use super::*;

fn read_all(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut out = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut out).unwrap();
    out
}

/// A disk with one durable file of `len` ones.
fn with_file(seed: u64, len: usize) -> (SimDisk, Box<dyn File>) {
    let disk = SimDisk::new(seed);
    let file = disk.create("f").unwrap();
    file.write_at(0, &vec![1; len]).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    (disk, file)
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..200 {
        let (disk, file) = with_file(seed, 10_000);
        file.write_at(5_000, &[2; 100]).unwrap();
        file.sync().unwrap();
        file.write_at(20_000, &[3; 100]).unwrap();
        file.set_len(0).unwrap();
        file.sync().unwrap();
        file.write_at(0, &[4; 9]).unwrap();
        file.sync().unwrap();
        disk.crash();
        assert_eq!(read_all(&disk, "f"), [4; 9]);
    }
}

#[test]
fn an_unsynced_write_is_kept_lost_or_torn_at_sectors() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = with_file(seed, 3 * 4096);
        file.write_at(100, &[2; 2 * 4096]).unwrap();
        disk.crash();
        let bytes = read_all(&disk, "f");
        assert_eq!(bytes.len(), 3 * 4096);
        let parts = [&bytes[100..4096], &bytes[4096..8192], &bytes[8192..8292]];
        assert!(parts.iter().all(|part| part.iter().all(|byte| *byte == part[0])), "torn inside a sector");
        assert!(bytes[..100].iter().chain(&bytes[8292..]).all(|byte| *byte == 1), "bytes beside the write");
        seen.insert(parts.map(|part| part[0]));
    }
    assert_eq!(seen.len(), 8, "every way to tear three sectors is met");
}

#[test]
fn a_later_write_may_survive_an_earlier_one() {
    let met = (0..200).any(|seed| {
        let (disk, file) = with_file(seed, 8192);
        file.write_at(0, &[2]).unwrap();
        file.write_at(4096, &[3]).unwrap();
        disk.crash();
        let bytes = read_all(&disk, "f");
        (bytes[0], bytes[4096]) == (1, 3)
    });
    assert!(met);
}

#[test]
fn of_names_a_prefix_survives() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let (disk, _file) = with_file(seed, 1);
        disk.create("g").unwrap();
        disk.rename("f", "h").unwrap();
        disk.remove("g").unwrap();
        disk.crash();
        seen.insert(disk.list().unwrap().join(" "));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["f", "f g", "g h", "h"]);
}

#[test]
fn a_renamed_file_keeps_its_bytes_and_its_handle() {
    let (disk, file) = with_file(1, 3);
    disk.create("g").unwrap();
    disk.rename("f", "g").unwrap();
    disk.sync_dir().unwrap();
    file.write_at(0, &[7]).unwrap();
    assert_eq!(read_all(&disk, "g"), [7, 1, 1]);
    assert_eq!(disk.used_bytes(), 3);
}

#[test]
fn after_a_failed_sync_later_syncs_do_not_save_the_data() {
    let mut kept = 0;
    for seed in 0..100 {
        let (disk, file) = with_file(seed, 8192);
        file.write_at(0, &[2]).unwrap();
        disk.fail_next_sync();
        file.sync().unwrap_err();
        assert_eq!(read_all(&disk, "f")[0], 2, "the page cache still shows it");
        file.write_at(4096, &[3]).unwrap();
        file.sync().unwrap();
        disk.crash();
        let bytes = read_all(&disk, "f");
        assert_eq!(bytes[4096], 3, "what a good sync covered survives");
        kept += u32::from(bytes[0] == 2);
    }
    assert!((1..100).contains(&kept), "{kept} of 100 kept");
}

#[test]
fn when_the_power_goes_everything_fails_until_the_crash() {
    let (disk, file) = with_file(1, 3);
    disk.fail_after_ops(2);
    file.write_at(0, &[2]).unwrap();
    file.sync().unwrap();
    file.write_at(1, &[2]).unwrap_err();
    file.read_at(0, &mut [0]).unwrap_err();
    disk.list().unwrap_err();
    disk.crash();
    assert_eq!(read_all(&disk, "f")[0], 2);
    file.write_at(0, &[9]).expect_err("a handle does not outlive the crash");
}

#[test]
fn a_killed_process_leaves_its_writes_at_risk() {
    let (disk, file) = with_file(3, 4096);
    let lock = disk.lock().unwrap();
    assert!(disk.lock().is_err());
    file.write_at(0, &[2]).unwrap();
    disk.kill();
    file.sync().expect_err("the handle died with its process");
    assert_eq!(read_all(&disk, "f")[0], 2);
    let _lock = disk.lock().unwrap();
    drop(lock);
    assert!(disk.lock().is_err(), "a dead lock frees nothing");
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    let (disk, file) = with_file(1, 10);
    disk.set_space(12);
    file.write_at(0, &[5; 12]).unwrap();
    assert_eq!(file.write_at(11, &[5; 2]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.set_len(13).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.set_len(0).unwrap();
    file.set_len(12).unwrap();
    disk.remove("f").unwrap();
    drop(file);
    disk.sync_dir().unwrap();
    assert_eq!(disk.used_bytes(), 0);
}
