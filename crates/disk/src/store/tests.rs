//! The store against a map, on a disk that dies at every operation.

use super::chunk::{Chunks, decode};
use super::staging::{Staging, discard, install};
use super::*;
use crate::SimDisk;
use crate::mutant::Mutant;
use base::mutant::plant;
use base::{ReadView, Rng};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

const CACHE: usize = 256 * 1024;

pub(super) type Model = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

pub(super) fn open(disk: &SimDisk) -> Store {
    Store::open(Arc::new(disk.clone()), "store", CACHE).unwrap()
}

pub(super) fn row(table: Table, key: &[u8], value: Option<&[u8]>) -> Row {
    Row { table, key: Bytes::copy_from_slice(key), value: value.map(Bytes::copy_from_slice) }
}

pub(super) fn write(store: &Store, rows: &[Row]) -> Result<(), Error> {
    store.write_rows(&mut rows.iter().map(RowRef::from))
}

pub(super) fn contents(view: &StoreView) -> Model {
    let mut found = Model::new();
    for table in Table::ALL {
        view.scan(table, Bound::Unbounded, Bound::Unbounded, &mut |key, value| {
            found.insert((table, key.to_vec()), value.to_vec());
            true
        });
    }
    found
}

pub(super) fn apply(model: &mut Model, rows: &[Row]) {
    for row in rows {
        let key = (row.table, row.key.to_vec());
        match &row.value {
            Some(value) => drop(model.insert(key, value.to_vec())),
            None => drop(model.remove(&key)),
        }
    }
}

pub(super) fn random_rows(rng: &mut Rng) -> Vec<Row> {
    (0..rng.between(1, 30))
        .map(|_| {
            let table = *rng.pick(&Table::ALL);
            let key = rng.between(0, 60).to_be_bytes();
            let len = if rng.chance(50_000) { 9000 } else { rng.between(0, 200) };
            let value = vec![rng.next_u64() as u8; len as usize];
            row(table, &key, rng.chance(700_000).then_some(&value))
        })
        .collect()
}

#[test]
fn rows_are_read_back_in_order_and_by_bounds() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let rows = [b"a", b"c", b"e"].map(|key| row(Table::Index, key, Some(b"v")));
    write(&store, &rows).unwrap();
    write(&store, &[row(Table::Meta, b"c", Some(b"m"))]).unwrap();
    let view = store.view().unwrap();
    assert_eq!(view.get(Table::Index, b"c").as_deref(), Some(&b"v"[..]));
    assert_eq!(view.get(Table::Meta, b"c").as_deref(), Some(&b"m"[..]));
    assert_eq!(view.get(Table::Log, b"c"), None);
    let scan = |from: Bound<&[u8]>, to: Bound<&[u8]>, most: usize| {
        let mut keys = String::new();
        view.scan(Table::Index, from, to, &mut |key, _| {
            keys.push(key[0] as char);
            keys.len() < most
        });
        keys
    };
    assert_eq!(scan(Bound::Unbounded, Bound::Unbounded, 9), "ace");
    assert_eq!(scan(Bound::Unbounded, Bound::Unbounded, 2), "ac");
    assert_eq!(scan(Bound::Excluded(b"a"), Bound::Included(b"e"), 9), "ce");
    assert_eq!(scan(Bound::Included(b"b"), Bound::Excluded(b"e"), 9), "c");
    for to in [Bound::Included(&b"b"[..]), Bound::Excluded(&b"d"[..])] {
        assert_eq!(scan(Bound::Included(b"d"), to, 9), "");
    }
    assert_eq!(scan(Bound::Excluded(b"c"), Bound::Excluded(b"c"), 9), "");
}

#[test]
fn sizes_follow_the_rows() {
    let store = open(&SimDisk::new(1));
    let empty = store.used_bytes().unwrap();
    write(&store, &[row(Table::Log, b"k", Some(&[1; 50_000]))]).unwrap();
    let full = store.used_bytes().unwrap();
    assert!(full >= empty + 50_000, "{empty} then {full}");
    assert!(full <= store.file_bytes().unwrap());
    write(&store, &[row(Table::Log, b"k", None)]).unwrap();
    assert_eq!(store.used_bytes().unwrap(), empty);
}

