use super::message::Message;
use super::*;
use base::{Revision, Table};
use bytes::Bytes;

fn put(key: &str, create: u64, modified: u64, version: u64, value: &str) -> Vec<u8> {
    let message = Message::default().bytes(1, key.as_bytes()).number(2, create).number(3, modified);
    message.number(4, version).bytes(5, value.as_bytes()).0
}

fn revision(main: u64, sub: u64, is_delete: bool) -> Vec<u8> {
    let mut bytes = [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes()].concat();
    bytes.extend(is_delete.then_some(TOMBSTONE));
    bytes
}

#[test]
fn rows_of_etcd_become_rows_of_ours() {
    let mut rows = Vec::new();
    let mut emit = |table: Table, key: &[u8], value: Option<&[u8]>| {
        rows.push((table, key.to_vec(), value.map(<[u8]>::to_vec)));
    };
    let mut import = Import::default();
    let keys = [
        (revision(2, 0, false), put("a", 2, 2, 1, "1")),
        (revision(3, 0, false), put("a", 2, 3, 2, "2")),
        (revision(3, 1, false), put("b", 3, 3, 1, "x")),
        (revision(4, 0, true), put("b", 0, 0, 0, "")),
    ];
    for (key, value) in keys {
        import.row(bucket::KEY, &key, value.into(), &mut emit).unwrap();
    }
    let lease = Message::default().number(1, 7).number(2, 60).0;
    import.row(bucket::LEASE, &7u64.to_be_bytes(), lease.into(), &mut emit).unwrap();
    import
        .row(bucket::META, b"consistent_index", Bytes::copy_from_slice(&9u64.to_be_bytes()), &mut emit)
        .unwrap();
    let meta = import.finish(&mut emit);
    assert_eq!((meta.revision, meta.compacted, meta.applied.index.0), (Revision(4), Revision::ZERO, 9));
    let count = |table| rows.iter().filter(|(other, ..)| *other == table).count();
    assert_eq!((count(Table::Log), count(Table::Versions), count(Table::Leases)), (4, 3, 1));
}

#[test]
fn what_etcd_does_not_write_is_refused() {
    let mut emit = |_: Table, _: &[u8], _: Option<&[u8]>| ();
    let good = || Bytes::from(put("a", 2, 2, 1, "1"));
    for (bucket, key, value) in [
        (bucket::KEY, b"short".to_vec(), good()),
        (bucket::KEY, revision(0, 0, false), good()),
        (bucket::KEY, [revision(2, 0, false), vec![b'x']].concat(), good()),
        (bucket::KEY, revision(2, 0, false), Bytes::from_static(b"\xff\xff")),
        (bucket::KEY, revision(2, 0, false), Bytes::new()),
        (bucket::LEASE, b"7".to_vec(), Bytes::new()),
        (bucket::LEASE, 7u64.to_be_bytes().to_vec(), Bytes::new()),
        (bucket::USERS, b"u".to_vec(), Bytes::from_static(b"\x0a\x02\xff\xff")),
        (bucket::META, b"term".to_vec(), Bytes::from_static(b"1")),
    ] {
        let refused = Import::default().row(bucket, &key, value.clone(), &mut emit);
        assert!(refused.is_err(), "{bucket} {key:?} {value:?}");
    }
    let mut import = Import::default();
    import.row(bucket::KEY, &revision(3, 0, false), good(), &mut emit).unwrap();
    assert!(import.row(bucket::KEY, &revision(2, 0, false), good(), &mut emit).is_err(), "out of order");
}
