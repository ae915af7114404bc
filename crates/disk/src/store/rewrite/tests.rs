//! Rewrites under writes, on a disk that dies at every operation.

use super::*;
use crate::SimDisk;
use crate::store::tests::{Model, apply, contents, open, random_rows, row, write};
use base::mutant::plant;
use base::{Rng, Row};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Writes and pieces by turns until all is copied.
fn rewrite_under_writes(store: &mut Store, model: &mut Model, rng: &mut Rng) {
    store.begin_rewrite().unwrap();
    loop {
        let rows = random_rows(rng);
        write(store, &rows).unwrap();
        apply(model, &rows);
        if store.rewrite_piece(rng.between(1, 4_000) as usize).unwrap() {
            break;
        }
    }
    let rows = random_rows(rng);
    write(store, &rows).unwrap();
    apply(model, &rows);
}

fn a_rewritten_store_holds_what_was_written_meanwhile() {
    for seed in 0..20 {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let (mut store, mut model) = (open(&disk), Model::new());
        for _ in 0..20 {
            let rows = random_rows(&mut rng);
            write(&store, &rows).unwrap();
            apply(&mut model, &rows);
        }
        rewrite_under_writes(&mut store, &mut model, &mut rng);
        store.finish_rewrite().unwrap();
        assert_eq!(contents(&store.view().unwrap()), model, "seed {seed}");
        write(&store, &[row(Table::Meta, b"later", Some(b"1"))]).unwrap();
        drop(store);
        let found = contents(&open(&disk).view().unwrap());
        assert_eq!(found.len(), model.len() + 1, "seed {seed}");
    }
}

#[test]
fn a_rewrite_keeps_up_with_writes() {
    a_rewritten_store_holds_what_was_written_meanwhile();
}

#[test]
fn a_rewrite_that_misses_writes_is_found() {
    plant(Some(Mutant::RewriteMissesWrites.into()));
    let found = catch_unwind(AssertUnwindSafe(a_rewritten_store_holds_what_was_written_meanwhile));
    plant(None);
    assert!(found.is_err());
}

/// 4 MiB of rows, of which one in sixteen stays.
fn mostly_free(disk: &SimDisk) -> Store {
    let store = open(disk);
    let rows = |value: Option<&[u8]>, keep: u32| -> Vec<Row> {
        (0..1_024u32)
            .filter(|n| !n.is_multiple_of(keep))
            .map(|n| row(Table::Versions, &n.to_be_bytes(), value))
            .collect()
    };
    write(&store, &rows(Some(&[7; 4_000]), u32::MAX)).unwrap();
    write(&store, &rows(None, 16)).unwrap();
    store
}

#[test]
fn a_rewrite_gives_free_space_back_once_no_view_reads_it() {
    let disk = SimDisk::new(3);
    let mut store = mostly_free(&disk);
    let before = store.file_bytes().unwrap();
    let view = store.view().unwrap();
    let rows = contents(&view);
    store.begin_rewrite().unwrap();
    while !store.rewrite_piece(64 * 1024).unwrap() {}
    let mut replaced = store.finish_rewrite().unwrap();
    let after = store.file_bytes().unwrap();
    assert!(after * 4 < before, "{before} bytes at first, {after} at last");
    assert_eq!(disk.list().unwrap(), ["store"]);
    assert!(!replaced.release(1 << 20).unwrap());
    assert_eq!(contents(&view), rows);
    drop(view);
    let pieces = (1..).find(|_| replaced.release(1 << 20).unwrap()).unwrap();
    assert!(pieces > 1, "given back in {pieces} pieces");
    store.check_pages().unwrap();
    assert_eq!(contents(&store.view().unwrap()), rows);
}

#[test]
fn an_abandoned_rewrite_leaves_nothing() {
    let disk = SimDisk::new(3);
    let mut store = mostly_free(&disk);
    store.begin_rewrite().unwrap();
    assert!(!store.rewrite_piece(1_000).unwrap());
    store.abandon_rewrite().unwrap();
    assert_eq!(disk.list().unwrap(), ["store"]);
    store.begin_rewrite().unwrap();
    store.rewrite_piece(1_000).unwrap();
    disk.kill();
    drop(store);
    drop(open(&disk));
    assert_eq!(disk.list().unwrap(), ["store"]);
}

#[test]
fn a_rewrite_can_be_cut_anywhere() {
    for end in [SimDisk::crash, SimDisk::kill] {
        for ops in 0.. {
            let disk = SimDisk::new(ops);
            let mut rng = Rng::new(7);
            let (mut store, mut model) = (open(&disk), Model::new());
            let rows = random_rows(&mut rng);
            write(&store, &rows).unwrap();
            apply(&mut model, &rows);
            let rows = random_rows(&mut rng);
            let mut next = model.clone();
            apply(&mut next, &rows);
            disk.fail_after_ops(ops);
            let mut written = false;
            let rewritten = store.begin_rewrite().and_then(|()| {
                store.rewrite_piece(700)?;
                write(&store, &rows)?;
                written = true;
                while !store.rewrite_piece(700)? {}
                store.finish_rewrite()
            });
            end(&disk);
            let is_done = rewritten.is_ok();
            drop((rewritten, store));
            let found = contents(&open(&disk).view().unwrap());
            assert!(found == next || (!written && found == model), "operation {ops}");
            assert_eq!(disk.list().unwrap(), ["store"]);
            if is_done {
                break;
            }
        }
    }
}