#[test]
fn stores_views_and_logs_can_move_between_threads() {
    fn movable<T: Send>() {}
    fn shareable<T: Send + Sync>() {}
    shareable::<Store>();
    shareable::<StoreView>();
    movable::<Staging>();
    movable::<Chunks>();
    movable::<crate::Wal>();
    shareable::<SimDisk>();
    shareable::<crate::RealDisk>();
}

#[test]
fn a_view_is_pinned_and_outlives_its_store() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    write(&store, &[row(Table::Meta, b"k", Some(b"1"))]).unwrap();
    let view = store.view().unwrap();
    write(&store, &[row(Table::Meta, b"k", None)]).unwrap();
    assert_eq!(store.view().unwrap().get(Table::Meta, b"k"), None);
    drop(store);
    assert_eq!(view.get(Table::Meta, b"k").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_power_cut_leaves_the_state_before_or_after_a_commit() {
    a_commit_cut_anywhere_is_whole(SimDisk::crash);
}

#[test]
fn a_kill_leaves_the_state_before_or_after_a_commit() {
    a_commit_cut_anywhere_is_whole(SimDisk::kill);
}

fn a_commit_cut_anywhere_is_whole(end: fn(&SimDisk)) {
    let mut after = 0;
    for seed in 0..25 {
        for ops in 0.. {
            let disk = SimDisk::new(seed * 100 + ops);
            let mut rng = Rng::new(seed);
            let store = open(&disk);
            let mut model = Model::new();
            for _ in 0..rng.between(0, 4) {
                let rows = random_rows(&mut rng);
                write(&store, &rows).unwrap();
                apply(&mut model, &rows);
            }
            let rows = random_rows(&mut rng);
            let mut next = model.clone();
            apply(&mut next, &rows);
            disk.fail_after_ops(ops);
            let written = write(&store, &rows).is_ok();
            end(&disk);
            drop(store);
            let store = open(&disk);
            let found = contents(&store.view().unwrap());
            assert!(found == next || (!written && found == model), "seed {seed}, operation {ops}");
            after += u32::from(found == next && !written);
            write(&store, &rows).expect("the store works on");
            if written {
                break;
            }
        }
    }
    assert!(after > 0, "a cut after the commit point was met");
}

#[test]
fn a_creation_can_be_cut_anywhere() {
    for seed in 0..5 {
        for ops in 0.. {
            let disk = SimDisk::new(seed * 100 + ops);
            disk.fail_after_ops(ops);
            let created = Store::open(Arc::new(disk.clone()), "store", CACHE).map(drop).is_ok();
            disk.crash();
            let store = open(&disk);
            assert!(contents(&store.view().unwrap()).is_empty());
            assert_eq!(disk.list().unwrap(), ["store"]);
            if created {
                break;
            }
        }
    }
}

#[test]
fn a_failed_sync_is_an_error_and_a_reopened_store_is_whole() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let store = open(&disk);
        write(&store, &[row(Table::Meta, b"k", Some(b"1"))]).unwrap();
        disk.fail_next_sync();
        write(&store, &[row(Table::Meta, b"k", Some(b"2"))]).unwrap_err();
        disk.crash();
        drop(store);
        let value = open(&disk).view().unwrap().get(Table::Meta, b"k").unwrap();
        assert!(*value == *b"1" || *value == *b"2");
    }
}

#[test]
fn a_full_disk_is_an_error_and_a_reopened_store_is_whole() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    write(&store, &[row(Table::Meta, b"k", Some(b"1"))]).unwrap();
    disk.set_space(disk.used_bytes());
    write(&store, &[row(Table::Meta, b"big", Some(&vec![7; 8 << 20]))]).unwrap_err();
    disk.crash();
    drop(store);
    let store = open(&disk);
    assert_eq!(contents(&store.view().unwrap()).len(), 1);
}

#[test]
fn a_newer_format_is_refused() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let txn = store.begin().unwrap();
    txn.open_table(FORMAT).unwrap().insert(FORMAT_VERSION, VERSION + 1).unwrap();
    txn.commit().unwrap();
    drop(store);
    let error = Store::open(Arc::new(disk), "store", CACHE).err().unwrap();
    assert!(matches!(error, Error::Version { found, known: VERSION, .. } if found == VERSION + 1), "{error}");
}

