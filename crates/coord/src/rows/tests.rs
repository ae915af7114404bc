//! The bytes of rows, as the format page draws them, and their order.

use super::*;
use crate::unindexed::Unindexed;
use base::Rng;
use std::collections::BTreeMap;

fn put_change() -> Change {
    let record =
        Record { create: Revision(2), version: 3, lease: LeaseId(0), value: Bytes::from_static(b"v") };
    Change {
        key: Bytes::from_static(b"k"),
        revision: Revision(9),
        sub: 1,
        prev: Revision(5),
        kind: ChangeKind::Put(record),
    }
}

fn emitted(change: &Change) -> BTreeMap<Table, (Vec<u8>, Option<Vec<u8>>)> {
    let mut rows = BTreeMap::new();
    let mut keep = |table, key: &[u8], value: Option<&[u8]>| {
        if table != Table::Meta {
            rows.insert(table, (key.to_vec(), value.map(<[u8]>::to_vec)));
        }
    };
    change_rows(std::slice::from_ref(change), &mut keep);
    let mut unindexed = Unindexed::default();
    unindexed.note(change);
    unindexed.write(&mut keep);
    rows
}

#[test]
fn a_put_writes_the_rows_that_the_format_page_draws() {
    let rows = emitted(&put_change());
    let row = |table: Table| {
        let (key, value) = &rows[&table];
        (key.as_slice(), value.as_deref().expect("written"))
    };
    assert_eq!(row(Table::Versions), (b"\0\0\0\0\0\0\0\x09k".as_slice(), b"\x01\x04\x06\0v".as_slice()));
    assert_eq!(
        row(Table::Log),
        (b"\0\0\0\0\0\0\0\x09\0\0\0\x01".as_slice(), b"\x01\x01\x0a\x04\x06\0\x01k".as_slice())
    );
    assert_eq!(row(Table::Index), (b"k".as_slice(), b"\x01\x12\x04\x06\0\x01".as_slice()));
}

#[test]
fn a_delete_leaves_a_line_in_the_log_and_takes_the_key_from_the_index() {
    let rows = emitted(&Change { kind: ChangeKind::Delete, ..put_change() });
    assert_eq!(rows[&Table::Log].1.as_deref(), Some(b"\x01\x02\x0ak".as_slice()));
    assert_eq!(rows[&Table::Index], (b"k".to_vec(), None));
    assert_eq!(rows.len(), 2);
}

#[test]
fn rows_are_read_back_as_they_were_written() {
    let change = put_change();
    let rows = emitted(&change);
    let value = |table: Table| Bytes::from(rows[&table].1.clone().expect("written"));
    let ChangeKind::Put(record) = &change.kind else { panic!("it is a put") };
    assert_eq!(record_from_row(value(Table::Versions)).as_ref(), Some(record));
    let logged = LoggedChange::from_row(value(Table::Log)).expect("whole");
    let put = LoggedPut { create: Revision(2), version: 3, lease: LeaseId(0), value_len: 1 };
    assert_eq!((logged.key, logged.prev, logged.put), (change.key, Revision(5), Some(put)));
    let current = current_from_row(value(Table::Index)).expect("whole");
    assert_eq!((current.modified, current.version, current.value_len), (Revision(9), 3, 1));
    assert_eq!(parse_log_key(&rows[&Table::Log].0), Some((Revision(9), 1)));
}

#[test]
fn version_keys_sort_by_revision_and_are_read_back() {
    let mut rng = Rng::new(3);
    let mut pairs: Vec<(Revision, Vec<u8>)> = (0..2_000)
        .map(|_| {
            let key = (0..rng.between(0, 5)).map(|_| *rng.pick(&[0, 1, 0x61, 0xfe, 0xff])).collect();
            (Revision(rng.between(1, 600) as i64), key)
        })
        .collect();
    pairs.sort();
    let row = |(revision, key): &(Revision, Vec<u8>)| {
        let mut row = Vec::new();
        version_key(key, *revision, &mut row);
        row
    };
    assert!(pairs.iter().map(row).is_sorted());
    for pair in &pairs {
        assert_eq!(parse_version_key(&row(pair)), Some((pair.1.as_slice(), pair.0)));
    }
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let mut rng = Rng::new(4);
    for _ in 0..20_000 {
        let row: Vec<u8> = (0..rng.between(0, 24))
            .map(|at| if at == 0 && rng.chance(800_000) { 1 } else { rng.next_u64() as u8 })
            .collect();
        parse_version_key(&row);
        parse_log_key(&row);
        parse_origin_key(&row);
        let row = Bytes::from(row);
        record_from_row(row.clone());
        current_from_row(row.clone());
        LoggedChange::from_row(row.clone());
        Meta::decode(row);
    }
}

#[test]
fn rows_of_changes_come_in_the_order_of_their_tables() {
    let changes: Vec<Change> = (0..200)
        .map(|number| Change {
            // A revision changes a key once.
            key: Bytes::from(vec![b'a' + (number % 3) as u8]),
            revision: Revision(number / 3 + 2),
            sub: (number % 3) as u32,
            ..put_change()
        })
        .collect();
    let mut rows = Vec::new();
    change_rows(&changes, &mut |table, key, _| rows.push((table, key.to_vec())));
    for table in Table::ALL {
        assert!(rows.iter().filter(|row| row.0 == table).is_sorted_by(|a, b| a < b), "{table:?}");
    }
}

#[test]
fn of_a_key_that_changed_often_one_row_of_the_index_is_written() {
    let at = |revision, kind| Change { revision: Revision(revision), kind, ..put_change() };
    let mut unindexed = Unindexed::default();
    unindexed.note(&at(9, put_change().kind));
    unindexed.note(&at(10, put_change().kind));
    unindexed.note(&at(11, ChangeKind::Delete));
    assert_eq!((unindexed.changes(), unindexed.keys()), (3, 1));
    let mut rows = Vec::new();
    unindexed.write(&mut |table, key, value| rows.push((table, key.to_vec(), value.map(<[u8]>::to_vec))));
    assert_eq!(rows[0], (Table::Index, b"k".to_vec(), None));
    assert_eq!(rows[1], (Table::Meta, b"indexed".to_vec(), Some(b"\x01\x16".to_vec())));
    assert_eq!((unindexed.changes(), unindexed.keys()), (0, 0));
}
