//! The state read back from its rows, and rows that lie.

use crate::world::{Store, World, at, do_all, op_delete, op_put, single};
use base::{Revision, Rng, Table};
use coord::request::Request;
use coord::rows::{self, Meta};
use coord::{CorruptRow, State};

fn written() -> World {
    let mut world = World::new();
    world.put("a", "1");
    world.put("a", "2");
    world.put("b", "1");
    world.delete(single("b"));
    world.write(Request::Txn(do_all(vec![op_put("c", "1"), op_delete(single("a"))]))).expect("accepted");
    world.put("a", "3");
    world
}

fn load(store: &Store) -> Result<Option<State>, CorruptRow> {
    State::load(store)
}

fn damage(
    table: Table,
    change: impl FnOnce(&mut std::collections::BTreeMap<Vec<u8>, Vec<u8>>),
) -> CorruptRow {
    let mut store = written().store;
    change(store.tables.get_mut(&table).expect("the table has rows"));
    load(&store).expect_err("damage is noticed")
}

#[test]
fn a_store_that_was_never_written_has_no_state() {
    assert!(load(&Store::default()).expect("nothing is wrong with it").is_none());
}

#[test]
fn the_meta_row_says_up_to_where_the_rows_go() {
    let world = written();
    let meta = Meta::read(&world.store).expect("whole").expect("written");
    assert_eq!(meta.applied, world.applied);
    assert_eq!((meta.revision, meta.compacted), (Revision(7), Revision(0)));
    assert_eq!(meta.hash, world.state.hash());
}

#[test]
fn an_empty_state_survives_its_rows() {
    let mut store = Store::default();
    rows::state_rows(&State::empty(), at(4), &mut |table, key, value| {
        store.tables.entry(table).or_default().insert(key.to_vec(), value.expect("written").to_vec());
    });
    let state = load(&store).expect("whole").expect("written");
    assert_eq!((state.revision(), state.key_count()), (Revision(1), 0));
}

#[test]
fn loading_reads_no_values() {
    let mut world = written();
    world.store.tables.remove(&Table::Versions);
    world.reload();
}

#[test]
fn every_damaged_row_is_named() {
    for table in [Table::Meta, Table::Log, Table::Index, Table::Origins] {
        let rows = written().store.tables[&table].clone();
        for key in rows.keys() {
            let found = damage(table, |rows| {
                rows.get_mut(key).expect("the row exists")[0] = 9;
            });
            assert_eq!((found.table, found.key.as_ref(), found.what), (table, key.as_slice(), "malformed"));
        }
    }
}

#[test]
fn cut_rows_are_malformed_or_do_not_fit() {
    for table in [Table::Meta, Table::Log, Table::Index, Table::Origins] {
        for key in written().store.tables[&table].keys() {
            damage(table, |rows| {
                rows.get_mut(key).expect("the row exists").pop();
            });
        }
    }
}

#[test]
fn no_damage_makes_loading_panic() {
    let whole = written().store;
    let mut rng = Rng::new(8);
    let mut noticed = 0;
    for _ in 0..20_000 {
        let mut store = whole.clone();
        for _ in 0..rng.between(1, 4) {
            let table = *rng.pick(&[Table::Meta, Table::Log, Table::Index, Table::Origins]);
            let rows = store.tables.get_mut(&table).expect("the table has rows");
            let nth = rng.between(0, rows.len() as u64) as usize;
            let row = rows.values_mut().nth(nth).expect("it is one of them");
            let at = rng.between(0, row.len() as u64) as usize;
            let any = rng.next_u64() as u8;
            row[at] = *rng.pick(&[0, 1, 2, 0x7f, 0x80, 0xff, any]);
        }
        noticed += usize::from(load(&store).is_err());
    }
    assert!(noticed > 10_000, "{noticed}");
}

#[test]
fn every_missing_row_of_index_and_log_is_noticed() {
    for table in [Table::Index, Table::Log, Table::Meta] {
        for key in written().store.tables[&table].keys() {
            damage(table, |rows| {
                rows.remove(key);
            });
        }
    }
}

#[test]
fn a_key_in_the_index_that_the_log_does_not_know_is_noticed() {
    let found = damage(Table::Index, |rows| {
        let row = rows[b"a".as_slice()].clone();
        rows.insert(b"stranger".to_vec(), row);
    });
    assert_eq!(found.table, Table::Index);
}

#[test]
fn an_index_row_of_an_older_version_is_noticed() {
    let mut world = World::new();
    world.put("a", "1");
    let old = world.store.tables[&Table::Index].clone();
    world.put("a", "2");
    world.store.tables.insert(Table::Index, old);
    let found = load(&world.store).expect_err("damage is noticed");
    assert_eq!((found.table, found.what), (Table::Log, "the log is ahead of the index"));
    assert!(found.to_string().starts_with("table Log, row "), "{found}");
}