/// Every bit of rot in what a reader touches is noticed: the reader is stopped, or sees the right rows.
#[test]
fn rot_is_never_answered_from() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let rows: Vec<Row> = (0..100u8).map(|n| row(Table::Index, &[n], Some(&[n; 300]))).collect();
    write(&store, &rows).unwrap();
    let expected = contents(&store.view().unwrap());
    drop(store);
    let mut noticed = 0;
    let len = disk.open("store").unwrap().len().unwrap();
    for at in (0..len).step_by(211) {
        let damaged = disk.fork();
        damaged.flip_bit("store", at);
        let Ok(store) = Store::open(Arc::new(damaged.clone()), "store", CACHE) else {
            noticed += 1;
            continue;
        };
        let found = catch_unwind(AssertUnwindSafe(|| contents(&store.view().unwrap())));
        damaged.crash();
        match found {
            Ok(found) => assert_eq!(found, expected, "rot at {at}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 20, "only {noticed} were noticed");
}

#[test]
fn a_store_of_many_groups_of_pages_is_read_back_and_shrinks() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let mut model = Model::new();
    let group_bytes = (backend::GROUP_PAGES * backend::PAGE) as usize;
    for n in 0..12u8 {
        // Values of up to a group and a half, so that single requests cross borders.
        let rows = [row(Table::Versions, &[n], Some(&vec![n; group_bytes * usize::from(n) / 8]))];
        write(&store, &rows).unwrap();
        apply(&mut model, &rows);
    }
    assert!(contents(&store.view().unwrap()) == model);
    assert!(store.file_bytes().unwrap() > 4 * group_bytes as u64);
    disk.crash();
    drop(store);
    let store = open(&disk);
    assert!(contents(&store.view().unwrap()) == model);
    for n in 0..12u8 {
        write(&store, &[row(Table::Versions, &[n], None)]).unwrap();
    }
    for n in 0..40u8 {
        write(&store, &[row(Table::Versions, &[n], Some(b"small"))]).unwrap();
    }
    disk.crash();
    drop(store);
    assert_eq!(contents(&open(&disk).view().unwrap()).len(), 40);
}

fn staged(disk: &SimDisk, rows: &[Row]) -> Result<staging::Staged, Error> {
    let mut staging = Staging::begin(Arc::new(disk.clone()), "incoming", CACHE)?;
    for rows in rows.chunks(7) {
        staging.add(rows)?;
    }
    staging.finish()
}

#[test]
fn a_snapshot_travels_in_chunks_and_replaces_the_store() {
    let source = open(&SimDisk::new(1));
    let mut rng = Rng::new(5);
    for _ in 0..20 {
        write(&source, &random_rows(&mut rng)).unwrap();
    }
    let expected = contents(&source.view().unwrap());
    let disk = SimDisk::new(2);
    let old = open(&disk);
    write(&old, &[row(Table::Meta, b"old", Some(b"1"))]).unwrap();
    let old_view = old.view().unwrap();
    let mut staging = Staging::begin(Arc::new(disk.clone()), "incoming", CACHE).unwrap();
    let cut = Chunks::new(Arc::new(source.view().unwrap()), 1000);
    let measured = cut.measure(&mut || ());
    let chunks: Vec<Bytes> = cut.collect();
    let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    assert_eq!(measured, chunk::Extent { chunks: chunks.len() as u64, bytes });
    assert!(chunks.len() > 10);
    for chunk in &chunks {
        let rows = decode(chunk.clone()).unwrap();
        assert!(chunk.len() <= 1000 || rows.len() == 1, "{} bytes, {} rows", chunk.len(), rows.len());
        staging.add(&rows).unwrap();
    }
    let staged = staging.finish().unwrap();
    install(&disk, staged, "store").unwrap();
    disk.crash();
    drop((old, old_view));
    assert_eq!(contents(&open(&disk).view().unwrap()), expected);
    assert_eq!(disk.list().unwrap(), ["store"]);
}

#[test]
fn views_of_a_replaced_store_stay_readable() {
    let disk = SimDisk::new(2);
    let old = open(&disk);
    write(&old, &[row(Table::Meta, b"old", Some(b"1"))]).unwrap();
    let view = old.view().unwrap();
    let staged = staged(&disk, &[row(Table::Meta, b"new", Some(b"2"))]).unwrap();
    install(&disk, staged, "store").unwrap();
    let new = open(&disk).view().unwrap();
    assert_eq!(contents(&view).keys().next().unwrap().1, b"old");
    assert_eq!(contents(&new).keys().next().unwrap().1, b"new");
}

#[test]
fn an_installation_can_be_cut_anywhere() {
    let rows: Vec<Row> = (0..40u8).map(|n| row(Table::Index, &[n], Some(&[n; 300]))).collect();
    for ops in 0.. {
        let disk = SimDisk::new(ops);
        write(&open(&disk), &[row(Table::Meta, b"old", Some(b"1"))]).unwrap();
        disk.fail_after_ops(ops);
        let result = staged(&disk, &rows).and_then(|staged| install(&disk, staged, "store"));
        disk.crash();
        discard(&disk, "incoming").unwrap();
        let found = contents(&open(&disk).view().unwrap()).len();
        assert!(found == 40 || (result.is_err() && found == 1), "{found} rows at operation {ops}");
        if result.is_ok() {
            break;
        }
    }
}

#[test]
fn an_empty_store_makes_no_chunk_and_bad_chunks_are_refused() {
    let store = open(&SimDisk::new(1));
    assert_eq!(Chunks::new(Arc::new(store.view().unwrap()), 1000).count(), 0);
    write(&store, &[row(Table::Meta, b"k", Some(b"v"))]).unwrap();
    let chunk = Chunks::new(Arc::new(store.view().unwrap()), 1000).next().unwrap();
    for cut in 0..chunk.len() {
        assert_eq!(decode(chunk.slice(..cut)).map(|rows| rows.len()).unwrap_or(0), 0, "cut at {cut}");
        let mut flipped = chunk.to_vec();
        flipped[cut] ^= 4;
        assert_eq!(decode(Bytes::from(flipped)), None, "flipped at {cut}");
    }
}

proptest::proptest! {
    #[test]
    fn a_chunk_of_any_bytes_is_decoded_without_a_panic(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
    ) {
        let _ = decode(Bytes::from(body.clone()));
        // The same behind a good checksum, so that the rows themselves are reached.
        let mut sealed = vec![1];
        sealed.extend_from_slice(&base::checksum::crc32(&[&body]).to_le_bytes());
        sealed.extend_from_slice(&body);
        let _ = decode(Bytes::from(sealed));
    }
}

#[test]
fn it_works_on_a_real_directory() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(crate::RealDisk::open(dir.path().to_path_buf()).unwrap());
    for round in 0..3u8 {
        let store = Store::open(disk.clone(), "store", CACHE).unwrap();
        assert_eq!(contents(&store.view().unwrap()).len(), usize::from(round));
        write(&store, &[row(Table::Log, &[round], Some(b"x"))]).unwrap();
    }
}

/// The eight bytes of a number in front, as rows in the order of revisions have them.
fn numbered(number: u64, rest: &str) -> Vec<u8> {
    [&number.to_be_bytes()[..], rest.as_bytes()].concat()
}

#[test]
fn neighbours_that_go_together_leave_the_others_where_they_are() {
    let disk = SimDisk::new(5);
    let store = open(&disk);
    let mut model = Model::new();
    let all: Vec<Row> = (0..2_000).map(|n| row(Table::Log, &numbered(n, "k"), Some(b"value"))).collect();
    write(&store, &all).unwrap();
    apply(&mut model, &all);
    let mut rng = Rng::new(17);
    for _ in 0..50 {
        let from = rng.between(0, 2_000);
        let mut rows: Vec<Row> = (from..from + rng.between(1, 300))
            .filter(|_| rng.chance(800_000))
            .map(|n| row(Table::Log, &numbered(n, "k"), None))
            .collect();
        // Some far away, some that are not there, one that is put again, and one that is removed after it was put.
        rows.push(row(Table::Log, &numbered(rng.between(0, 2_000), "k"), None));
        rows.push(row(Table::Log, &numbered(from, "no such"), None));
        rows.push(row(Table::Log, b"short", None));
        rows.push(row(Table::Log, &numbered(from + 1, "k"), Some(b"again")));
        rows.push(row(Table::Log, &numbered(from + 3, "k"), Some(b"gone at once")));
        rows.push(row(Table::Log, &numbered(from + 3, "k"), None));
        write(&store, &rows).unwrap();
        apply(&mut model, &rows);
        assert_eq!(contents(&store.view().unwrap()), model);
    }
}

#[test]
fn a_write_for_which_there_was_no_space_is_missed_if_it_is_not_repeated() {
    plant(Some(Mutant::FullDiskIgnored.into()));
    let disk = SimDisk::new(6);
    let store = open(&disk);
    disk.set_space(0);
    disk.free_space_after(1);
    let lost = catch_unwind(AssertUnwindSafe(|| {
        for n in 0..40 {
            write(&store, &[row(Table::Log, &[n], Some(&[n; 400_000]))]).unwrap();
        }
        contents(&store.view().unwrap())
    }));
    plant(None);
    assert!(lost.is_err(), "what was not written cannot be read");
}

#[test]
fn a_store_that_finds_its_disk_full_waits_for_space_and_is_read_meanwhile() {
    let disk = SimDisk::new(6);
    let store = open(&disk);
    let rows = |n: u8| [row(Table::Log, &[n], Some(&[n; 400_000]))];
    write(&store, &rows(1)).unwrap();
    let before = store.view().unwrap();
    disk.set_space(0);
    disk.free_space_after(3);
    for n in 2..40 {
        write(&store, &rows(n)).unwrap();
    }
    assert!(disk.counters().waits_for_space >= 3, "the disk was full");
    assert_eq!(before.get(Table::Log, &[1]).map(|value| value.len()), Some(400_000));
    let view = store.view().unwrap();
    assert!((1..40).all(|n| view.get(Table::Log, &[n]).is_some_and(|value| value[..] == [n; 400_000])));
}

/// Why the store waits below the engine instead of opening it again (ADR 25).
#[test]
fn an_engine_that_heard_of_a_full_disk_is_not_even_read_until_it_is_opened_again() {
    let disk = SimDisk::new(6);
    let store = open(&disk);
    let rows = |n: u8| [row(Table::Log, &[n], Some(&[n; 400_000]))];
    // More than its cache holds.
    (0..8).for_each(|n| write(&store, &rows(n)).unwrap());
    let view = store.view().unwrap();
    disk.set_space(0);
    let failed = (8..40).find(|n| write(&store, &rows(*n)).is_err()).expect("the disk is full");
    assert!(catch_unwind(AssertUnwindSafe(|| contents(&view))).is_err(), "what no cache holds is refused");
    disk.set_space(u64::MAX);
    assert!(write(&store, &rows(failed)).is_err(), "nor does free space help it");
    assert!(catch_unwind(AssertUnwindSafe(|| contents(&view))).is_err());
    let reopened = open(&disk);
    assert_eq!(contents(&reopened.view().unwrap()).len(), failed as usize, "what was committed is there");
    assert!(catch_unwind(AssertUnwindSafe(|| contents(&view))).is_err(), "an open view stays unusable");
}

/// Wherever the file ends, and whether or not the process before had closed it: an error, never a panic.
#[test]
fn a_store_that_was_cut_short_is_damaged() {
    for is_closed in [true, false] {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        let rows: Vec<Row> = (0..200u8).map(|n| row(Table::Index, &[n], Some(&[n; 3_000]))).collect();
        write(&store, &rows).unwrap();
        let expected = contents(&store.view().unwrap());
        if !is_closed {
            disk.kill();
        }
        drop(store);
        let len = disk.open("store").unwrap().len().unwrap();
        for at in (0..len).step_by(4_096 * 7 + 100) {
            let damaged = disk.fork();
            damaged.truncate_durably("store", at);
            let read = || {
                let mut store = Store::open(Arc::new(damaged.clone()), "store", CACHE)?;
                store.check_pages()?;
                Ok::<_, Error>(contents(&store.view()?))
            };
            match guard::catch_damage("store", read) {
                Ok(found) => assert_eq!(found, expected, "cut at {at}"),
                Err(error) => assert!(error.is_damage(), "cut at {at}: {error}"),
            }
            damaged.crash();
        }
    }
}
